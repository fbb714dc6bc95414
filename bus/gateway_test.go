package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/perduretest"
)

type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

var paid = perdure.NewSignal[order]("paid")

// shop returns a gateway and the workflows that are registered with it.
func shop() (*bus.Gateway, *perdure.Workflow[order, string], *perdure.Workflow[order, string]) {
	g := bus.NewGateway()
	fulfil := perdure.Define("fulfil", func(ctx context.Context, o order) (string, error) {
		p, err := paid.Wait(ctx)
		return fmt.Sprint(o.ID, " ", o.Cents, " ", p.Cents), err
	}, g.Starts("order.placed", bus.Route{Field: "id"}))
	audit := perdure.Define("audit", func(_ context.Context, o order) (string, error) {
		return "seen " + o.ID, nil
	}, g.Starts("order.placed", bus.Route{
		If: func(e *event.Event) bool { return strings.Contains(string(e.Data), "99") },
	}))
	if err := g.Signal("payment.made", "paid", bus.Route{Field: "id"}); err != nil {
		panic(err)
	}
	return g, fulfil, audit
}

func with(id, kind, data string) event.Event {
	e := event.Event{ID: id, Source: "/shop", Type: kind, Subject: "s"}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

// routes delivers an event to a gateway.
func routes(env *perduretest.Env, g *bus.Gateway, e event.Event) {
	env.Helper()
	if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
		env.Errorf("event %s: %v", e.ID, err)
	}
}

// spec: F-11, L-20
func TestEventsStartAndSignalRuns(t *testing.T) {
	g, fulfil, audit := shop()
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, e := range []event.Event{
			with("1", "order.placed", `{"id": "o-1", "cents": 5}`),
			with("1", "order.placed", `{"id": "o-1", "cents": 5}`), // delivered again
			with("2", "order.placed", `{"id": "o-2", "cents": 99}`),
			with("3", "payment.made", `{"id": "o-3", "cents": 7}`), // before its order
			with("4", "order.placed", `{"id": "o-3", "cents": 6}`),
			with("5", "payment.made", `{"id": "o-1", "cents": 5}`),
			with("5", "payment.made", `{"id": "o-1", "cents": 5}`),
			with("6", "strange", `{}`),
			with("7", "other", `{}`),
		} {
			routes(env, g, e)
			env.Settle()
		}
		for id, want := range map[string]string{"o-1": "o-1 5 5", "o-3": "o-3 6 7"} {
			perduretest.Get(env, fulfil, id).Returns(want)
		}
		perduretest.Get(env, audit, "2").Returns("seen o-2")
		all, _, err := env.Engine().List(env.Context(), perdure.Query{})
		if err != nil || len(all) != 4 {
			t.Errorf("%d runs, %v", len(all), err)
		}
	}, fulfil, audit)
	want := map[string]int64{"order.placed": 4, "payment.made": 3, bus.CountUnknown: 2}
	if got := g.Counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the counts are %v, want %v", got, want)
	}
	var all []string
	for _, r := range g.Registrations() {
		all = append(all, fmt.Sprint(r.Type, " ", r.Effect, " ", r.Name, " ", r.Field))
	}
	if !slices.Equal(all, []string{"order.placed start fulfil id", "order.placed start audit ",
		"payment.made signal paid id"}) {
		t.Errorf("the registrations are %q", all)
	}
	if !g.Handles("order.placed") || g.Handles("strange") {
		t.Error("Handles is wrong")
	}
}

// spec: F-11
func TestAWorkflowThatNamesItsTriggerIsAdopted(t *testing.T) {
	g := bus.NewGateway()
	does := func(_ context.Context, o order) (string, error) { return o.ID, nil }
	named := perdure.Define("named", does, perdure.About{Trigger: "order.placed", IDField: "id"})
	other := perdure.Define("other", does)
	own := perdure.Define("own", does, g.Starts("order.placed", bus.Route{}))
	perduretest.Test(t, func(env *perduretest.Env) {
		if err := g.Adopt(env.Engine().Workflows()); err != nil {
			t.Error(err)
		}
		for _, r := range env.Engine().Workflows() {
			if want := r.Name == "other"; (r.Outline.Trigger == "") != want {
				t.Errorf("%s has the trigger %q", r.Name, r.Outline.Trigger)
			}
		}
		e := with("1", "order.placed", `{"id": "o-1"}`)
		routes(env, g, e)
		perduretest.Get(env, named, "o-1").Returns("o-1")
		perduretest.Get(env, own, "1").Returns("o-1")
	}, named, other, own)
	if all := g.Registrations(); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// spec: F-11, L-20
func TestAnEventThatCannotFindItsRunIsRejected(t *testing.T) {
	g, fulfil, audit := shop()
	other := perdure.Define("other", func(ctx context.Context, _ order) (string, error) {
		_, err := paid.Wait(ctx)
		return "", err
	})
	if err := g.Start("empty", "fulfil", bus.Route{ID: func(*event.Event) (string, error) {
		panic("no ID")
	}}); err != nil {
		t.Fatal(err)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, other, order{}, perdure.ID("o-7"))
		for _, e := range []event.Event{
			with("1", "order.placed", `{"cents": 5}`),
			with("1", "order.placed", `{"id": {}}`),
			with("1", "order.placed", `[1]`),
			with("1", "order.placed", ``),
			with("1", "order.placed", `{"id": "two words"}`),
			with("1", "order.placed", `{"id": "o-7"}`), // a run of another workflow has it
			with("1", "payment.made", `{"id": ""}`),
			{ID: "1"},
		} {
			err := g.On(env.Context(), env.Engine().Client, e)
			var r bus.Rejection
			if !errors.As(err, &r) {
				t.Errorf("%s: %v is no rejection", e.Data, err)
			}
		}
		if err := g.On(env.Context(), env.Engine().Client, with("1", "empty", "")); err == nil {
			t.Error("a panic is no error")
		}
	}, fulfil, audit, other)
	if n := g.Counts()["order.placed"]; n != 0 {
		t.Errorf("%d events are counted", n)
	}
}

func TestARouteNeedsItsParts(t *testing.T) {
	g := bus.NewGateway()
	for i, err := range []error{
		g.Start("", "w", bus.Route{}), g.Start("t", "two words", bus.Route{}),
		g.Signal("t", "", bus.Route{}), g.Wake("t", ""), g.Wake("", "f"),
	} {
		if err == nil {
			t.Errorf("route %d is accepted", i)
		}
	}
	for range 2 { // the second one replaces the first
		if err := errors.Join(g.Start("t", "w", bus.Route{}), g.Wake("t", "f")); err != nil {
			t.Error(err)
		}
	}
	if all := g.Registrations(); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// An event wakes every wait that is open when it arrives, in whichever run, and no other.
//
// spec: L-6, F-11
func TestAnEventWakesTheWaitsThatAreOpen(t *testing.T) {
	g := bus.NewGateway()
	if err := errors.Join(g.Wake("stock", "item"), g.Wake("stock", "shop.name")); err != nil {
		t.Fatal(err)
	}
	big := perdure.Where(func(o order) bool { return o.Cents > 10 })
	waits := perdure.Define("waits", func(ctx context.Context, item string) (string, error) {
		var out []string
		double := perdure.Go(ctx, "double", func(ctx context.Context) (order, error) {
			return bus.Wait[order](ctx, "stock", "item", item)
		})
		first, err := bus.Wait[order](ctx, "stock", "item", item)
		if err != nil {
			return "", err
		}
		second, err := double.Await(ctx)
		if err != nil {
			return "", err
		}
		third, err := bus.Wait[order](ctx, "stock", "shop.name", "x", big)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprint(first.Cents, second.Cents, third.Cents))
		_, err = bus.Wait[order](ctx, "stock", "item", item, perdure.Within(time.Hour))
		if err == nil {
			out = append(out, "late")
		}
		return strings.Join(out, " "), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		a := perduretest.Start(env, waits, "nut", perdure.ID("a"))
		b := perduretest.Start(env, waits, "nut", perdure.ID("b"))
		perduretest.Start(env, waits, "bolt", perdure.ID("c"))
		env.Settle()
		for i, data := range []string{
			`{"item": "nut", "cents": 1, "shop": {"name": "y"}}`,
			`{"item": "x", "cents": 2, "shop": {"name": "x"}}`, // the condition does not hold
			`{"item": "nut", "cents": 33, "shop": {"name": "x"}}`,
		} {
			for range 2 - i/2 { // the first two are delivered twice
				e := with(fmt.Sprint(i), "stock", data)
				routes(env, g, e)
				env.Settle()
			}
			env.Crash()
		}
		env.Sleep(2 * time.Hour)
		a.Returns("1 1 33")
		b.Returns("1 1 33")
		d, err := env.Engine().Describe(env.Context(), "c")
		if err != nil || len(d.Waits) != 2 {
			t.Errorf("%+v, %v", d.Waits, err)
		}
	}, waits)
}

// spec: F-10
func TestAFieldIsATextANumberOrABoolean(t *testing.T) {
	e := with("1", "t",
		`{"a": {"b": 12345678901234567890}, "c": true, "d": null, "e": [1], "f": ""}`)
	for path, want := range map[string]string{
		"a.b": "12345678901234567890", "c": "true", "f": "", "d": "!", "e": "!", "a": "!", "g": "!",
		"a.b.c": "!", "": "!",
	} {
		got, err := bus.Field(&e, path)
		if (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
}

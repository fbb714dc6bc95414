package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/perduretest"
)

// An event that is delivered again when its run has taken it and ended is not sent to the next run
// of the workflow ID.
func TestASignalThatComesTwiceIsSentOnce(t *testing.T) {
	g, fulfil, audit := shop()
	perduretest.Test(t, func(env *perduretest.Env) {
		first := perduretest.Start(env, fulfil, order{ID: "o", Cents: 1}, perdure.ID("o"))
		env.Settle()
		e := with("5", "payment.made", `{"id": "o", "cents": 5}`)
		for range 2 {
			routes(env, g, e)
			env.Settle()
		}
		first.Returns("o 1 5")
		env.Sleep(time.Hour)
		perduretest.Start(env, fulfil, order{ID: "o", Cents: 2}, perdure.ID("o"), perdure.Dedup(0))
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "o")
		if err != nil || d.Head.Status.IsTerminal() {
			t.Errorf("the second run is %v by the payment of the first, %v", d.Head.Status, err)
		}
	}, fulfil, audit)
}

// An event that comes twice before its run is one signal.
func TestAnUnroutedSignalThatComesTwiceIsSentOnce(t *testing.T) {
	g, fulfil, audit := shop()
	perduretest.Test(t, func(env *perduretest.Env) {
		e := with("5", "payment.made", `{"id": "o", "cents": 5}`)
		for range 2 {
			routes(env, g, e)
		}
		perduretest.Start(env, fulfil, order{ID: "o", Cents: 1}, perdure.ID("o")).Returns("o 1 5")
		d, err := env.Engine().Describe(env.Context(), "o")
		if err != nil || len(d.Unread) > 0 {
			t.Errorf("unread: %+v, %v", d.Unread, err)
		}
	}, fulfil, audit)
}

// The runs of a route know an event for the time that the route asks for, also over a replay.
//
// spec: F-11, L-20
func TestAReplayStartsNoSecondRun(t *testing.T) {
	g, fulfil, audit := shop()
	week := bus.Route{Known: 7 * 24 * time.Hour}
	if err := g.Start("order.placed", "audit", week); err != nil {
		t.Fatal(err)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		e := with("1", "order.placed", `{"id": "o", "cents": 99}`)
		for range 2 { // the second one is the replay of a dead letter, after the weekend
			routes(env, g, e)
			env.Sleep(60 * time.Hour)
		}
		all, _, err := env.Engine().List(env.Context(), perdure.Query{Workflow: "audit"})
		if err != nil || len(all) != 1 {
			t.Errorf("%d runs of audit, %v", len(all), err)
		}
	}, fulfil, audit)
}

// A registration takes the place of one with the same effect, name and field only.
//
// spec: F-11
func TestTwoFieldsAreTwoRoutes(t *testing.T) {
	g := bus.NewGateway()
	for _, field := range []string{"buyer", "seller"} {
		if err := g.Signal("sold", "sold", bus.Route{Field: field}); err != nil {
			t.Fatal(err)
		}
	}
	if all := g.Registrations(); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// An event may lack one of two fields by which it wakes waits. It wakes those of the other one.
//
// spec: L-6
func TestAnEventWithoutAFieldWakesByTheOther(t *testing.T) {
	g := bus.NewGateway()
	if err := errors.Join(g.Wake("stock", "item"), g.Wake("stock", "shop")); err != nil {
		t.Fatal(err)
	}
	waits := perdure.Define("waits", func(ctx context.Context, field string) (string, error) {
		_, err := bus.Wait[order](ctx, "stock", field, "nut")
		return field, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		item := perduretest.Start(env, waits, "item")
		perduretest.Start(env, waits, "shop", perdure.ID("shop"))
		env.Settle()
		e := with("1", "stock", `{"item": "nut"}`)
		routes(env, g, e)
		item.Returns("item")
		d, err := env.Engine().Describe(env.Context(), "shop")
		if err != nil || d.Head.Status.IsTerminal() {
			t.Errorf("the run that waits for a shop is %v, %v", d.Head.Status, err)
		}
	}, waits)
}

// Events that a wait does not want do not stay in the inbox of the run.
//
// spec: L-6
func TestEventsThatNoWaitTakesAreNotKept(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	big := perdure.Where(func(o order) bool { return o.Cents > 1000 })
	waits := perdure.Define("waits", func(ctx context.Context, item string) (string, error) {
		_, err := bus.Wait[order](ctx, "stock", "item", item, big)
		if err != nil {
			return "", err
		}
		return "", perdure.Sleep(ctx, 1000*time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		for i := range 60 {
			e := with(fmt.Sprint(i), "stock", `{"item": "nut", "cents": 1}`)
			routes(env, g, e)
			env.Settle()
		}
		e := with("big", "stock", `{"item": "nut", "cents": 1001}`)
		routes(env, g, e)
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "a")
		if err != nil || len(d.Unread) > 0 {
			t.Errorf("the wait is over, and %d events that nobody can take are kept, %v",
				len(d.Unread), err)
		}
	}, waits)
}

// A wait that has refused one event hears of the next, also if that comes at once.
//
// spec: L-6
func TestAnEventAfterAnUnwantedOneWakesTheWait(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	big := perdure.Where(func(o order) bool { return o.Cents > 10 })
	waits := perdure.Define("waits", func(ctx context.Context, item string) (int, error) {
		o, err := bus.Wait[order](ctx, "stock", "item", item, big, perdure.Within(24*time.Hour))
		return o.Cents, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		for i, cents := range []int{1, 33} {
			e := with(fmt.Sprint(i), "stock", fmt.Sprintf(`{"item": "nut", "cents": %d}`, cents))
			routes(env, g, e)
		}
		run.Returns(33)
	}, waits)
}

// A wait has an attribute of the run, by which it is found. It goes with the wait.
//
// spec: L-6
func TestAWaitThatIsOverLeavesNoAttribute(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	waits := perdure.Define("waits", func(ctx context.Context, n int) (string, error) {
		for i := range n {
			if _, err := bus.Wait[order](ctx, "stock", "item", fmt.Sprint(i)); err != nil {
				return "", err
			}
		}
		return "", perdure.Sleep(ctx, 1000*time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, waits, 50, perdure.ID("a"))
		for i := range 50 {
			env.Settle()
			e := with(fmt.Sprint(i), "stock", fmt.Sprintf(`{"item": "%d", "cents": 1}`, i))
			routes(env, g, e)
		}
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "a")
		if err != nil || len(d.State.Attributes) > 1 {
			t.Errorf("%d attributes, %v", len(d.State.Attributes), err)
		}
	}, waits)
}

// A wait is open also while the run stays loaded.
func TestAnEventWakesARunThatIsLoaded(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	waits := perdure.Define("waits", func(ctx context.Context, item string) (int, error) {
		o, err := bus.Wait[order](ctx, "stock", "item", item)
		return o.Cents, err
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{waits},
		Options:   perdure.Options{IdleTimeout: time.Hour},
	}.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		e := with("1", "stock", `{"item": "nut", "cents": 7}`)
		routes(env, g, e)
		run.Returns(7)
	})
}

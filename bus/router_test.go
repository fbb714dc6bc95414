package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// system returns three orchestrators of an order on one bus in process: orders asks for the payment
// and the shipment by children, which answer it.
func system(publish func(context.Context, []event.Event) error,
	memory func() orchestrator.Memory[orchestrator.Record]) map[string]*orchestrator.Orchestrator {
	handlers := map[string]func(context.Context, *orchestrator.Turn) error{
		"orders": func(_ context.Context, t *orchestrator.Turn) error {
			switch t.Event.Type {
			case "order.placed":
				t.Begin(event.Event{Type: "payment.wanted", Subject: "pay-" + t.Event.Subject})
			case "payment.made":
				t.Begin(event.Event{Type: "shipment.wanted", Subject: "ship-" + t.Event.Subject})
			case "shipment.done":
				t.Answer(event.Event{Type: "order.done"})
				t.Finish()
			case orchestrator.SystemError:
				t.Answer(event.Event{Type: "order.failed"})
				t.Finish()
			}
			return t.Become(t.Event.Type)
		},
		"payments": func(_ context.Context, t *orchestrator.Turn) error {
			if strings.HasSuffix(t.Event.Subject, "poor") {
				return errors.New("no money")
			}
			t.Answer(event.Event{Type: "payment.made"})
			t.Finish()
			return nil
		},
		"shipments": func(_ context.Context, t *orchestrator.Turn) error {
			t.Answer(event.Event{Type: "shipment.done"})
			t.Finish()
			return nil
		},
	}
	initial := map[string]string{
		"orders": "order.placed", "payments": "payment.wanted", "shipments": "shipment.wanted",
	}
	all := map[string]*orchestrator.Orchestrator{}
	for name, h := range handlers {
		all[name] = &orchestrator.Orchestrator{
			Source: name, Memory: memory(), Publish: publish,
			Versions: []orchestrator.Version{{Initial: []string{initial[name]}, Handle: h}},
		}
	}
	return all
}

// spec
func TestThreeOrchestratorsOnABusInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, outside, d := &bus.Local{}, &handler{}, &handler{}
		all := system(func(ctx context.Context, events []event.Event) error {
			return local.Publish(ctx, "t", events)
		}, func() orchestrator.Memory[orchestrator.Record] {
			return &orchestrator.Local[orchestrator.Record]{}
		})
		router := bus.Router{{Source: "/shop", On: outside.Handle}}
		for name, o := range all {
			router = append(router, bus.Handler{
				Source: name, Types: o.Versions[0].Initial, On: bus.Done(o.On),
			})
		}
		d.handle = nil
		c := d.consumer(local)
		c.Handle = router.Handle
		stop := runs(t, c)
		for range 2 { // each is delivered twice
			for i := range 5 {
				e := about(fmt.Sprint("o", i), i)
				e.Type, e.Source = "order.placed", "/shop"
				publish(t, local, e)
			}
			poor := about("poor", 9)
			poor.Type, poor.Source = "order.placed", "/shop"
			publish(t, local, poor, about("x", 10)) // nobody takes the last one
		}
		time.Sleep(time.Hour)
		stop()
		bySubject, ids := outside.ids()
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 6 || len(bySubject) != 6 {
			t.Errorf("the shop gets %+v", outside.done)
		}
		for _, e := range outside.done {
			if want := map[bool]string{true: "order.failed", false: "order.done"}; e.Type !=
				want[e.Subject == "poor"] {
				t.Errorf("%s is %s", e.Subject, e.Type)
			}
		}
		if len(d.letters) != 2 || !strings.Contains(d.letters[0].Err.Error(), `"x"`) {
			t.Errorf("the letters are %+v", d.letters)
		}
	})
}

// spec: A-16
func TestARouterAsksAgainWhileOneOfItsHandlersMayWork(t *testing.T) {
	rejects := func(context.Context, event.Event) error { return bus.Reject(errNo) }
	fails := func(context.Context, event.Event) error { return errNo }
	works := func(context.Context, event.Event) error { return nil }
	types := []string{"x"}
	for i, c := range []struct {
		on   []func(context.Context, event.Event) error
		to   string
		want string
	}{
		{[]func(context.Context, event.Event) error{works, works}, "", ""},
		{[]func(context.Context, event.Event) error{works, rejects}, "", "rejected"},
		{[]func(context.Context, event.Event) error{rejects, fails}, "", "failed"},
		{[]func(context.Context, event.Event) error{rejects, works}, "1", ""},
		{[]func(context.Context, event.Event) error{works, works}, "2", "rejected"},
		{nil, "", "rejected"},
	} {
		var r bus.Router
		for n, on := range c.on {
			r = append(r, bus.Handler{Source: fmt.Sprint(n), Types: types, On: on})
		}
		e := about("a", 1)
		if c.to != "" {
			e.Extensions = map[string]string{event.ExtTo: c.to}
		}
		err := r.Handle(t.Context(), e)
		var rejected bus.Rejection
		got := ""
		switch {
		case errors.As(err, &rejected):
			got = "rejected"
		case err != nil:
			got = "failed"
		}
		if got != c.want {
			t.Errorf("case %d: %v, want %q", i, err, c.want)
		}
	}
}

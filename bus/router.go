package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// A Router passes each event to the handlers that take it. With a [Local] and a [Consumer] it is
// the bus of a program of one process:
//
//	local := &bus.Local{}
//	router := bus.Router{
//		{Source: "orders", Types: []string{"order.placed"}, On: bus.Done(orders.On)},
//	}
//	consumer := bus.Consumer{
//		Broker: local, Topics: []string{"events"}, Handle: router.Handle, ...,
//	}
type Router []Handler

// A Handler is one of those that a [Router] knows.
type Handler struct {
	Source string   // by which events are sent to this handler alone (event.ExtTo)
	Types  []string // of the events that it takes from everybody
	On     func(ctx context.Context, e event.Event) error
}

// Done returns a handler for a router, a consumer or a webhook from one that also returns an
// outcome, such as that of an orchestrator.
func Done[T any](on func(context.Context, event.Event) (T, error)) func(context.Context,
	event.Event) error {
	return func(ctx context.Context, e event.Event) error {
		_, err := on(ctx, e)
		return err
	}
}

// Handle passes an event on: if it is sent to one handler, to that one, and else to all that take
// its type. What nobody takes is rejected, and so becomes a dead letter of the consumer. If one of
// several handlers fails, all get the event again.
func (r Router) Handle(ctx context.Context, e event.Event) error {
	var all []error
	taken, to := false, e.Extensions[event.ExtTo]
	for i := range r {
		h := &r[i]
		if to != "" && to != h.Source || to == "" && !slices.Contains(h.Types, e.Type) {
			continue
		}
		taken = true
		if err := guard.Call(func() error { return h.On(ctx, e) }); err != nil {
			all = append(all, fmt.Errorf("bus: %s: %w", h.Source, err))
		}
	}
	if !taken {
		return Reject(fmt.Errorf("bus: nobody takes events of type %.100q%s", e.Type, toWhom(to)))
	}
	return worst(all)
}

func toWhom(to string) string {
	if to == "" {
		return ""
	}
	return fmt.Sprintf(" that are sent to %.100q", to)
}

// worst returns one error for those of several handlers: while one of them may work at another try,
// it is no rejection.
func worst(all []error) error {
	for _, err := range all {
		if !Rejects(err) {
			return err
		}
	}
	return errors.Join(all...)
}

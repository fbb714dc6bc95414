package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// A Stateless handles each event by itself: it has no memory and no instances. What it emits goes
// to the reply address of the event (replyto), and else to its source. An event that is delivered
// again is handled again, and what follows has the same IDs as before. Its fields do not change
// once it has handled an event.
type Stateless struct {
	Source string // of the events that it emits: a URI reference
	// Versions has a handler for each version of the contract. The schema of an event names its
	// version. Initial has no meaning here, and neither have the state and the end of a [Turn].
	Versions []Version
	// Publish, Around and Observe are as those of an [Orchestrator].
	Publish func(ctx context.Context, events []event.Event) error
	Around  func(ctx context.Context, e event.Event,
		handle func(context.Context, event.Event) (Outcome, error)) (Outcome, error)
	Observe func(ctx context.Context, n Notice)
}

// On handles an event that was delivered, and publishes what follows. See [Orchestrator.On].
func (s *Stateless) On(ctx context.Context, e event.Event) (Outcome, error) {
	o := &Orchestrator{
		Source: s.Source, Versions: s.Versions, Around: s.Around, Observe: s.Observe,
	}
	return o.around(ctx, e, func(ctx context.Context, e event.Event) (out Outcome, err error) {
		if err := valid(&e); err != nil {
			return "", err
		}
		h := handling{Orchestrator: o, of: &e}
		if s.Publish == nil {
			return "", h.fails("handle", errors.New("the handler lacks Publish"))
		}
		out, events, err := s.answer(ctx, &e)
		if v := (*Violation)(nil); errors.As(err, &v) {
			return "", err
		}
		if err != nil {
			return "", h.fails("handle", err)
		}
		if len(events) > 0 {
			err = guard.Call(func() error { return s.Publish(ctx, events) })
		}
		if err != nil {
			return "", h.fails("publish", err)
		}
		return out, nil
	})
}

// answer calls the handler of the event's version, and returns what follows. The error is a
// [Violation], or the event has to be delivered again.
func (s *Stateless) answer(ctx context.Context, e *event.Event) (Outcome, []event.Event, error) {
	if to := e.Extensions[event.ExtTo]; to != "" && to != s.Source {
		return EventIgnored, nil, nil
	}
	v, err := versions(s.Versions).of(e.Schema)
	if err == nil {
		err = check(e, v.Accepts, "accepts")
	}
	if err != nil {
		return "", nil, &Violation{e.ID, err}
	}
	to := cmp.Or(e.Extensions[event.ExtReplyTo], e.Source)
	t := &Turn{Event: *e, Initiator: to, source: s.Source}
	failed, out := guard.Call(func() error { return v.Handle(ctx, t) }), EventHandled
	if err := interrupted(ctx, failed); err != nil {
		return "", nil, err
	}
	if failed != nil {
		out, t.emits = EventFailed, nil
		if e.Type != SystemError { // two handlers would answer each other's errors for ever
			t.Emit(systemError(failed))
		}
	}
	all := slices.Clone(t.emits)
	for i := range all {
		all[i] = with(all[i], map[string]string{event.ExtTo: to})
	}
	events, err := emitted(all, v, e, s.Source, time.Now().UTC())
	if err != nil {
		return "", nil, &Violation{e.ID, err}
	}
	return out, events, nil
}

package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// An Outcome is the result of the handling of an event.
type Outcome string

// The outcomes.
const (
	EventHandled   Outcome = "handled"   // the handler was called, and its result is stored
	EventAccepted  Outcome = "accepted"  // a [Durable] has it, and handles it in its turn
	EventDuplicate Outcome = "duplicate" // the event was consumed before
	EventIgnored   Outcome = "ignored"   // no such instance, or it has ended; or for another one
	EventFailed    Outcome = "failed"    // the handler has returned an error, and that is stored
)

// A Violation is the error of an event that will never be handled, because it breaks a contract, or
// because the events that the handler emits do. The state stays as it was.
type Violation struct {
	ID  string // of the event
	Err error  // names all defects
}

// Error returns the ID of the event and its defects.
func (v *Violation) Error() string { return "orchestrator: event " + v.ID + ": " + v.Err.Error() }

// Rejects returns true, by which consumers of a bus see that another try does not change it.
func (v *Violation) Rejects() bool { return true }

// Unwrap returns the defects.
func (v *Violation) Unwrap() error { return v.Err }

// valid returns how an event is no event for an orchestrator, as a [Violation].
func valid(e *event.Event) error {
	err := e.Check()
	if e.Subject == "" {
		err = errors.Join(err, errors.New("subject is missing: it names the instance"))
	}
	if err != nil {
		return &Violation{e.ID, err}
	}
	return nil
}

// A decision is the outcome of an event with the record that follows. Whoever carries it out stores
// the record and publishes its outbox.
type decision struct {
	Outcome
	next Record
}

// decide returns what an event leads to, from the record of its instance; nil for none. The error
// is a [Violation], or the event has to be delivered again.
func (o *Orchestrator) decide(ctx context.Context, last *Record, e *event.Event,
	now time.Time) (decision, error) {
	next := begun(e)
	if last != nil {
		next = *last
	}
	out, v, err := o.admit(last, &next, e)
	if v == nil || err != nil {
		return decision{out, next}, err
	}
	return o.execute(ctx, v, next, e, now)
}

// admit returns the version that handles an event of an instance, or why none does: an outcome, or
// a [Violation]. next is the record; last is nil if it is not stored yet.
func (o *Orchestrator) admit(last, next *Record, e *event.Event) (Outcome, *Version, error) {
	if p := e.Extensions[event.ExtParent]; p != "" && p != next.Parent {
		return "", nil, &Violation{e.ID, fmt.Errorf("%s is %.100q, and the instance has %q",
			event.ExtParent, p, next.Parent)}
	}
	versions := versions(o.Versions)
	switch to := e.Extensions[event.ExtTo]; {
	case to != "" && to != o.Source:
		return EventIgnored, nil, nil
	case next.has(e):
		return EventDuplicate, nil, nil
	case next.Ended != "", last == nil && !versions.creates(e.Type):
		return EventIgnored, nil, nil
	case last == nil:
		next.Version = e.Schema
	}
	v, err := versions.of(next.Version)
	if err == nil {
		next.Version = v.URI
		if last == nil && !slices.Contains(v.Initial, e.Type) { // it is initial in another version
			return EventIgnored, nil, nil
		}
		err = check(e, v.Accepts, "accepts")
	}
	if err != nil {
		return "", nil, &Violation{e.ID, err}
	}
	return "", v, nil
}

// execute calls the handler of a version.
func (o *Orchestrator) execute(ctx context.Context, v *Version, r Record, e *event.Event,
	now time.Time) (decision, error) {
	t := &Turn{
		Event: *e, Parent: r.Parent, Initiator: r.Initiator, source: o.Source, state: r.State,
	}
	failed := guard.Call(func() error { return v.Handle(ctx, t) })
	if err := interrupted(ctx, failed); err != nil {
		return decision{}, err
	}
	remember := o.Remember
	if remember == 0 {
		remember = 24 * time.Hour
	}
	next, out := r.consumes(e, now, remember), EventHandled
	if failed != nil {
		out, next.Ended, t.emits = EventFailed, InstanceBroken, nil
		next.Broken = guard.Text(failed)
		t.Answer(systemError(failed))
	} else {
		next.State = t.state
		if t.ends {
			next.Ended, next.Unclean = InstanceFinished, true
		}
	}
	events, err := emitted(t.emits, v, e, o.Source, now)
	if err != nil {
		return decision{}, &Violation{e.ID, err}
	}
	next.Outbox = append(slices.Clone(r.Outbox), events...)
	return decision{out, next}, nil
}

// Again returns an error by which a handler does not fail, but asks for the event once more, later:
// what it needs does not answer at the moment. Nothing of the call counts.
func Again(err error) error { return again{err} }

type again struct{ error }

func (a again) Unwrap() error { return a.error }

// interrupted returns an error if a handler that has failed is to be called again.
func interrupted(ctx context.Context, failed error) error {
	var a again
	switch {
	case failed == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(failed, &a):
		return failed
	}
	return nil
}

// emitted returns the events of a handler with their own attributes, or all their defects.
func emitted(all []event.Event, v *Version, from *event.Event, source string, now time.Time) (
	[]event.Event, error) {
	events := make([]event.Event, len(all))
	var errs []error
	for i := range all {
		e := follow(i+1, all[i], from, source)
		if e.Time.IsZero() {
			e.Time = now
		}
		if err := errors.Join(e.Check(), check(&e, v.Emits, "emits")); err != nil {
			errs = append(errs, fmt.Errorf("event %d of the handler, %.100q: %w", i+1, e.Type, err))
		}
		events[i] = e
	}
	return events, errors.Join(errs...)
}

func systemError(err error) event.Event {
	data, _ := json.Marshal(map[string]string{"error": guard.Text(err)}) //nolint:errchkjson // texts
	return event.Event{Type: SystemError, Data: data}
}

package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// A Durable is an orchestrator on the durable kernel, which is its memory. Each instance is a run,
// whose workflow ID is the source, a colon and the subject. A run takes one event after the other,
// so there is no lock to take; its state, the events that follow, and the ID of the event are one
// commit of its journal. Engines need it registered, as they need any workflow.
//
//	var orders = orchestrator.Define(orchestrator.Orchestrator{Source: "orders", Versions: ...})
//
//	engine.Register(orders)
//	out, err := orders.On(ctx, engine, e)
//
// What the handler emits goes to the publisher of the engine, as a [perdure.Event] of the kind
// [event.Kind] whose data is the event in JSON. An instance that has finished is a run that has
// COMPLETED with the last state, and a broken one is a run that has FAILED. To have a broken one
// handle its last event again, after a fix, an operator forks its run at that step; a retry fails
// in the same way again.
//
// Around is called around the handling, in the run. Observe is told twice of an event: when it was
// delivered, and when it was handled, which may come again after a crash.
type Durable struct {
	*perdure.Workflow[Instance, json.RawMessage]
	def  Orchestrator
	open openRuns
}

// An Instance is the input of a run. Only [Durable.On] and the run itself make one.
type Instance struct {
	First  *event.Event `json:"first,omitempty"`  // that has started it; nil if a run goes on
	Key    string       `json:"key,omitempty"`    // of that event
	Record *Record      `json:"record,omitempty"` // nil until an event was handled
}

// Define returns an orchestrator on the durable kernel. The source of o is the name of the
// workflow. Its Memory, Publish, TTL and Log have no meaning here.
func Define(o Orchestrator, opts ...perdure.WorkflowOption) *Durable {
	d := &Durable{def: o}
	opts = slices.Concat([]perdure.WorkflowOption{pattern.Orchestrator}, opts,
		[]perdure.WorkflowOption{pattern.Declared(d.declare)})
	d.Workflow = perdure.Define(o.Source, d.run, opts...)
	return d
}

func (d *Durable) declare() (definition.Outline, []definition.Issue) {
	if err := d.def.Check(); err != nil {
		return definition.Outline{}, []definition.Issue{definition.Wrong("versions", err)}
	}
	var out definition.Outline
	for i := range d.def.Versions {
		out.Contracts = append(out.Contracts, d.def.Versions[i].contract())
	}
	return out, nil
}

// events is the signal by which a run gets its events.
var events = perdure.NewSignal[json.RawMessage]("event")

// attributeParent is the search attribute that has the subject of an instance's parent.
const attributeParent = "parent"

// turnover is how many events a run handles before it goes on as a new one, with a new journal.
const turnover = 200

// insistently is how the step of a handler is tried again: for ever. What fails in it for good is
// the end of the instance, and not of its step.
var insistently = perdure.Retry{Attempts: math.MaxInt32, Cap: 30 * time.Second}

// A verdict is a decision as the journal has it.
type verdict struct {
	Violation string  `json:"violation,omitempty"`
	Next      *Record `json:"next,omitempty"` // nil if it stays as it was
}

// run is the workflow code of an instance.
func (d *Durable) run(ctx context.Context, in Instance) (json.RawMessage, error) {
	first := in.First
	in.First = nil
	for n := range turnover {
		e, err := first, error(nil)
		if first == nil {
			e, err = d.next(ctx, n, in.Record == nil)
		}
		if e == nil || err != nil {
			return nil, err
		}
		if err := d.turn(ctx, &in, e, first != nil); err != nil {
			return nil, err
		}
		first = nil
		if in.Record != nil && in.Record.Ended != "" {
			return d.end(ctx, in)
		}
	}
	return nil, perdure.ContinueAsNew(ctx, in)
}

// next waits for the next event; nil if none comes to a run that has no instance.
func (d *Durable) next(ctx context.Context, n int, empty bool) (*event.Event, error) {
	for ; ; n++ {
		var limit []perdure.WaitOption
		if empty { // the first event was a violation
			limit = append(limit, perdure.Within(max(emptyFor, d.remember())))
		}
		data, err := events.Wait(ctx, limit...)
		if empty && journal.CodeOf(err) == journal.CodeTimedOut && ctx.Err() == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		e := &event.Event{}
		if err = json.Unmarshal(data, e); err == nil {
			return e, nil
		}
		err = deadletter.Add(ctx, "handle", fmt.Errorf("signal %s is no event: %w", events.Name(),
			err), perdure.Key(fmt.Sprint("signal-", n)))
		if err != nil {
			return nil, err
		}
	}
}

// emptyFor is how long a run waits for an event that creates an instance, when its first one was a
// violation. After that, the subject has ended, as far as its run is kept.
const emptyFor = 7 * 24 * time.Hour

func (d *Durable) remember() time.Duration { return cmp.Or(d.def.Remember, 24*time.Hour) }

// turn handles an event, and stores what follows in the instance.
func (d *Durable) turn(ctx context.Context, in *Instance, e *event.Event, first bool) error {
	known := !first && e.Key() == in.Key
	v, err := perdure.Step(ctx, "handle", func(ctx context.Context) (verdict, error) {
		return d.handle(ctx, in.Record, *e, known, nil)
	}, insistently)
	if journal.CodeOf(err) == journal.CodeTooLarge { // the state, or an event of the handler
		large := err
		v, err = perdure.Step(ctx, "break", func(ctx context.Context) (verdict, error) {
			return d.handle(ctx, in.Record, *e, known, large)
		}, insistently)
	}
	switch {
	case err != nil:
		return err
	case v.Violation != "":
		return deadletter.Add(ctx, "handle", &Violation{e.ID, errors.New(v.Violation)},
			perdure.Key(e.Key()))
	case v.Next == nil:
		return nil
	}
	if in.Record == nil && v.Next.Parent != "" {
		if err := perdure.SetAttribute(ctx, attributeParent, v.Next.Parent); err != nil {
			return err
		}
	}
	in.Record = v.Next
	return nil
}

// end ends the run of an instance that has ended. It observes the events that are still in the
// inbox.
func (d *Durable) end(ctx context.Context, in Instance) (json.RawMessage, error) {
	late, err := events.All(ctx)
	if err != nil {
		return nil, err
	}
	if len(late) > 0 && d.def.Observe != nil {
		if err := perdure.Do(ctx, "late", func(ctx context.Context) error {
			for _, data := range late {
				var e event.Event
				if json.Unmarshal(data, &e) == nil {
					d.def.notify(ctx, Notice{Event: e, Outcome: EventIgnored})
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if in.Record.Ended == InstanceBroken {
		return nil, perdure.Permanent(errors.New(in.Record.Broken))
	}
	return in.Record.State, nil
}

// handle decides about an event, and emits what follows with the result of the step. known is set
// for the first event that comes again. If broken is not nil, it is the error of the handler.
func (d *Durable) handle(ctx context.Context, r *Record, e event.Event, known bool, broken error) (
	v verdict, err error) {
	_, err = d.def.around(ctx, e, func(ctx context.Context, e event.Event) (Outcome, error) {
		if known {
			return EventDuplicate, nil
		}
		o := d.def
		if broken != nil {
			o = o.breaking(broken)
		}
		dec, err := o.decide(ctx, r, &e, kernel.Now(ctx).UTC())
		if err != nil || dec.Outcome != EventHandled && dec.Outcome != EventFailed {
			return dec.Outcome, err
		}
		for i := range dec.next.Outbox {
			if err := emit(ctx, &dec.next.Outbox[i]); err != nil {
				return "", err
			}
		}
		next := dec.next
		next.Outbox, next.Seen, next.Unclean = nil, nil, false // the kernel has its own
		v.Next = &next
		return dec.Outcome, nil
	})
	violation, failed := (*Violation)(nil), (*TransactionError)(nil)
	switch {
	case err == nil:
		return v, nil
	case errors.As(err, &violation) && !errors.As(err, &failed):
		return verdict{Violation: guard.Text(violation.Err)}, nil
	case journal.CodeOf(err) == journal.CodeTooLarge:
		err = perdure.Permanent(err)
	}
	return verdict{}, err
}

// breaking returns the orchestrator with handlers that fail.
func (o Orchestrator) breaking(err error) Orchestrator {
	o.Versions = slices.Clone(o.Versions)
	for i := range o.Versions {
		o.Versions[i].Handle = func(context.Context, *Turn) error { return err }
	}
	return o
}

// emit records an event for the publisher.
func emit(ctx context.Context, e *event.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	kind := e.Type
	if !journal.ValidName(kind) {
		kind = "event"
	}
	return pattern.EmitEvent(ctx, perdure.Event{
		Type: kind, Kind: event.Kind, Key: e.Subject, Data: data,
	})
}

// On delivers an event to its instance. When it returns without an error, the event is durable in
// the inbox of its run, which handles its events in their order; or it is a duplicate, or ignored.
// An event of an initial type starts a run if the instance has none. The error is a
// [TransactionError] if the event must be delivered again, and a [Violation] if it never will be
// handled. A violation that only the instance can see becomes a dead letter of its run. c is an
// engine or a client, and not one in a transaction of the application.
//
// An event is known as long as its run is kept: at least [Orchestrator.Remember] after the end. The
// first event of an instance is accepted when it comes again, and is found to be a duplicate when
// its turn comes.
func (d *Durable) On(ctx context.Context, c perdure.Caller, e event.Event) (Outcome, error) {
	out, err := d.deliver(ctx, c, &e)
	v := (*Violation)(nil)
	switch code := journal.CodeOf(err); {
	case err == nil || errors.As(err, &v):
	case code == journal.CodeTooLarge:
		err = &Violation{e.ID, err}
	default:
		err = &TransactionError{e.Subject, "deliver", err}
	}
	d.def.notify(ctx, Notice{Event: e, Outcome: out, Err: err})
	return out, err
}

// maxParent is the largest subject of a parent in bytes: it becomes a search attribute.
const maxParent = 1024

// id returns the workflow ID of the instance of an event, or a [Violation].
func (d *Durable) id(e *event.Event) (string, error) {
	if err := valid(e); err != nil {
		return "", err
	}
	id := d.def.Source + ":" + url.PathEscape(e.Subject)
	if !journal.ValidWorkflowID(id) {
		return "", &Violation{e.ID, fmt.Errorf("subject %.100q is too long: with its source and "+
			"as part of a URL it has %d bytes, and the limit is %d", e.Subject, len(id),
			journal.MaxName)}
	}
	if n := len(e.Extensions[event.ExtParent]); n > maxParent {
		return "", &Violation{e.ID, fmt.Errorf("%s is too long: it has %d bytes, and the limit is "+
			"%d", event.ExtParent, n, maxParent)}
	}
	return id, nil
}

// deliver sends an event to its run, or starts the run with it.
func (d *Durable) deliver(ctx context.Context, c perdure.Caller, e *event.Event) (Outcome, error) {
	client, err := sealed.ClientOf("event "+e.ID, c)
	if err == nil {
		err = client.Outside(ctx, "event "+e.ID)
	}
	if err != nil {
		return "", err
	}
	id, err := d.id(e)
	if err == nil {
		err = versions(d.def.Versions).refuse(e)
	}
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	for known := (instanceKey{client.FrontEnd, id}); ; {
		run := d.open.get(known)
		guessed := run != ""
		if !guessed {
			var out Outcome
			if run, out, err = d.find(ctx, c, id, e); run == "" {
				return out, err
			}
		}
		got, err := events.Send(ctx, c, run, data, perdure.SendKey(e.Key()))
		switch {
		case err != nil:
			return "", err
		case got.NotDelivered:
			d.open.set(known, "")
			if !guessed && got.Status != journal.ContinuedAsNew {
				return EventIgnored, nil
			}
		case got.Duplicate:
			return EventDuplicate, nil
		default:
			d.open.set(known, run)
			return EventAccepted, nil
		}
	}
}

// find returns the ID of the last run of an instance. If there is none, it starts one with its
// first event, and returns the outcome.
func (d *Durable) find(ctx context.Context, c perdure.Caller, id string, e *event.Event) (string,
	Outcome, error) {
	run, err := d.Get(ctx, c, id)
	if journal.CodeOf(err) == journal.CodeNotFound {
		var out Outcome
		if run, out, err = d.begin(ctx, c, id, e); run == nil {
			return "", out, err
		}
	}
	if err != nil {
		return "", "", err
	}
	return run.RunID(), "", nil
}

// begin starts the run of an instance with its first event. It returns the run if there was one
// already; else nil and the outcome.
func (d *Durable) begin(ctx context.Context, c perdure.Caller, id string, e *event.Event) (
	*perdure.Run[json.RawMessage], Outcome, error) {
	first := begun(e)
	if out, v, err := d.def.admit(nil, &first, e); v == nil || err != nil {
		return nil, out, err
	}
	run, err := d.Start(ctx, c, Instance{First: e, Key: e.Key()}, perdure.ID(id),
		perdure.Dedup(d.remember()))
	switch {
	case err != nil:
		return nil, "", err
	case run.New():
		return nil, EventAccepted, nil
	}
	return run, "", nil
}

// Children returns the subjects of the instances of a parent that are kept, the oldest first.
func (d *Durable) Children(ctx context.Context, c *perdure.Client, parent string) ([]string,
	error) {
	q := perdure.Query{
		Workflow: d.Name(), Attributes: map[string]string{attributeParent: parent}, Limit: 1000,
	}
	var all []string // a subject has several runs if one goes on with another
	for {
		page, next, err := c.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			id, is := strings.CutPrefix(page[i].WorkflowID, d.Name()+":")
			if subject, err := url.PathUnescape(id); is && err == nil {
				all = append(all, subject)
			}
		}
		if len(page) < q.Limit {
			slices.Reverse(all) // the newest run is listed first
			return firsts(all), nil
		}
		q.After = next
	}
}

// firsts keeps the first of equal strings.
func firsts(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

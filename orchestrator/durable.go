package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
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
// COMPLETED with the last state, and a broken one is a run that has FAILED.
type Durable struct {
	*perdure.Workflow[*Record, json.RawMessage]
	def Orchestrator
}

// Define returns an orchestrator on the durable kernel. The source of o is the name of the
// workflow. Its Memory, Publish, TTL and Log have no meaning here.
func Define(o Orchestrator, opts ...perdure.WorkflowOption) *Durable {
	d := &Durable{def: o}
	opts = append([]perdure.WorkflowOption{pattern.Orchestrator}, opts...)
	d.Workflow = perdure.Define(o.Source, d.run, opts...)
	return d
}

// events is the signal by which a run gets its events.
var events = perdure.NewSignal[event.Event]("event")

// attributeParent is the search attribute that has the subject of an instance's parent.
const attributeParent = "parent"

// turnover is how many events a run handles before it goes on as a new one, with a new journal.
const turnover = 200

// A verdict is a decision as the journal has it.
type verdict struct {
	Violation string  `json:"violation,omitempty"`
	Next      *Record `json:"next,omitempty"` // nil if it stays as it was
}

// run is the workflow code of an instance. r is nil for a new one.
func (d *Durable) run(ctx context.Context, r *Record) (json.RawMessage, error) {
	for range turnover {
		e, err := events.Wait(ctx)
		if err != nil {
			return nil, err
		}
		v, err := perdure.Step(ctx, "handle", func(ctx context.Context) (verdict, error) {
			return d.handle(ctx, r, e)
		})
		switch {
		case err != nil:
			return nil, err
		case v.Violation != "":
			err = deadletter.Add(ctx, "handle", &Violation{e.ID, errors.New(v.Violation)},
				perdure.Key(e.Key()))
		case r == nil && v.Next != nil && v.Next.Parent != "":
			err = perdure.SetAttribute(ctx, attributeParent, v.Next.Parent)
		}
		if err != nil {
			return nil, err
		}
		switch r = cmp.Or(v.Next, r); {
		case r == nil || r.Ended == "":
		case r.Ended == InstanceBroken:
			return nil, perdure.Permanent(errors.New(r.Broken))
		default:
			return r.State, nil
		}
	}
	return nil, perdure.ContinueAsNew(ctx, r)
}

// handle decides about an event, and emits what follows with the result of the step.
func (d *Durable) handle(ctx context.Context, r *Record, e event.Event) (v verdict, err error) {
	_, err = d.def.around(ctx, e, func(ctx context.Context, e event.Event) (Outcome, error) {
		dec, err := d.def.decide(ctx, r, &e, time.Now().UTC())
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
	if broken := (*Violation)(nil); errors.As(err, &broken) {
		return verdict{Violation: guard.Text(broken.Err)}, nil
	}
	return v, err
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
// engine or a client.
//
// An event is known as long as its run is kept: at least [Orchestrator.Remember] after the end.
func (d *Durable) On(ctx context.Context, c perdure.Caller, e event.Event) (Outcome, error) {
	out, err := d.deliver(ctx, c, &e)
	if v := (*Violation)(nil); err != nil && !errors.As(err, &v) {
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

// deliver sends an event to its run, which it starts if the event may create an instance.
func (d *Durable) deliver(ctx context.Context, c perdure.Caller, e *event.Event) (Outcome, error) {
	id, err := d.id(e)
	if err == nil {
		err = versions(d.def.Versions).refuse(e)
	}
	if err != nil {
		return "", err
	}
	for {
		run, err := d.Get(ctx, c, id)
		if journal.CodeOf(err) == journal.CodeNotFound {
			first := begun(e)
			if out, v, err := d.def.admit(nil, &first, e); v == nil || err != nil {
				return out, err
			}
			window := perdure.Dedup(cmp.Or(d.def.Remember, 24*time.Hour))
			run, err = d.Start(ctx, c, nil, perdure.ID(id), window)
		}
		if err != nil {
			return "", err
		}
		got, err := events.Send(ctx, c, run.RunID(), *e, perdure.SendKey(e.Key()))
		switch {
		case err != nil:
			return "", err
		case got.Duplicate:
			return EventDuplicate, nil
		case !got.NotDelivered:
			return EventAccepted, nil
		case got.Status != journal.ContinuedAsNew:
			return EventIgnored, nil
		}
	}
}

// Children returns the subjects of the instances of a parent that are kept, the oldest first.
func (d *Durable) Children(ctx context.Context, c *perdure.Client, parent string) ([]string,
	error) {
	q := perdure.Query{
		Workflow: d.Name(), Attributes: map[string]string{attributeParent: parent}, Limit: 1000,
	}
	var all []string
	seen := map[string]bool{}
	for {
		page, next, err := c.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			id := page[i].WorkflowID[len(d.Name())+1:]
			if subject, err := url.PathUnescape(id); err == nil && !seen[subject] {
				seen[subject] = true
				all = append(all, subject)
			}
		}
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = next
	}
}

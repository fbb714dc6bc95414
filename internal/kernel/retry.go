package kernel

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Request asks for a run that goes on from one that has ended.
type Request struct {
	journal.Continuation
	NewInput bool // the new run has Input instead of the input of the old one
	Input    []byte
}

// isMet reports whether a run that goes on from another one was made by an equal request. The entry
// is its first one, with its payload.
func (q *Request) isMet(first *journal.Entry) bool {
	o := journal.OriginOf(first.Detail)
	return o.Action == q.Action && (q.Step == "" || o.Step == q.Step) &&
		o.NewInput == q.NewInput && (!q.NewInput || bytes.Equal(first.Data, q.Input))
}

// GoOn starts a run that goes on from another one, under the same workflow ID. Its journal begins
// with what the action keeps of the journal of the other run: see [journal.Continued]. At most one
// run goes on from a run: an equal request returns that run. The children that the run waits for
// and that have not ended well are retried with it. Open children are adopted.
func (d *FrontEnd) GoOn(ctx context.Context, id string, q Request) (out Started, err error) {
	op := string(q.Action) + " " + id
	old, err := d.Find(ctx, id)
	if err != nil {
		return Started{}, err
	}
	if err := mayGoOn(op, old, q.Action); err != nil {
		return Started{}, err
	}
	err = d.write(ctx, op, func(o writer) error {
		out, err = d.goOn(ctx, o, op, old, q)
		return err
	})
	return out, err
}

// mayGoOn returns an error if the action is not for a run of that status.
func mayGoOn(op string, h journal.Head, a journal.Action) error {
	switch h.Status {
	case journal.Failed, journal.Cancelled, journal.TimedOut:
		if a != journal.ActionCompensate {
			return nil
		}
	case journal.Completed:
		if a == journal.ActionFork || a == journal.ActionCompensate {
			return nil
		}
	case journal.Compensated, journal.Canceled:
		if a == journal.ActionFork {
			return nil
		}
	}
	why := "only a FAILED, CANCELLED or TIMED_OUT run can be retried"
	switch a {
	case journal.ActionSkip:
		why = "only a FAILED, CANCELLED or TIMED_OUT run has a step to skip"
	case journal.ActionFork:
		why = "only a run that has ended can be forked, unless it is CONFIRMED or goes on as " +
			"another one"
	case journal.ActionCompensate:
		why = "only a COMPLETED run can be compensated"
	}
	return wrongState(op, h, why)
}

func (d *FrontEnd) goOn(
	ctx context.Context, o writer, op string, old journal.Head, q Request,
) (Started, error) {
	newest, err := d.newest(ctx, old)
	switch {
	case err != nil:
		return Started{}, err
	case newest.Number != old.Number:
		return d.goneOnAs(ctx, op, old, newest, q)
	}
	input := bytes.Clone(q.Input) // a writer that has made it durable has no more need of it
	f := &family{front: d, o: o, op: op, request: q}
	if q.NewInput {
		spill, failure := o.spill("the input", &input)
		if failure != nil {
			return Started{}, &journal.Error{Code: failure.Code, Op: op, Message: failure.Message}
		}
		f.spill = spill
	}
	f.request.Input = input
	if q.Action == journal.ActionSkip {
		spill, failure := o.spill("the output", &f.request.Output)
		if failure != nil {
			return Started{}, &journal.Error{Code: failure.Code, Op: op, Message: failure.Message}
		}
		f.request.Spill = spill
	}
	if err := f.goOn(ctx, old); err != nil {
		return Started{}, err
	}
	cs, err := o.submit(ctx, op, f.changes)
	// the run that goes on may have been purged meanwhile
	if errors.Is(err, &journal.Error{Code: journal.CodeInvalid}) {
		if _, gone := d.Find(ctx, string(old.ID)); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return Started{}, err
	}
	switch cs[0].Verdict {
	case store.Taken:
		return Started{}, taken(op, old.WorkflowID, cs[0].Found)
	case store.Exists:
		return d.goneOnAs(ctx, op, old, cs[0].Found, q)
	}
	return Started{Head: *cs[0].Head, New: true}, nil
}

// newest returns the newest run of the workflow ID of a run.
func (d *FrontEnd) newest(ctx context.Context, of journal.Head) (journal.Head, error) {
	heads, _, err := d.Heads(ctx, store.Filter{
		WorkflowIDs: []string{of.WorkflowID}, Newest: true, Limit: 1,
	})
	if err != nil || len(heads) == 0 {
		return of, err
	}
	return heads[0], nil
}

// goneOnAs returns the run that an equal request has made before, if a later run of the workflow ID
// goes back to the old run.
func (d *FrontEnd) goneOnAs(
	ctx context.Context, op string, old, later journal.Head, q Request,
) (Started, error) {
	h, first, err := d.successor(ctx, old, later)
	switch {
	case err != nil:
		return Started{}, err
	case first == nil:
		return Started{}, superseded(op, old, later)
	case q.isMet(first):
		return Started{Head: h}, nil
	case !later.Status.IsTerminal():
		return Started{}, taken(op, old.WorkflowID, later)
	}
	o := journal.OriginOf(first.Detail)
	return Started{}, wrongState(op, old, "run "+string(h.ID)+" goes on from it, by "+
		string(o.Action))
}

// successor returns the run that goes on from a run by an operator's action, and its first entry.
// The entry is nil if there is none. The search begins with a later run of the workflow ID.
func (d *FrontEnd) successor(
	ctx context.Context, old, later journal.Head,
) (journal.Head, *journal.Entry, error) {
	for h := later; h.Number != old.Number; {
		first, err := d.Read(ctx, h, store.Range{Limit: 1, Payloads: true})
		if err != nil || len(first) == 0 || first[0].Detail == nil {
			return journal.Head{}, nil, err
		}
		before := first[0].Detail
		if before.Retried == old.ID {
			return h, &first[0], nil
		}
		heads, _, err := d.Heads(ctx, store.Filter{
			Run: cmp.Or(before.Retried, before.Other, "-"), Limit: 1,
		})
		if err != nil || len(heads) == 0 || heads[0].WorkflowID != old.WorkflowID {
			return journal.Head{}, nil, err
		}
		h = heads[0]
	}
	return journal.Head{}, nil, nil
}

// GoesOnAs returns the run that goes on from a run that has ended, and by which action; it is zero
// if there is none.
func (d *FrontEnd) GoesOnAs(ctx context.Context, old journal.Head) (journal.Origin, error) {
	newest, err := d.newest(ctx, old)
	if err != nil || newest.Number == old.Number {
		return journal.Origin{}, err
	}
	h, first, err := d.successor(ctx, old, newest)
	if err != nil || first == nil {
		return journal.Origin{}, err
	}
	as := journal.OriginOf(first.Detail)
	as.Run = h.ID
	return as, nil
}

// superseded returns the error for a run from which none goes on because of a later run of its
// workflow ID.
func superseded(op string, old, later journal.Head) error {
	if !later.Status.IsTerminal() {
		return taken(op, old.WorkflowID, later)
	}
	return wrongState(op, old, "run "+string(later.ID)+" has had its workflow ID since")
}

// Preview returns what a request would do, and changes nothing. If an equal request was met before,
// it returns an error of CodeWrongState that names the run.
func (d *FrontEnd) Preview(ctx context.Context, id string, q Request) (journal.Preview, error) {
	op := string(q.Action) + " " + id
	old, err := d.Find(ctx, id)
	if err == nil {
		err = mayGoOn(op, old, q.Action)
	}
	if err != nil {
		return journal.Preview{}, err
	}
	newest, err := d.newest(ctx, old)
	switch {
	case err != nil:
		return journal.Preview{}, err
	case newest.Number != old.Number:
		made, err := d.goneOnAs(ctx, op, old, newest, q)
		if err == nil {
			err = wrongState(op, old, "run "+string(made.Head.ID)+" goes on from it already")
		}
		return journal.Preview{}, err
	}
	f := &family{front: d, op: op, request: q}
	p, err := f.plan(ctx, old)
	if err != nil {
		return journal.Preview{}, err
	}
	out, err := journal.PreviewOf(old.ID, p.entries, p.Entries, p.Redone)
	if q.Action == journal.ActionFork {
		out.Renewed = out.Again
	}
	for _, child := range p.failed {
		out.Children = append(out.Children, child.ID)
	}
	return out, err
}

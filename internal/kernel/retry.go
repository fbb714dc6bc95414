package kernel

import (
	"cmp"
	"context"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Retry starts a run that goes on where another run has failed, was cancelled or timed out: under
// the same workflow ID and with the same input. Its journal begins with the reusable history of the
// other run. See [journal.Reusable]. A run is retried by at most one run: a second retry returns
// the first one. The children that the run waits for and that have not ended well are retried with
// it. Open children are adopted.
func (d *FrontEnd) Retry(ctx context.Context, id string) (out Started, err error) {
	op := "retry " + id
	old, err := d.Find(ctx, id)
	if err != nil {
		return Started{}, err
	}
	switch old.Status {
	case journal.Failed, journal.Cancelled, journal.TimedOut:
	default:
		return Started{}, wrongState(
			op, old, "only a FAILED, CANCELLED or TIMED_OUT run can be retried",
		)
	}
	err = d.write(ctx, op, func(o writer) error {
		out, err = d.retry(ctx, o, op, old)
		return err
	})
	return out, err
}

func (d *FrontEnd) retry(
	ctx context.Context, o writer, op string, old journal.Head,
) (Started, error) {
	newest, _, err := d.Heads(ctx, store.Filter{
		WorkflowIDs: []string{old.WorkflowID}, Newest: true, Limit: 1,
	})
	switch {
	case err != nil:
		return Started{}, err
	case len(newest) > 0 && newest[0].Number != old.Number:
		return d.retriedAs(ctx, op, old, newest[0])
	}
	f := &family{front: d, o: o, op: op}
	if err := f.retry(ctx, old); err != nil {
		return Started{}, err
	}
	cs, err := o.submit(ctx, op, f.changes)
	// the retrying run may have been purged meanwhile
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
		return d.retriedAs(ctx, op, old, cs[0].Found)
	}
	return Started{Head: *cs[0].Head, New: true}, nil
}

// retriedAs returns the run that has retried another one, if a later run of the workflow ID goes
// back to that.
func (d *FrontEnd) retriedAs(
	ctx context.Context, op string, old, later journal.Head,
) (Started, error) {
	for h := later; ; {
		first, err := d.Read(ctx, h, store.Range{Limit: 1})
		if err != nil {
			return Started{}, err
		}
		if len(first) == 0 || first[0].Detail == nil {
			return Started{}, superseded(op, old, later)
		}
		before := first[0].Detail
		if before.Retried == old.ID {
			return Started{Head: h}, nil
		}
		heads, _, err := d.Heads(ctx, store.Filter{
			Run: cmp.Or(before.Retried, before.Other, "-"), Limit: 1,
		})
		if err != nil {
			return Started{}, err
		}
		if len(heads) == 0 || heads[0].WorkflowID != old.WorkflowID {
			return Started{}, superseded(op, old, later)
		}
		h = heads[0]
	}
}

// superseded returns the error for a run that cannot be retried because of a later run of its
// workflow ID.
func superseded(op string, old, later journal.Head) error {
	if !later.Status.IsTerminal() {
		return taken(op, old.WorkflowID, later)
	}
	return wrongState(op, old, "run "+string(later.ID)+" has had its workflow ID since")
}

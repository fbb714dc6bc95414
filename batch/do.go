package batch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A result counts the runs of one step by how each of them ended.
type result struct {
	Began   time.Time `json:"began"` // the attempt that has done the last of them
	Done    int       `json:"done"`
	Skipped int       `json:"skipped,omitempty"`
	Failed  int       `json:"failed,omitempty"`
	Errors  []Item    `json:"errors,omitempty"`
	Skips   []Item    `json:"skips,omitempty"`
}

// do carries out the order on some runs. It may be called again after a crash: a run that has the
// order already is not changed again. Its error is that of a store that does not answer.
func do(ctx context.Context, s *state, runs []string) (result, error) {
	eng, err := engineOf(ctx)
	if err != nil {
		return result{}, err
	}
	d := doer{
		engine: eng, admin: admin.New(eng), order: s.order(), isList: s.Spec.isList(),
		mark: s.mark(),
	}
	out := result{Began: kernel.Now(ctx).Round(0).UTC()}
	ends := make([]end, len(runs))
	var wait sync.WaitGroup
	for i, id := range runs {
		wait.Go(func() { ends[i] = d.one(ctx, id) })
	}
	wait.Wait()
	for i, e := range ends {
		if e.kind == unknown {
			return out, e.err
		}
		out.add(s, runs[i], e)
	}
	return out, nil
}

// add counts one run, and keeps the reason if there is room for it.
func (r *result) add(s *state, id string, e end) {
	item := Item{RunID: id}
	if e.err != nil {
		item.Code, item.Error = journal.CodeOf(e.err), clip(textOf(e.err))
	}
	switch e.kind {
	case done:
		r.Done++
	case skipped:
		if r.Skipped++; len(s.Skips)+len(r.Skips) < mostSkips {
			r.Skips = append(r.Skips, item)
		}
	case failed:
		if r.Failed++; len(s.Errors)+len(r.Errors) < mostErrors {
			r.Errors = append(r.Errors, item)
		}
	}
}

// textOf returns the text of an error without the name of the operation, which names the run.
func textOf(err error) string {
	var e *perdure.Error
	if !errors.As(err, &e) || e.Message == "" {
		return err.Error()
	}
	return e.Message
}

// mostText is the maximum number of bytes of the error of an item.
const mostText = 500

func clip(s string) string {
	if s = failure.Clip(s); len(s) > mostText {
		s = strings.ToValidUTF8(s[:mostText], "") + "…"
	}
	return s
}

// mark begins the reason that the journals of the runs of a batch have.
func (s *state) mark() string { return "batch " + s.ID }

// order returns the order for each run.
func (s *state) order() admin.Order {
	o, reason := s.Spec.Order, s.Spec.Order.Reason
	if o.Reason = s.mark(); reason != "" {
		o.Reason += ": " + reason
	}
	return o
}

// An end is the outcome of the order for one run.
type end struct {
	kind kind
	err  error
}

type kind int

const (
	unknown kind = iota // the store has not answered
	done
	skipped
	failed
	ours // the batch itself has made the run
)

// A doer carries out an order on one run after the other.
type doer struct {
	engine *perdure.Engine
	admin  *admin.Client
	order  admin.Order
	isList bool
	mark   string
}

// one carries out the order on a run, unless that was done before a crash.
func (d *doer) one(ctx context.Context, id string) end {
	first, err := d.engine.History(ctx, id, 1, 1)
	if err != nil {
		return d.end(ctx, id, err)
	}
	if len(first) > 0 && !d.isList && d.made(first[0]) {
		return end{kind: ours}
	}
	if err := d.isForeign(ctx, id); err != nil {
		return end{failed, err}
	}
	acted, err := d.admin.Act(ctx, id, d.order)
	switch {
	case journal.CodeOf(err) == journal.CodeWrongState && d.ends(ctx, id):
		return end{kind: done} // before a crash
	case err != nil:
		return d.end(ctx, id, err)
	case !d.order.Action.GoesOn() || acted.New:
		return end{kind: done}
	}
	first, err = d.engine.History(ctx, acted.RunID, 1, 1)
	switch {
	case err != nil:
		return d.end(ctx, acted.RunID, err)
	case len(first) > 0 && d.made(first[0]):
		return end{kind: done} // before a crash
	}
	return end{skipped, &perdure.Error{
		Code: journal.CodeWrongState, Message: "run " + acted.RunID + " goes on from it already",
	}}
}

// made reports whether this batch has started the run that begins with an entry.
func (d *doer) made(first journal.Entry) bool {
	return d.isMarked(journal.OriginOf(first.Detail).Reason)
}

// ends reports whether this batch has cancelled a run, which may undo its steps since.
func (d *doer) ends(ctx context.Context, id string) bool {
	if d.order.Action != journal.ActionCancel {
		return false
	}
	all, err := d.engine.History(ctx, id, 0, 0)
	return err == nil && slices.ContainsFunc(all, func(e journal.Entry) bool {
		return (e.Kind == journal.RunClosing || e.Kind == journal.RunCancelled) &&
			e.Detail != nil && d.isMarked(e.Detail.Reason)
	})
}

// isMarked reports whether a reason is that of this batch.
func (d *doer) isMarked(reason string) bool {
	return reason == d.mark || strings.HasPrefix(reason, d.mark+": ")
}

// isForeign returns an error for a run of the engine's own workflows.
func (d *doer) isForeign(ctx context.Context, id string) error {
	if !d.isList {
		return nil // the filter does not select them
	}
	run, err := d.engine.Statuses(ctx, id)
	if err == nil && run[0].Found && strings.HasPrefix(run[0].Head.Workflow, kernel.OwnPrefix) {
		return failure.Invalid("batch", "it is a run of %s, which is the engine's own",
			run[0].Head.Workflow)
	}
	return nil
}

// end returns the outcome that an error stands for.
func (d *doer) end(ctx context.Context, id string, err error) end {
	switch journal.CodeOf(err) {
	case journal.CodeUnavailable, journal.CodeStopped:
		return end{unknown, err}
	case journal.CodeWrongState, journal.CodeConflict:
		return end{skipped, err}
	case journal.CodeNotFound:
		if _, gone := d.engine.Get(ctx, id); gone != nil && !d.isList {
			return end{skipped, err}
		}
	}
	if ctx.Err() != nil {
		return end{unknown, context.Cause(ctx)}
	}
	return end{failed, err}
}

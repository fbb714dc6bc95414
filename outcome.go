package perdure

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/report"
)

// unwaited returns the options of a start whose caller does not wait, unless opts say so.
func unwaited(opts []StartOption) []StartOption {
	return append([]StartOption{sealed.Asked(sealed.ModeAsync)}, opts...)
}

// admits refuses a start that asks for a mode which the definition does not have. One that
// is not known here, and a start that asks for none, are not refused.
func admits(w *sealed.Workflow, asked string) error {
	if w == nil || asked == "" {
		return nil
	}
	about, _ := w.Examined()
	e, mode := &Error{Code: journal.CodeInvalid, Op: "start " + w.Name}, about.Mode
	switch {
	case mode == sealed.ModeSync && asked != sealed.ModeSync:
		e.Message, e.Hint = "its mode is SYNC: who starts it waits for its end",
			"use Execute, or declare another mode"
	case mode == sealed.ModeAsync && asked != sealed.ModeAsync:
		e.Message, e.Hint = "its mode is ASYNC: who starts it does not wait for its end",
			"use Start, or declare another mode"
	default:
		return nil
	}
	return e
}

// Execute starts a run of a workflow by name as [Client.Start] does, waits for its end and
// returns the report of it; where the run continues as new, that of the last run of the
// chain. A run that has failed is no error here: the report says so. One whose mode is
// ASYNC is refused. The end of ctx ends only the waiting; who needs the run then
// gives it an [ID], or calls Start with pattern.ModeSync and [Run.Final].
func (c *Client) Execute(ctx context.Context, workflow string, input []byte,
	opts ...StartOption) (report.Run, error) {
	run, err := c.Start(ctx, workflow, input,
		append(slices.Clip(opts), sealed.Asked(sealed.ModeSync))...)
	if err != nil {
		return report.Run{}, err
	}
	return run.Final(ctx)
}

// Final waits as [Run.Result] does and returns the report of the run that has ended; where
// it continues as new, that of the last run of the chain. A run that has failed is no
// error here: the report says so.
func (r *Run[O]) Final(ctx context.Context) (report.Run, error) {
	last, _, err := r.c.sealed.Runs.Wait(ctx, r.s)
	if err != nil {
		return report.Run{}, err
	}
	return r.c.Report(ctx, string(last.ID))
}

// Report returns the report of a run, by run ID or workflow ID. Of a run with a row that
// cannot be read, or is missing, it tells what comes before that row, with an [Error] of
// code corrupt.
func (c *Client) Report(ctx context.Context, id string) (report.Run, error) {
	head, entries, err := c.sealed.FrontEnd.History(ctx, id, 0, 0)
	if err != nil && !failure.IsDamaged(err) {
		return report.Run{}, err
	}
	r, unfit := report.New(head, entries)
	if err = cmp.Or(err, unfit); err != nil {
		r.Status = head.Status
	}
	return r, err
}

// Report gives the report of the run as it is now.
func (r *Run[O]) Report(ctx context.Context) (report.Run, error) {
	return r.c.Report(ctx, string(r.s.Head.ID))
}

// Outcome waits as [Run.Result] does and tells how the run has ended as a value: only
// what keeps the caller from hearing of it is an error.
func (r *Run[O]) Outcome(ctx context.Context) (Outcome[O], error) {
	head, out, err := r.c.sealed.Runs.Wait(ctx, r.s)
	if err != nil {
		return Outcome[O]{}, err
	}
	o := Outcome[O]{Status: head.Status}
	if out.Failure != nil {
		o.Err = failure.Err(out.Failure)
	}
	if len(out.Data) > 0 {
		var failed error
		if o.Output, failed = payload.Decode[O](out.Data); failed != nil {
			return o, payload.DecodeError("output of run "+string(head.ID), o.Output, failed)
		}
	}
	return o, nil
}

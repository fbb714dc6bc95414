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

// unwaited returns the options of a start whose caller does not wait, unless opts say otherwise.
func unwaited(opts []StartOption) []StartOption {
	return append([]StartOption{sealed.Asked(sealed.ModeAsync)}, opts...)
}

// admits refuses a start that asks for a mode which the definition does not have. A start of an
// unknown definition, or without a mode, is not refused.
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
// returns its report. If the run continues as new, that is the report of the last run of the
// chain. A run that has failed is not an error here: the report shows it. A workflow whose mode
// is ASYNC is refused. The end of ctx ends only the waiting. To find the run afterwards, pass an
// [ID], or call Start with pattern.ModeSync and then [Run.Final].
func (c *Client) Execute(ctx context.Context, workflow string, input []byte,
	opts ...StartOption) (report.Run, error) {
	run, err := c.Start(ctx, workflow, input,
		append(slices.Clip(opts), sealed.Asked(sealed.ModeSync))...)
	if err != nil {
		return report.Run{}, err
	}
	return run.Final(ctx)
}

// Final waits as [Run.Result] does and returns the report of the run that has ended. If the run
// continues as new, that is the report of the last run of the chain. A run that has failed is not
// an error here: the report shows it.
func (r *Run[O]) Final(ctx context.Context) (report.Run, error) {
	last, _, err := r.c.sealed.Runs.Wait(ctx, r.s)
	if err != nil {
		return report.Run{}, err
	}
	return r.c.Report(ctx, string(last.ID))
}

// Report returns the report of a run, by run ID or workflow ID. If a row of the run is missing or
// cannot be read, it returns the report up to that row, with an [Error] of code corrupt.
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

// Report returns the report of the run as it is now.
func (r *Run[O]) Report(ctx context.Context) (report.Run, error) {
	return r.c.Report(ctx, string(r.s.Head.ID))
}

// Outcome waits as [Run.Result] does and returns the outcome of the run as a value. It returns an
// error only if the caller cannot learn of the end.
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

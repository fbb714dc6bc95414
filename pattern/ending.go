package pattern

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// End ends the run from inside, with a status of a pattern, such as CONFIRMED or COMPENSATED, and
// with an output and an error. See [perdure.Fail] for what follows. In a clean-up it changes the
// status with which the run will end, and nothing else.
func End(ctx context.Context, status journal.Status, output any, err error) error {
	if !status.IsTerminal() || status == journal.ContinuedAsNew {
		return failure.Invalid("end", "%v is not a status that a run ends in", status)
	}
	data, e := payload.EncodeAny(output)
	if e != nil {
		return &perdure.Error{
			Code: journal.CodeEncode, Op: "end", Message: "the output does not encode", Err: e,
		}
	}
	var f *journal.Failure
	if err != nil {
		f = failure.Of(err)
	}
	return kernel.EndRun(ctx, status, data, f)
}

// CleansUp is an option of a workflow whose code calls [perdure.OnCancel] or [perdure.Finally]
// before any other durable operation, however it is started. Then that plan need not be recorded,
// which saves the first commit of a run that has nothing else to record. A run that has begun with
// the option keeps it: as long as the run is open, its code must plan a clean-up first.
var CleansUp perdure.WorkflowOption = cleansUp{}

type cleansUp struct{}

func (cleansUp) ApplyToWorkflow(w *sealed.Workflow) error {
	w.CleansUp = true
	return nil
}

// MayCleanUp is [CleansUp] for a workflow that does so if a function reports it. The function is
// called once, when the definition is examined.
func MayCleanUp(does func() bool) perdure.WorkflowOption { return mayCleanUp(does) }

type mayCleanUp func() bool

func (does mayCleanUp) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Later = append(w.Later, func(w *sealed.Workflow) { w.CleansUp = w.CleansUp || does() })
	return nil
}

// Undoes reports, in a clean-up, whether the run is cancelled with compensation: see
// [admin.Order]. A saga and a TCC undo also without that.
//
// [admin.Order]: https://pkg.go.dev/github.com/perdure/perdure/admin#Order
func Undoes(ctx context.Context) (bool, error) { return kernel.Undoes(ctx) }

// EndingBy returns, in a clean-up, the error that the run will end with, such as its cancel. It
// returns nil if the run has succeeded. In the clean-up of a branch that was cancelled while the
// run goes on, it returns the cancel of the branch.
func EndingBy(ctx context.Context) error {
	f, err := kernel.EndingBy(ctx)
	if err != nil {
		return err
	}
	return failure.Err(f)
}

// RollsBack reports whether the run of ctx undoes what another run has done, which was COMPLETED:
// an operator has asked for that. When its code has come to the end again, by the results that are
// recorded, it undoes every step that has a compensation and was not skipped. It ends as
// COMPENSATED. For a compensation that fails it waits for an operator.
func RollsBack(ctx context.Context) (bool, error) {
	info, err := kernel.InfoOf(ctx)
	return info.Undoes != "", err
}

// SetStatus sets the status that a pattern has while its run goes on: RUNNING, TRYING, CONFIRMING,
// CANCELING or COMPENSATING.
func SetStatus(ctx context.Context, s journal.Status) error {
	switch s {
	case journal.Running, journal.Trying, journal.Confirming, journal.Canceling,
		journal.Compensating:
		out, err := kernel.TakeNote(ctx, kernel.Note{
			Kind: journal.ValueRecorded, Name: "status", Status: s,
		})
		if err == nil && out.Failure != nil {
			err = failure.Err(out.Failure)
		}
		return err
	}
	return failure.Invalid("set status", "%v is not a status of a run that goes on", s)
}

package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// Undo is an option of a step. If the step has completed, and its run then fails, is cancelled or
// times out, fn undoes the step: it is the compensation. The engine calls it as the body of a step
// in perdure.PhaseUndo. It gets the result of the step that it undoes, of type T; for perdure.Do
// that is a struct{}. It has an idempotency key of its own, which is the same over retries and
// crashes.
//
// All steps of the run that have an Undo are undone, the one that completed last first, wherever
// they are: in branches, in scopes, and beside the workflow, also if nobody has read their results.
// A step that failed, was interrupted, was cancelled, or was skipped by an operator is not undone.
// Meanwhile the run is COMPENSATING, and neither a cancel nor its timeout ends it. Then it ends as
// FAILED, CANCELLED or TIMED_OUT. The rollback is one of the clean-ups of the run, planned by the
// first step with an Undo: see perdure.Finally. Nothing is undone when only a branch is cancelled,
// when the run continues as new, or when it is terminated.
//
// As long as the run does not fail, an Undo costs nothing: no entry and no commit. A completed run
// can be rolled back on demand (admin.Client.Act). It ends as COMPENSATED, and each compensation
// that fails waits for an operator.
//
// opts are perdure.Retry, perdure.Timeout and [Parks]. Without a policy there is one attempt, and
// without a timeout an attempt has five minutes. A compensation that has failed for good is
// recorded and passed over; with Parks it waits for an operator.
//
// If an operator retries a run that was undone, the steps that were undone are done again, under
// new idempotency keys. For that, give the steps of one name a perdure.Key each: if several steps
// were undone that only their occurrence tells apart, a retry may be refused.
//
// The option is refused, with an error of code invalid, in a clean-up, for a step with a
// perdure.Phase, and if the types do not fit.
func Undo[T any](fn func(ctx context.Context, out T) error,
	opts ...perdure.StepOption) perdure.StepOption {
	how := &compensation{takes: reflect.TypeFor[T]()}
	if fn == nil {
		how.err = failure.Invalid("undo", "an Undo needs a function")
		return how
	}
	how.call = func(ctx context.Context, data []byte) error {
		out, err := payload.Decode[T](data)
		if err != nil {
			return perdure.Permanent(payload.DecodeError("the result that is to be undone", out,
				err))
		}
		return fn(ctx, out)
	}
	for _, opt := range opts {
		if err := how.add(opt); err != nil {
			how.err = err
			break
		}
	}
	return how
}

// Parks is an option of an [Undo]. If the compensation has failed for good, the run waits for an
// operator, as COMPENSATION_FAILED. The operator chooses to retry it, to skip it, or that it is
// handled. What was to be undone after it follows then.
var Parks perdure.StepOption = parks{}

type parks struct{}

func (parks) ApplyToStep(*sealed.Operation) error {
	return failure.Invalid("option", "effect.Parks is an option of effect.Undo, not of a step")
}

// A compensation is the option that [Undo] returns.
type compensation struct {
	call    func(ctx context.Context, data []byte) error
	takes   reflect.Type
	retry   *perdure.Retry
	timeout time.Duration
	parks   bool
	err     error // the option is not valid
}

// add adds an option of an Undo.
func (c *compensation) add(opt perdure.StepOption) error {
	switch o := opt.(type) {
	case perdure.Retry:
		c.retry = &o
		return failure.Within("undo", o.Validate())
	case perdure.Timeout:
		if o < 0 {
			return failure.Within("undo", failure.NegativeTimeout(time.Duration(o)))
		}
		c.timeout = time.Duration(o)
	case parks:
		c.parks = true
	default:
		return &perdure.Error{
			Code: journal.CodeInvalid, Op: "undo",
			Message: fmt.Sprintf("%T is not an option of an Undo", opt),
			Hint:    "it takes perdure.Retry, perdure.Timeout and effect.Parks",
		}
	}
	return nil
}

func (c *compensation) ApplyToStep(o *sealed.Operation) error {
	if c.err != nil {
		return c.err
	}
	o.Undo = true
	o.Compensation = &kernel.Compensation{How: c, Takes: c.takes, CleanUp: cleanUp}
	return nil
}

// cleanUp undoes what the run of ctx has done. It is the clean-up of the run.
func cleanUp(ctx context.Context, done []kernel.Compensation) *journal.Failure {
	if err := undo(ctx, done); err != nil && pattern.EndedBy(ctx) == nil {
		return failure.Of(err)
	}
	return nil
}

func undo(ctx context.Context, done []kernel.Compensation) error {
	back, err := pattern.RollsBack(ctx)
	if err != nil {
		return err
	}
	r := pattern.Rollback{Parks: back}
	for _, d := range done {
		c := d.How.(*compensation)
		r.Done(pattern.Undo{
			Name: d.Name, Key: d.Key, Occ: d.Occ, Of: d.In, Retry: c.retry,
			Timeout: c.timeout, Parks: c.parks,
			Call: func(ctx context.Context, _ pattern.Sources) (json.RawMessage, error) {
				data, err := d.Data()
				if err == nil {
					err = c.call(ctx, data)
				}
				return json.RawMessage("{}"), err
			},
		})
	}
	if err := r.Run(ctx); err != nil || !back {
		return err
	}
	if err := r.Failed(); err != nil {
		return perdure.Fail(ctx, err)
	}
	return pattern.End(ctx, perdure.StatusCompensated, nil, nil)
}

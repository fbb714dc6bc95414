package perdure

import (
	"context"
	"fmt"
	"reflect"

	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Fail ends the run as FAILED with err, from workflow code. It returns the termination error,
// which every durable operation of the run returns from then on. The result of the workflow
// function no longer counts.
func Fail(ctx context.Context, err error) error {
	if err == nil {
		return failure.Invalid("fail", "an error is needed")
	}
	f := failure.Of(err)
	if ctx.Value(lettersKey{}) != nil {
		if e := deadletter.ForFailure(ctx, f); e != nil {
			return e
		}
	}
	return kernel.Fail(ctx, f)
}

// Cancel ends the run as CANCELLED with a reason, from workflow code. See [Fail] for the returned
// error.
func Cancel(ctx context.Context, reason string) error {
	return kernel.CancelRun(ctx, failure.Clip(reason))
}

// ContinueAsNew ends the run as CONTINUED_AS_NEW and starts a successor with the input in, in the
// same commit. The successor has the same workflow ID, an empty journal and a timeout of its own.
// Messages that nobody has taken, named timers that have not fired, headers and search attributes
// move along; children do not. The input must have the type of the workflow's input, or be
// encoded. See [Fail] for the returned error. The usual form is
//
//	return out, perdure.ContinueAsNew(ctx, next)
func ContinueAsNew[I any](ctx context.Context, in I) error {
	if err := checkInput(ctx, reflect.TypeFor[I]()); err != nil {
		return err
	}
	data, err := payload.Encode(in)
	if err != nil {
		return &Error{
			Code: journal.CodeEncode, Op: "continue as new", Message: "the input does not encode",
			Err: err,
		}
	}
	return kernel.ContinueAsNew(ctx, data)
}

// inputKey is the context key of the type of a workflow's input.
type inputKey struct{}

// checkInput refuses an input whose type is not the input type of the workflow of ctx. Encoded
// input is accepted for any type.
func checkInput(ctx context.Context, t reflect.Type) error {
	takes, _ := ctx.Value(inputKey{}).(reflect.Type)
	if takes == nil || takes == t || payload.IsRaw(t) || payload.IsRaw(takes) {
		return nil
	}
	return &Error{
		Code: journal.CodeInvalid, Op: "continue as new",
		Message: fmt.Sprintf("the workflow takes an input of type %v, and this is a %v", takes, t),
		Hint:    "pass an input of the workflow's own type",
	}
}

// OnCancel registers a clean-up that runs when the run is cancelled or times out. fn runs after
// the rest of the workflow code has ended, in a scope of its own and with a context that has not
// ended; then the run ends. fn is workflow code; effects belong in its steps. Several clean-ups
// run one after the other, the last registered first. Observers are notified of an error, which
// changes nothing. The termination error of [Fail], as fn got it, is not one. A run that is
// cancelled before this call does not do the clean-up.
//
// A clean-up cannot be withdrawn. If it is not needed from some point on, fn looks at a variable
// that the workflow code sets there, as in the example.
//
// A clean-up that a branch has registered also runs when the branch is cancelled: by
// [Future.Cancel], or because the branch still goes on when the run ends. After Future.Cancel it
// runs beside the other code of the run. The run does not end before the clean-up is done, unless
// it continues as new.
func OnCancel(ctx context.Context, name string, fn func(context.Context) error,
	opts ...BranchOption) error {
	return plan(ctx, name, false, fn, opts)
}

// Finally registers a clean-up that runs before the run ends, however it ends, except if it
// continues as new. The clean-up of a branch also runs when the branch is cancelled. See [OnCancel]
// for the order and the context.
func Finally(ctx context.Context, name string, fn func(context.Context) error,
	opts ...BranchOption) error {
	return plan(ctx, name, true, fn, opts)
}

func plan(ctx context.Context, name string, always bool, fn func(context.Context) error,
	opts []BranchOption) error {
	o, err := sealed.Branch("clean-up", name, opts)
	if err != nil {
		return err
	}
	if fn == nil {
		return failure.Invalid("clean-up "+name, "a clean-up needs a function")
	}
	return kernel.Plan(ctx, o.Naming(name), always, func(ctx context.Context) *journal.Failure {
		if err := fn(ctx); err != nil && !kernel.IsEnd(ctx, err) {
			return failure.Of(err)
		}
		return nil
	})
}

// A Decision is the decision of an operator for a run that waits in [Park].
type Decision struct {
	Choice string
	Data   []byte // additional data, as JSON; may be nil
	By     string // the operator; may be empty
	Reason string
}

// Park waits until an operator decides by [Client.Decide] under that name. Meanwhile the run is
// SUSPENDED, and is kept for any length of time. A decision that is not one of choices is not
// taken. Without choices, every decision is taken.
func Park(ctx context.Context, name, reason string, choices ...string) (Decision, error) {
	d, err := sealed.Decide(ctx, name, "", reason, choices)
	return Decision{Choice: d.Choice, Data: d.Data, By: d.By, Reason: d.Reason}, err
}

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

// Fail ends the run as FAILED with err, from inside. It gives the termination
// error that every durable operation of the run gives from then on; what the
// function returns no longer counts.
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

// Cancel ends the run as CANCELLED with a reason, from inside. See [Fail] for
// what follows.
func Cancel(ctx context.Context, reason string) error {
	return kernel.CancelRun(ctx, failure.Clip(reason))
}

// ContinueAsNew ends the run as CONTINUED_AS_NEW and has a successor begin with
// that input, in the same commit: under the same workflow ID, with an empty
// journal and a timeout of its own. Messages that nobody has taken, named timers
// that have not fired, headers and search attributes move along; children do not.
// The input must have the type of the workflow's, or be encoded. See [Fail] for what follows; the
// natural use is
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

// inputKey is the key of the type of a workflow's input in the context of its code.
type inputKey struct{}

// checkInput refuses an input of another type than the workflow of ctx takes. What is encoded
// already may be one of any type.
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

// OnCancel plans what is done when the run is cancelled or times out: fn runs
// after the rest of its code has ended, in a scope of its own and with a context
// that has not, and then the run ends. It is workflow code; effects belong in its
// steps. Several run one after the other, the one planned last first. An error is
// told to observers and changes nothing. A run that is cancelled before this call
// does not do it.
//
// What a branch has planned is also done when that is cancelled: by [Future.Cancel], then
// beside what else the run does, or since it goes on when the run ends. The run does not
// end before that is done, unless it continues as new.
func OnCancel(ctx context.Context, name string, fn func(context.Context) error,
	opts ...BranchOption) error {
	return plan(ctx, name, false, fn, opts)
}

// Finally plans what is done before the run ends, however it does, except that it
// continues as new, or when its branch is cancelled. See [OnCancel] for how.
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
		if err := fn(ctx); err != nil {
			return failure.Of(err)
		}
		return nil
	})
}

// A Decision is what an operator decides for a run that waits in [Park].
type Decision struct {
	Choice string
	Data   []byte // what goes with it, as JSON; may be nil
	Reason string
}

// Park waits until an operator decides by [Client.Decide] under that name. The
// run is SUSPENDED meanwhile and is kept however long it takes. Of a decision that
// is none of choices nothing is taken; without choices every one is.
func Park(ctx context.Context, name, reason string, choices ...string) (Decision, error) {
	if !journal.ValidName(name) {
		return Decision{}, failure.BadName("name", name)
	}
	d, err := kernel.Decide(ctx, kernel.Decision{
		Name: name, Reason: failure.Clip(reason), Choices: choices,
	})
	return Decision{Choice: d.Choice, Data: d.Data, Reason: d.Reason}, err
}

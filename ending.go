package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// Fail ends the run as FAILED with err, from inside. It gives the termination
// error that every durable operation of the run gives from then on; what the
// function returns no longer counts.
func Fail(ctx context.Context, err error) error {
	if err == nil {
		return invalid("fail", "an error is needed")
	}
	f := toFailure(err)
	if ctx.Value(lettersKey{}) != nil {
		if e := letterOf(ctx, f); e != nil {
			return e
		}
	}
	return kernel.Fail(ctx, f)
}

// Cancel ends the run as CANCELLED with a reason, from inside. See [Fail] for
// what follows.
func Cancel(ctx context.Context, reason string) error { return kernel.CancelRun(ctx, clip(reason)) }

// End ends the run with a status of a pattern, such as CONFIRMED or COMPENSATED,
// with an output and an error, from inside. See [Fail] for what follows. In a clean-up
// it changes how the run will end, and nothing else.
func End(ctx context.Context, status journal.Status, output any, err error) error {
	if !status.IsTerminal() || status == journal.ContinuedAsNew {
		return invalid("end", "%v is not a status that a run ends in", status)
	}
	data, e := encodeAny(output)
	if e != nil {
		return &Error{Code: journal.CodeEncode, Op: "end", Message: "the output does not encode", Err: e}
	}
	var f *journal.Failure
	if err != nil {
		f = toFailure(err)
	}
	return kernel.EndRun(ctx, status, data, f)
}

// ContinueAsNew ends the run as CONTINUED_AS_NEW and has a successor begin with
// that input, in the same commit: under the same workflow ID, with an empty
// journal and a timeout of its own. Messages that nobody has taken, named timers
// that have not fired, headers and search attributes move along; children do not.
// The input must be one of the workflow's. See [Fail] for what follows; the
// natural use is
//
//	return out, perdure.ContinueAsNew(ctx, next)
func ContinueAsNew[I any](ctx context.Context, in I) error {
	data, err := encode(in)
	if err != nil {
		return &Error{Code: journal.CodeEncode, Op: "continue as new", Message: "the input does not encode", Err: err}
	}
	return kernel.ContinueAsNew(ctx, data)
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
func OnCancel(ctx context.Context, name string, fn func(context.Context) error, opts ...BranchOption) error {
	return plan(ctx, name, false, fn, opts)
}

// CleansUp is an option of a workflow whose code calls [OnCancel] or [Finally] before
// any other durable operation, however it is started: then that plan need not be
// recorded, which saves the first commit of a run that has nothing else to record. A run
// that has begun under it goes on so: its code must plan a clean-up first as long as it is
// open.
var CleansUp WorkflowOption = cleansUp{}

type cleansUp struct{}

func (cleansUp) workflow(w *workflow) error {
	w.CleansUp = true
	return nil
}

// Finally plans what is done before the run ends, however it does, except that it
// continues as new, or when its branch is cancelled. See [OnCancel] for how.
func Finally(ctx context.Context, name string, fn func(context.Context) error, opts ...BranchOption) error {
	return plan(ctx, name, true, fn, opts)
}

func plan(ctx context.Context, name string, always bool, fn func(context.Context) error, opts []BranchOption) error {
	o, err := branchOptions("clean-up", name, opts)
	if err != nil {
		return err
	}
	if fn == nil {
		return invalid("clean-up "+name, "a clean-up needs a function")
	}
	return kernel.Plan(ctx, o.naming(name), always, func(ctx context.Context) *journal.Failure {
		if err := fn(ctx); err != nil {
			return toFailure(err)
		}
		return nil
	})
}

// Leaving says whether the run of ctx leaves this engine's memory without having
// ended. Only deferred functions see that: they must do nothing but free memory
// and locks then.
func Leaving(ctx context.Context) bool { return kernel.Leaving(ctx) }

// EndingBy gives, in a clean-up, the error that the run will end with: that it was
// cancelled, say. It gives nil where the run has succeeded. In what is done for a branch
// that was cancelled while the run goes on, it is that error.
func EndingBy(ctx context.Context) error {
	f, err := kernel.EndingBy(ctx)
	if err != nil {
		return err
	}
	return fromFailure(f)
}

// Over gives the termination error where the run of ctx has ended or is about to, or its
// branch was cancelled; else nil. Workflow code that goes on after an error learns by it
// whether anything can be done still.
func Over(ctx context.Context) error { return kernel.Over(ctx) }

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
		return Decision{}, badName("name", name)
	}
	d, err := kernel.Decide(ctx, kernel.Decision{Name: name, Reason: clip(reason), Choices: choices})
	return Decision{Choice: d.Choice, Data: d.Data, Reason: d.Reason}, err
}

// A Fact is something that a pattern records for observers and for who reads the
// journal: that a step was skipped or compensated, that a phase began. It changes
// nothing by itself.
type Fact struct {
	Kind    journal.Kind // StepSkipped, CompensationStarted, StepCompensated, CompensationFailure, or one of a phase
	Name    string       // of the step, participant or phase
	Key     string
	Phase   string
	Reason  string
	Attempt int
	Err     error
}

// Record records a fact in the commit of the turn.
func Record(ctx context.Context, f Fact) error {
	switch f.Kind {
	case journal.StepSkipped, journal.CompensationStarted, journal.StepCompensated, journal.CompensationFailure,
		journal.PhaseStarted, journal.PhaseCompleted, journal.PhaseFailed:
	default:
		return invalid("record", "%v is not a fact of a pattern", f.Kind)
	}
	if !journal.ValidName(f.Name) {
		return badName("fact", f.Name)
	}
	d := &journal.Detail{Phase: f.Phase, Reason: f.Reason, Attempt: f.Attempt}
	if f.Err != nil {
		d.Failure = toFailure(f.Err)
	}
	return note(ctx, kernel.Note{Kind: f.Kind, Name: f.Name, Key: f.Key, Detail: d})
}

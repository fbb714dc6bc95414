package pattern

import (
	"cmp"
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Enclose runs fn in a scope, as [perdure.Scope] opens one, and returns its error. Where ctx is
// bounded by the author, with a timeout, say, fn has a branch of its own, and the context
// of that is not: when ctx ends the branch is cancelled, so that what fn has planned with
// [perdure.OnCancel] is done beside what else the run does, and the error is that of ctx.
func Enclose(ctx context.Context, name string, fn func(context.Context) error,
	opts ...perdure.BranchOption) error {
	own, bounded := kernel.Own(ctx)
	if !bounded {
		within, err := perdure.Scope(ctx, name, opts...)
		if err != nil {
			return err
		}
		return fn(within)
	}
	var failed error
	f := perdure.Go(own, name, func(ctx context.Context) (int, error) {
		failed = fn(ctx)
		return 0, nil
	}, opts...)
	_, err := f.Await(ctx)
	if err == nil {
		return failed
	}
	if _, never := f.Operation(); never != nil || EndedBy(own) != nil {
		return err
	}
	_, over := f.Cancel(own, err.Error())
	return cmp.Or(over, err)
}

// StandsFor is an option of a branch or scope in which is done what belongs to another
// one of the run, that of ctx: steps in a [perdure.Phase] have the idempotency keys that they
// would have there, and facts count as recorded there. So what one scope has done,
// another one can undo, whoever's goroutine that is.
func StandsFor(ctx context.Context) perdure.BranchOption { return standsFor{ctx} }

type standsFor struct{ ctx context.Context }

func (f standsFor) ApplyToBranch(o *sealed.Operation) error {
	if f.ctx == nil {
		return failure.Invalid("stands for", "a context is needed")
	}
	o.StandsFor = f.ctx
	return nil
}

// ForStep is an option of a branch that does the work of a step of that name, beside it: reports
// tell of the step from when the branch begins, and that it is CANCELLED where the branch
// is. The step's own record comes when the branch has ended.
type ForStep string

func (d ForStep) ApplyToBranch(o *sealed.Operation) error {
	if !journal.ValidName(string(d)) {
		return failure.BadName("step", string(d))
	}
	o.ForStep = string(d)
	return nil
}

// EndedBy returns the error that ends the run where the run of ctx has ended or is about to, or its
// branch was cancelled; else nil. Workflow code that goes on after an error learns by it
// whether anything can be done still.
func EndedBy(ctx context.Context) error { return kernel.Over(ctx) }

// Leaving says whether the run of ctx leaves this engine's memory without having
// ended. Only deferred functions see that: they must do nothing but free memory
// and locks then.
func Leaving(ctx context.Context) bool { return kernel.Leaving(ctx) }

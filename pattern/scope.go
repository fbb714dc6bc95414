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

// Enclose runs fn in a scope, as [perdure.Scope] opens one, and returns its error. If the author
// has bounded ctx, for example with a timeout, fn runs in a branch of its own, and the context of
// the branch is not bounded. When ctx ends, the branch is cancelled and the error is that of ctx.
// The clean-ups that fn has planned with [perdure.OnCancel] then run beside the rest of the run.
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

// StandsFor is an option of a branch or scope that does the work of another branch or scope of the
// run: the one of ctx. Steps in a [perdure.Phase] have the idempotency keys that they would have
// there, and facts count as recorded there. So one scope can undo the work of another scope, in any
// goroutine.
func StandsFor(ctx context.Context) perdure.BranchOption { return standsFor{ctx} }

type standsFor struct{ ctx context.Context }

func (f standsFor) ApplyToBranch(o *sealed.Operation) error {
	if f.ctx == nil {
		return failure.Invalid("stands for", "a context is needed")
	}
	o.StandsFor = f.ctx
	return nil
}

// ForStep is an option of a branch that does the work of a step beside it; its value is the name of
// the step. Reports show the step from the start of the branch, and show it as CANCELLED if the
// branch is cancelled. The record of the step itself comes when the branch has ended.
type ForStep string

func (d ForStep) ApplyToBranch(o *sealed.Operation) error {
	if !journal.ValidName(string(d)) {
		return failure.BadName("step", string(d))
	}
	o.ForStep = string(d)
	return nil
}

// CancelWaiting cancels a branch if its step waits for the next attempt, and reports whether it has
// done so. If an attempt is being made, it is the last one, and the branch goes on with its result.
// Steps of branches within the branch are tried again as ever.
func CancelWaiting(ctx context.Context, branch Awaitable, reason string) (bool, error) {
	o, never := branch.Operation()
	if never != nil {
		return false, nil
	}
	return o.CancelWaiting(ctx, failure.Clip(reason))
}

// EndedBy returns the error that ends the run if the run of ctx has ended or is about to end, or if
// its branch was cancelled; else nil. Workflow code that goes on after an error calls it to learn
// whether operations are still possible.
func EndedBy(ctx context.Context) error { return kernel.Over(ctx) }

// Leaving reports whether the run of ctx leaves this engine's memory without having ended. Only
// deferred functions see this: they must then do nothing except free memory and locks.
func Leaving(ctx context.Context) bool { return kernel.Leaving(ctx) }

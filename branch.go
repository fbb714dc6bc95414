package perdure

import (
	"context"
	"iter"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Future is the result of a step or branch that runs beside the workflow. It
// belongs to workflow code: its methods are called by goroutines of the
// workflow.
type Future[T any] struct {
	name string
	op   *kernel.Operation
	err  error // why there is no operation

	// value gives the result of an outcome without a failure; nil decodes it.
	value func(kernel.Outcome) (T, error)
}

// result gives what an outcome of the future is to workflow code.
func (f *Future[T]) result(out kernel.Outcome, err error) (T, error) {
	if err == nil && out.Failure == nil && f.value != nil {
		return f.value(out)
	}
	return result[T]("future", f.name, out, err)
}

// Async runs fn as a step beside the workflow. Its start is recorded, it ends by
// itself, and its failure, if nobody awaits it, is recorded and does not fail
// the run. A step that still runs when the workflow ends is cancelled.
func Async[T any](ctx context.Context, name string, fn func(context.Context) (T, error),
	opts ...StepOption) *Future[T] {
	f := &Future[T]{name: name}
	spec, err := stepSpec(name, fn, opts)
	if err != nil {
		f.err = err
		return f
	}
	f.op, f.err = kernel.Async(ctx, spec)
	return f
}

// Go runs fn as a branch of the workflow, on a goroutine and with a scope of its
// own: what it does in durable operations is named within name. fn is workflow
// code: it is replayed, and its effects belong in steps. It must use the context
// that it is given. Branches of a run do not run at the same time: each runs
// until it waits.
func Go[T any](ctx context.Context, name string, fn func(context.Context) (T, error),
	opts ...BranchOption) *Future[T] {
	f := &Future[T]{name: name}
	o, err := sealed.Branch("branch", name, opts)
	if err == nil && fn == nil {
		err = failure.Invalid("go "+name, "a branch needs a function")
	}
	if err != nil {
		f.err = err
		return f
	}
	f.op, f.err = kernel.Go(ctx, o.Naming(name), func(ctx context.Context) ([]byte,
		*journal.Failure) {
		return payload.Call(ctx, "branch", name, fn)
	})
	return f
}

// Scope opens a namespace for the operations that are called with the context
// it gives, so that a helper's names do not meet its caller's.
func Scope(ctx context.Context, name string, opts ...BranchOption) (context.Context, error) {
	o, err := sealed.Branch("scope", name, opts)
	if err != nil {
		return nil, err
	}
	return kernel.Open(ctx, o.Naming(name))
}

// Await waits until the operation has ended, or ctx has, and gives its result.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if f.err != nil {
		var zero T
		return zero, f.err
	}
	out, err := f.op.Await(ctx)
	return f.result(out, err)
}

// Operation is for package pattern: what the kernel knows it by, or why it never began.
func (f *Future[T]) Operation() (*kernel.Operation, error) { return f.op, f.err }

// State tells without waiting whether and how the operation has ended: RUNNING,
// or DONE with the result, or FAILED, TIMED_OUT or CANCELLED with the error. On
// replay it tells the same.
func (f *Future[T]) State() (journal.StepStatus, T, error) {
	var zero T
	if f.err != nil {
		return journal.StepIsFailed, zero, f.err
	}
	out, ended := f.op.State()
	if !ended {
		return journal.StepIsRunning, zero, nil
	}
	v, err := f.result(out, nil)
	switch {
	case err == nil:
		return journal.StepIsDone, v, nil
	case out.Failure != nil && out.Failure.Code == journal.CodeCancelled:
		return journal.StepIsCancelled, zero, err
	case out.Failure != nil && out.Failure.Code == journal.CodeTimedOut:
		return journal.StepIsTimedOut, zero, err
	}
	return journal.StepIsFailed, zero, err
}

// Attempts is how many attempts a step has had that has ended; 0 before, and of what is
// no step. On replay it is the same.
func (f *Future[T]) Attempts() int {
	if f.err != nil {
		return 0
	}
	out, ended := f.op.State()
	switch {
	case !ended || out.At.IsZero():
		return 0
	case out.Detail == nil:
		return 1
	}
	return max(out.Detail.Attempt, 1)
}

// Cancel ends the step or branch: its terminal record says cancelled, and
// awaiting it gives an [Error] of code cancelled. It gives false where the
// operation had ended before.
func (f *Future[T]) Cancel(ctx context.Context, reason string) (bool, error) {
	if f.err != nil {
		return false, nil
	}
	return f.op.Cancel(ctx, failure.Clip(reason))
}

// AsCompleted gives the futures in the order in which they end. Where ctx ends
// first, or the run does, it gives nil once with that error, and stops.
func AsCompleted[T any](ctx context.Context, futures ...*Future[T]) iter.Seq2[*Future[T], error] {
	return func(yield func(*Future[T], error) bool) {
		byOp := make(map[*kernel.Operation]*Future[T], len(futures))
		ops := make([]*kernel.Operation, 0, len(futures))
		for _, f := range futures {
			if f.err != nil {
				if !yield(f, nil) {
					return
				}
				continue
			}
			if byOp[f.op] == nil {
				byOp[f.op] = f
				ops = append(ops, f.op)
			}
		}
		set, err := kernel.Watch(ctx, ops)
		if err != nil {
			yield(nil, err)
			return
		}
		defer set.Close()
		for range ops {
			op, out, err := set.Next()
			f := byOp[op]
			if err == nil && f == nil {
				err = failure.Err(out.Failure)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// matching gives the value of an ended future and whether it matches; nil for
// match means that it succeeded.
func matching[T any](f *Future[T], match func(T) bool) bool {
	_, v, err := f.State()
	return err == nil && (match == nil || match(v))
}

// Any waits for a future whose result matches, and gives its index as soon as
// one does, in the order in which they end; -1 when all have ended and none
// does. A nil match holds for every result; a failed future matches nothing.
func Any[T any](ctx context.Context, match func(T) bool, futures ...*Future[T]) (int, error) {
	for f, err := range AsCompleted(ctx, futures...) {
		if err != nil {
			return -1, err
		}
		if matching(f, match) {
			for i := range futures {
				if futures[i] == f {
					return i, nil
				}
			}
		}
	}
	return -1, nil
}

// All says whether the results of all futures match. It returns as soon as one
// does not, or all do.
func All[T any](ctx context.Context, match func(T) bool, futures ...*Future[T]) (bool, error) {
	for f, err := range AsCompleted(ctx, futures...) {
		if err != nil {
			return false, err
		}
		if !matching(f, match) {
			return false, nil
		}
	}
	return true, nil
}

// None says whether no future's result matches. It returns as soon as one does,
// or none can.
func None[T any](ctx context.Context, match func(T) bool, futures ...*Future[T]) (bool, error) {
	i, err := Any(ctx, match, futures...)
	return i < 0 && err == nil, err
}

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

// A Future is the result of a step or branch that runs beside the workflow. It belongs to
// workflow code: only goroutines of the workflow call its methods.
type Future[T any] struct {
	name string
	op   *kernel.Operation
	err  error        // the reason if there is no operation
	step *kernel.Step // nil if it is no step

	// value returns the result of an outcome without a failure. If it is nil, the result is
	// decoded.
	value func(kernel.Outcome) (T, error)
}

// result returns the value or error that workflow code gets for an outcome.
func (f *Future[T]) result(out kernel.Outcome, err error) (T, error) {
	if err == nil && out.Failure == nil && f.value != nil {
		return f.value(out)
	}
	if f.step != nil {
		return resultOf[T](*f.step, out, err)
	}
	return result[T]("future", f.name, out, err)
}

// Async runs fn as a step beside the workflow. Its start is recorded. Nobody need await the step: a
// failure that nobody awaits is recorded and does not fail the run. A step that still runs when the
// workflow ends is cancelled.
func Async[T any](ctx context.Context, name string, fn func(context.Context) (T, error),
	opts ...StepOption) *Future[T] {
	f := &Future[T]{name: name}
	spec, err := stepSpec(name, fn, opts)
	if err != nil {
		f.err = err
		return f
	}
	f.step = &spec
	f.op, f.err = kernel.Async(ctx, spec)
	return f
}

// Go runs fn as a branch of the workflow, on a goroutine and with a scope of its own: names of
// durable operations in fn are relative to name. fn is workflow code: it is replayed, and its
// effects belong in steps. It must use the context that it gets. Branches of a run do not run at
// the same time: each runs until it waits.
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

// Scope opens a namespace for the operations that are called with the context that it returns. So
// the names in a helper do not collide with the names of its caller.
func Scope(ctx context.Context, name string, opts ...BranchOption) (context.Context, error) {
	o, err := sealed.Branch("scope", name, opts)
	if err != nil {
		return nil, err
	}
	return kernel.Open(ctx, o.Naming(name))
}

// Await waits until the operation or ctx has ended, and returns the result of the operation.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if f.err != nil {
		var zero T
		return zero, f.err
	}
	out, err := f.op.Await(ctx)
	return f.result(out, err)
}

// Operation is for package pattern. It returns the operation as the kernel knows it, or the error
// for which it never began.
func (f *Future[T]) Operation() (*kernel.Operation, error) { return f.op, f.err }

// State returns, without waiting, the status of the operation: RUNNING; DONE with the result; or
// FAILED, TIMED_OUT or CANCELLED with the error. On replay it returns the same.
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

// Attempts returns the number of attempts of a step that has ended. It returns 0 before the end,
// and for an operation that is not a step. On replay it returns the same.
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

// Cancel ends the step or branch: it is recorded as cancelled, and awaiting it returns an [Error]
// of code cancelled. Cancel returns false if the operation had ended before.
func (f *Future[T]) Cancel(ctx context.Context, reason string) (bool, error) {
	if f.err != nil {
		return false, nil
	}
	return f.op.Cancel(ctx, failure.Clip(reason))
}

// AsCompleted returns the futures in the order in which they end. If ctx or the run ends first, it
// yields a nil future with that error once, and stops.
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

// matching returns the value of a future that has ended, and whether the value matches. A nil
// match accepts every success.
func matching[T any](f *Future[T], match func(T) bool) bool {
	_, v, err := f.State()
	return err == nil && (match == nil || match(v))
}

// Any waits for a future whose result matches, in the order in which futures end, and returns its
// index as soon as there is one. It returns -1 and a nil error when all have ended and none
// matches. A nil match accepts every result; a failed future never matches.
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

// All reports whether the results of all futures match. It returns as soon as one does not match,
// or when all do.
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

// None reports whether no future's result matches. It returns as soon as one matches, or when
// none can.
func None[T any](ctx context.Context, match func(T) bool, futures ...*Future[T]) (bool, error) {
	i, err := Any(ctx, match, futures...)
	return i < 0 && err == nil, err
}

package backpressure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/paced"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Each has the options of a [ForEach]. With the zero value all items are done at once, and no item
// may fail.
type Each[T any] struct {
	// Policy limits the number of items that go on at a time; nil means no limit. [Batched] does
	// them in batches.
	Policy Policy
	// Key returns the name of an item, which identifies its step. The names of all items must be
	// different. Key must decide by its argument alone. If Key is nil, the items are numbered from
	// 0; then the items must be in the same order on replay, also in a newer build.
	Key func(item T) string
	// Failures is the number of items that may fail. FailedShare is the share of items that may
	// fail, 0 to 1. The larger of the two numbers counts. If more items fail, no further item
	// begins.
	Failures    int
	FailedShare float64
}

// A StepOption is a perdure.StepOption.
type StepOption interface{ ApplyToStep(*sealed.Operation) error }

// A Result is the result of one item.
type Result[R any] struct {
	Value R     // zero if the item has failed
	Err   error // the error of the step, or of the policy that refused it
}

// Results are the results of all items, in the order of the items.
type Results[R any] []Result[R]

// Values returns the values of all items, in their order; zero for items that failed.
func (r Results[R]) Values() []R {
	out := make([]R, len(r))
	for i := range r {
		out[i] = r[i].Value
	}
	return out
}

// Failed returns the numbers of the items that have failed or have not begun.
func (r Results[R]) Failed() []int {
	var out []int
	for i := range r {
		if r[i].Err != nil {
			out = append(out, i)
		}
	}
	return out
}

// ForEach runs fn for each item as a step of the workflow, and waits for the steps. The policy
// limits the number of steps at a time. The name and the item's key identify the step of an item.
// Each step has an idempotency key of its own, and is durable and replayed as any other step. opts
// are options of all steps, such as perdure.Retry and perdure.Timeout.
//
// If more items have failed than may, the steps that have begun run to their end, and no other step
// begins. Then the error is of code failed and has the errors of the items; the results are
// returned too. The results are nil if the run ends first, or if an argument is not valid.
func ForEach[T, R any](
	ctx context.Context, name string, items []T, how Each[T],
	fn func(context.Context, T) (R, error), opts ...StepOption,
) (Results[R], error) {
	e := each[T, R]{ctx: ctx, name: name, items: items, how: how, fn: fn, opts: opts}
	if err := e.check(); err != nil {
		return nil, err
	}
	info, err := kernel.InfoOf(ctx)
	if err != nil {
		return nil, err
	}
	policy := how.Policy
	if policy == nil {
		policy = Limit(0)
	}
	limiter, err := Begin(ctx, policy)
	if err != nil {
		return nil, err
	}
	pace := paced.New(ctx, limiter, info.Started, paced.Things[int]{
		Begin: e.begin, Ended: e.ended,
	})
	defer pace.Close()
	numbers := make([]int, len(items))
	for i := range numbers {
		numbers[i] = i
	}
	if err := pace.All(numbers); err != nil {
		return nil, err
	}
	return e.results, e.verdict()
}

// An each is one use of ForEach.
type each[T, R any] struct {
	ctx     context.Context
	name    string
	items   []T
	how     Each[T]
	fn      func(context.Context, T) (R, error)
	opts    []StepOption
	keys    []string
	results Results[R]
	failed  int
}

// A begun is the step of an item that has begun; see [paced.Awaitable].
type begun struct {
	op  *kernel.Operation
	err error // the reason if it has not begun
}

func (b begun) Operation() (*kernel.Operation, error) { return b.op, b.err }

// check refuses arguments that are not valid, and sets the keys of the items.
func (e *each[T, R]) check() error {
	op := "for each " + e.name
	switch {
	case !journal.ValidName(e.name):
		return failure.BadName("step", e.name)
	case e.fn == nil:
		return failure.Invalid(op, "a function is needed")
	case e.how.Failures < 0:
		return failure.Invalid(op, "Failures %d is not valid: at least 0", e.how.Failures)
	case !(e.how.FailedShare >= 0 && e.how.FailedShare <= 1):
		return failure.Invalid(op, "FailedShare %v is not valid: allowed are 0 to 1",
			e.how.FailedShare)
	}
	if err := check(op, e.how.Policy); err != nil {
		return err
	}
	step, err := sealed.Step(e.name, e.opts)
	if err == nil {
		err = sealed.Fits(step, reflect.TypeFor[R]())
	}
	if err != nil {
		return err
	}
	e.results, e.keys = make(Results[R], len(e.items)), make([]string, len(e.items))
	seen := make(map[string]int, len(e.items))
	for i, item := range e.items {
		key := strconv.Itoa(i)
		if e.how.Key != nil {
			key = e.how.Key(item)
		}
		if !journal.ValidName(key) {
			return failure.BadName(fmt.Sprintf("%s: the key of item %d,", op, i), key)
		}
		if other, twice := seen[key]; twice {
			return failure.Invalid(op, "items %d and %d have the key %s", other, i,
				failure.Quoted(key))
		}
		seen[key], e.keys[i] = i, key
	}
	return nil
}

// mayFail returns the number of items that may fail.
func (e *each[T, R]) mayFail() int {
	const bit = 1e-9 // 0.29 of 100 is 29, although the product is less
	return max(e.how.Failures, int(e.how.FailedShare*float64(len(e.items))+bit))
}

// errNotBegun is the error of an item that does not begin because too many have failed.
var errNotBegun = &journal.Error{
	Code: journal.CodeCancelled, Message: "not begun, since too many items have failed",
}

// begin begins the step of an item.
func (e *each[T, R]) begin(i int, _ bool) (paced.Awaitable, error) {
	if e.failed > e.mayFail() {
		e.results[i].Err = errNotBegun
		return nil, errNotBegun
	}
	step, err := sealed.Step(e.name, e.opts)
	if err != nil {
		return begun{err: err}, nil
	}
	step.Key = e.keys[i]
	item := e.items[i]
	step.Body = func(ctx context.Context) ([]byte, *journal.Failure) {
		return payload.Call(ctx, "step", e.name, func(ctx context.Context) (R, error) {
			return e.fn(ctx, item)
		})
	}
	op, err := kernel.Async(e.ctx, step)
	return begun{op, err}, nil
}

// ended takes in the result of an item.
func (e *each[T, R]) ended(i int, f paced.Awaitable, refused error) (paced.Awaitable, error) {
	r := &e.results[i]
	if r.Err = refused; refused == nil {
		r.Value, r.Err = e.result(f)
	}
	if r.Err != nil {
		e.failed++
	}
	return nil, r.Err
}

// result returns the result of a step that has ended.
func (e *each[T, R]) result(f paced.Awaitable) (v R, err error) {
	op, err := f.Operation()
	if err != nil {
		return v, err
	}
	out, err := op.Await(e.ctx)
	if err != nil {
		return v, err
	}
	return payload.Result[R]("step", e.name, out.Data, out.Failure)
}

// verdict returns the error of ForEach; nil if no more items have failed than may.
func (e *each[T, R]) verdict() error {
	if e.failed <= e.mayFail() {
		return nil
	}
	var errs []error
	for i, r := range e.results {
		if r.Err != nil && !errors.Is(r.Err, errNotBegun) {
			errs = append(errs, fmt.Errorf("%s: %w", e.keys[i], r.Err))
		}
	}
	return &journal.Error{
		Code: journal.CodeFailed, Op: "for each " + e.name,
		Message: fmt.Sprintf("%d of %d items have failed, and %d may", e.failed, len(e.items),
			e.mayFail()),
		Err: errors.Join(errs...),
	}
}

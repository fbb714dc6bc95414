package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/pattern"
)

// A retrying has the policies of Retry actions of a visit. The functions of steps set them.
type retrying struct {
	asked  atomic.Pointer[perdure.Retry] // by the call that has just returned
	before atomic.Pointer[perdure.Retry] // by the call before
}

// An askedAgain is the error of a call that has returned a Retry.
type askedAgain struct {
	Attempts int `json:"attempts"` // of the policy
	why      error
}

var _ = perdure.RegisterErrorType[*askedAgain]("perdure.machine.again")

func (e *askedAgain) Error() string {
	if e.why == nil {
		return "the step asks to be called again"
	}
	return e.why.Error()
}

// Unwrap returns the reason.
func (e *askedAgain) Unwrap() error { return e.why }

// begin makes the task of the visit.
func (v *visit) begin() {
	v.task = pattern.Visit{
		Name: v.s.id, Key: v.key, Undo: v.s.undo != nil, Timeout: v.s.timeout, Retry: v.again,
	}
}

// again decides by the policy what follows the n-th attempt.
func (v *visit) again(n int, err error) (time.Duration, bool) {
	policy := v.tries.asked.Load()
	if err == nil {
		policy = v.tries.before.Load()
	}
	if policy == nil {
		policy = cmp.Or(v.s.retry, v.p.x.retry)
	}
	if policy == nil {
		return 0, false
	}
	after, again := pattern.NextAttempt(*policy, n, err)
	return min(after, maxDelay), again
}

// call calls the step, and waits for its result. The function of the step may go on after that, if
// its time was over: so it sees a copy of what changes.
func (v *visit) call(ctx context.Context) error {
	c := call{
		x: v.p.x, v: v, failure: v.p.failure, state: v.state, late: v.late,
		decided: maps.Clone(v.decided),
	}
	v.task.Call = func(ctx context.Context) (pattern.Visited, error) { return v.body(ctx, &c) }
	last, err := v.task.Run(ctx)
	if err == nil {
		v.last = last
		return nil
	}
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	return &failed{
		step: v.s, input: v.in, path: v.path(), data: last.Data, err: err, tries: last.Attempts(),
	}
}

// body calls the function of the step once.
func (v *visit) body(ctx context.Context, c *call) (pattern.Visited, error) {
	v.tries.asked.Store(nil)
	v.tries.before.Store(nil)
	var before *askedAgain
	if errors.As(pattern.Before(ctx), &before) {
		v.tries.before.Store(&perdure.Retry{Attempts: before.Attempts})
	}
	a, err := v.s.call(context.WithValue(ctx, callKey{}, c), v.in)
	if err == nil {
		err = a.check(v.s)
	}
	if err != nil {
		return pattern.Visited{}, pattern.RetryWithin(maxDelay, err)
	}
	if a.kind == retries {
		if ctx.Err() == nil { // else the next call may have begun
			v.tries.asked.Store(&a.policy)
		}
		again := &askedAgain{a.policy.Attempts, a.why}
		return pattern.Visited{}, pattern.RetryWithin(maxDelay, again)
	}
	for _, e := range a.events {
		if err := perdure.Emit(ctx, e.kind, e.data); err != nil {
			return pattern.Visited{}, perdure.Permanent(err)
		}
	}
	return v.result(a)
}

// result returns what the journal keeps of an action.
func (v *visit) result(a Action) (pattern.Visited, error) {
	data, err := a.record()
	if err != nil {
		err = fmt.Errorf("%s of step %s: %w", a.word(), v.s.id, err)
		return pattern.Visited{}, perdure.Permanent(err)
	}
	r := pattern.Visited{
		Data: data, Then: string(a.kind), Over: a.kind.ends(), Watches: a.kind == suspends,
	}
	switch a.kind {
	case completes:
		next, err := v.s.next(a.next, data)
		if err != nil {
			return pattern.Visited{}, perdure.Permanent(err)
		}
		if r.Next = next; next == "" && len(v.s.targets) > 0 {
			r.Next = End
		}
		if len(v.s.targets) == 1 {
			r.Next = ""
		}
	case splits:
		r.Next = a.next
	case fails:
		return r, perdure.Permanent(errors.New(a.reason))
	}
	return r, nil
}

// word names the action for people.
func (a Action) word() string {
	if a.kind == completes {
		return "COMPLETE"
	}
	return string(a.kind)
}

// made returns the value that code of the application makes, in workflow code.
func made[T any](f func() T) (out T, err error) {
	err = guard.Try(func() error {
		out = f()
		return nil
	})
	return out, err
}

// joined returns the outputs of branches as one JSON object.
func joined(outputs map[string]json.RawMessage) (json.RawMessage, error) {
	for name, out := range outputs {
		if out == nil {
			outputs[name] = json.RawMessage("null")
		}
	}
	return pattern.Encode(outputs)
}

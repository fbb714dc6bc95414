package pattern

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Visit is a piece of work of a declared pattern that may go on over several steps of the
// workflow. Between two of them workflow code waits, or does something else. The steps have one
// name and key, and count as one: they have one idempotency key ([perdure.IdempotencyKey]), and one
// value for each key of [perdure.Once].
//
// A body that reads signals claims them: no other visit of the run sees them while the body goes
// on. With a result that is Over they are taken, in the commit of the result.
type Visit struct {
	Name string
	Key  string // separates visits of one name
	Undo bool   // it has a compensation

	Timeout time.Duration // of one attempt; 0 means none
	// Retry returns how long after a failure of the n-th attempt the next attempt begins, and false
	// if the n-th was the last. It is also called with a nil error, to learn whether the n-th
	// attempt is the last. Nil means one attempt.
	Retry func(n int, err error) (time.Duration, bool)
	// Call is the body.
	Call func(ctx context.Context) (Visited, error)
}

// A Visited is the result of one step of a visit.
type Visited struct {
	Data json.RawMessage
	// Then is the action that the visit takes before it goes on; empty if it is over. It is in the
	// journal, for people.
	Then string
	Next string // the step that is next, if the result decides about it
	// Over makes the events and signals of the body count. A body that fails with data and Over
	// keeps them too: the data is recorded with the failure, and there is no further attempt.
	Over bool
	// Watches records which signals had come as the body began, for [Visit.Signal].
	Watches bool

	seen     int64
	besides  []int64
	skipped  bool
	attempts int
}

// Skipped reports whether an operator has set the result.
func (v Visited) Skipped() bool { return v.skipped }

// Attempts returns the number of attempts of the step.
func (v Visited) Attempts() int { return v.attempts }

// Run runs the next step of the visit. With an error it returns the data of a failure that is Over.
func (v Visit) Run(ctx context.Context) (Visited, error) {
	out, err := kernel.Do(ctx, kernel.Step{Name: v.Name, Key: v.Key, Work: kernel.Work{
		Visit: true, Undo: v.Undo, Timeout: v.Timeout, Next: v.next, Body: v.body,
	}})
	if err != nil {
		return Visited{}, err
	}
	r := Visited{Data: out.Data, attempts: 1}
	if d := out.Detail; d != nil {
		r.Then, r.Next, r.seen, r.skipped = d.Then, d.Next, d.Seen, d.Skipped
		r.attempts = max(d.Attempt, 1)
	}
	if len(out.Hidden) > 0 {
		r.seen, r.besides = out.Last, out.Hidden
	}
	return r, failure.Err(out.Failure)
}

func (v Visit) next(n int, f *journal.Failure) (time.Duration, bool) {
	if v.Retry == nil {
		return 0, false
	}
	return v.Retry(n, failure.Err(f))
}

func (v Visit) body(ctx context.Context) ([]byte, *journal.Failure) {
	s, err := kernel.StepOf(ctx, "visit")
	if err != nil {
		return nil, failure.Of(err)
	}
	r, err := v.Call(ctx)
	d := journal.VisitDetail{Then: r.Then, Next: r.Next}
	if r.Watches {
		d.Seen = 1
	}
	s.Says(d, r.Over)
	switch {
	case err == nil:
		return r.Data, nil
	case !r.Over:
		return nil, failure.Of(err)
	}
	return r.Data, failure.Of(err)
}

// Before returns the error of the attempt before that of ctx, in the body of a visit; nil if there
// is none.
func Before(ctx context.Context) error {
	s, err := kernel.StepOf(ctx, "before")
	if err != nil {
		return nil
	}
	return failure.Err(s.Before())
}

// RetryWithin returns an error of a body that asks for a delay of at most that much: see
// [perdure.RetryAfter].
func RetryWithin(most time.Duration, err error) error {
	if err == nil {
		return nil
	}
	if c := failure.Of(err).ClassOf(); c != nil && c.Class == journal.ClassRetry && c.After > most {
		return perdure.RetryAfter(most, err)
	}
	return err
}

// NextAttempt returns how long after a failure of the n-th attempt a policy lets the next attempt
// begin, and false if it lets none begin. A nil error counts as one that it retries.
func NextAttempt(policy perdure.Retry, n int, err error) (time.Duration, bool) {
	var o sealed.Operation
	if policy.ApplyToStep(&o) != nil {
		return 0, false
	}
	if err == nil {
		return o.Next(n, nil)
	}
	return o.Next(n, failure.Of(err))
}

// Signal waits until a signal of any name comes that had not come as the body of the last step
// began, or that another body had claimed when that body looked for it, or until an operator
// resumes the run. It takes no signal. A within above 0 limits the wait: in is false if it passes.
func (v Visit) Signal(ctx context.Context, last Visited, within time.Duration) (in bool,
	err error) {
	out, err := kernel.Receive(ctx, kernel.Wait{
		Name: "wait." + v.Name, Key: v.Key, Any: true, After: last.seen, Besides: last.besides,
		Within: within,
	})
	switch f := out.Failure; {
	case err != nil:
		return false, err
	case f != nil && f.Code == journal.CodeTimedOut:
		return false, nil
	}
	return true, failure.Err(out.Failure)
}

// FirstVersion is [perdure.Version] for code that calls it before anything else. A run that another
// build has begun, and that has no number yet, has number 0: if that build did not know the change,
// the step that it was doing may have an effect.
func FirstVersion(ctx context.Context, change string, max int) (int, error) {
	return kernel.Version(ctx, change, max, true)
}

// Unversioned suspends the run if it has a version of that change, which code with versions has
// decided ([perdure.Version]). Code without versions calls it in place of that.
func Unversioned(ctx context.Context, change string) error {
	_, err := kernel.Version(ctx, change, 0, false)
	return err
}

// ShouldYield reports whether the engine is stopping, or the attempt of ctx has taken that long. It
// is called in the body of a visit.
func ShouldYield(ctx context.Context, slice time.Duration) bool {
	s, err := kernel.StepOf(ctx, "should yield")
	return err == nil && (s.Draining() || s.Took() >= slice)
}

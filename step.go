package perdure

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A StepOption is an option of a step: [Retry], [Timeout], [Key], [RenamedFrom], [Added],
// [Phase], limit.Control, effect.AtMostOnce, effect.Undo, effect.Parks, steplog.Keep or
// pattern.Announced.
type StepOption interface{ ApplyToStep(*sealed.Operation) error }

// A BranchOption is an option of a branch, scope, timer, side effect or clean-up: [Key],
// [RenamedFrom], [Added], pattern.StandsFor or pattern.ForStep. backpressure.Named is an option
// of an inline saga only, and deadletter.At of a dead letter only.
type BranchOption interface{ ApplyToBranch(*sealed.Operation) error }

func (r Retry) ApplyToStep(o *sealed.Operation) error {
	o.Next = r.next
	return r.Validate()
}

// Timeout limits one attempt of a step. As an option of a workflow, it limits the whole run. An
// attempt that passes the limit has failed, and the engine does not wait for it.
type Timeout time.Duration

func (t Timeout) ApplyToStep(o *sealed.Operation) error {
	if t < 0 {
		return failure.NegativeTimeout(time.Duration(t))
	}
	o.Timeout = time.Duration(t)
	return nil
}

// Key distinguishes operations that have one name. An operation in a loop over data should have
// one, such as the ID of the item. It has the form of a name.
type Key string

func (k Key) ApplyToStep(o *sealed.Operation) error {
	if !journal.ValidName(string(k)) {
		return failure.BadName("key", string(k))
	}
	o.Key = string(k)
	return nil
}

func (k Key) ApplyToBranch(o *sealed.Operation) error { return k.ApplyToStep(o) }

// RenamedFrom is the name that an operation had in an older build. Runs that recorded the
// operation under the old name go on with it. See [Added].
type RenamedFrom string

func (w RenamedFrom) ApplyToStep(o *sealed.Operation) error {
	if !journal.ValidName(string(w)) {
		return failure.BadName("old name", string(w))
	}
	o.Change.Was = string(w)
	return nil
}

func (w RenamedFrom) ApplyToBranch(o *sealed.Operation) error { return w.ApplyToStep(o) }

type added struct{}

// Added is an option of an operation that a newer build has inserted before others. Runs that have
// recorded the later operations perform the added operation too, although it is late. Without the
// option, such a run is suspended when the code of the newer build comes to the operation. The
// operation may be a recorded one under another name, and its effect would happen twice. Other ways
// to decide are [RenamedFrom], [Version], an operator who resumes the run, and [ByName].
var Added added

func (added) ApplyToStep(o *sealed.Operation) error {
	o.Change.Added = true
	return nil
}

func (a added) ApplyToBranch(o *sealed.Operation) error { return a.ApplyToStep(o) }
func (a added) ApplyToChild(o *sealed.Child) error      { return a.ApplyToStep(&o.Operation) }

func (added) ApplyToWait(w *kernel.Wait) error {
	w.Added = true
	return nil
}

// A Phase is an option of a step that is part of a larger operation: of a participant of a TCC, or
// of an undo of a step. It is put before the step's name: a step debit in PhaseTry is the operation
// try:debit. Calls of the step in a scope, and in the clean-ups of that scope, have the same
// idempotency key. The first attempt of every phase except try is announced, see package
// pattern.
type Phase string

// The phases.
const (
	PhaseTry     Phase = journal.PhaseTry
	PhaseConfirm Phase = journal.PhaseConfirm
	PhaseCancel  Phase = journal.PhaseCancel
	PhaseUndo    Phase = journal.PhaseUndo

	// PhaseComposition is only used in a pattern.Fact: a composition of sagas or TCCs begins or
	// ends.
	PhaseComposition Phase = journal.PhaseComposition
)

func (p Phase) ApplyToStep(o *sealed.Operation) error {
	switch p {
	case PhaseTry, PhaseConfirm, PhaseCancel, PhaseUndo:
		o.Phase, o.Announced = string(p), o.Announced || p != PhaseTry
		return nil
	}
	return failure.Invalid("step", "no such phase: %s", failure.Quoted(string(p)))
}

// Of returns the name that a step has in the phase: try:debit.
func (p Phase) Of(name string) string { return sealed.InPhase(string(p), name) }

// stepSpec returns the kernel's form of a step.
func stepSpec[T any](name string, fn func(context.Context) (T, error),
	opts []StepOption) (kernel.Step, error) {
	if fn == nil {
		return kernel.Step{}, failure.Invalid("step "+name, "a step needs a function")
	}
	s, err := sealed.Step(name, opts)
	if err == nil {
		err = fits[T](s)
	}
	s.Body = func(ctx context.Context) ([]byte, *journal.Failure) {
		return payload.Call(ctx, "step", name, fn)
	}
	return s, err
}

// fits returns an error if the step has an Undo that does not take a T.
func fits[T any](s kernel.Step) error {
	if s.Compensation == nil {
		return nil
	}
	result := reflect.TypeFor[T]()
	if result == reflect.TypeFor[nothing]() {
		result = reflect.TypeFor[struct{}]()
	}
	return sealed.Fits(s, result)
}

// result returns the value or error that workflow code gets for an outcome.
func result[T any](what, name string, out kernel.Outcome, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return payload.Result[T](what, name, out.Data, out.Failure)
}

// Step runs fn as a step of the workflow and waits for its result. The result is durable before
// anything outside the run can depend on it. After a crash it comes from the journal: fn is not
// called again. If a crash happens while fn runs, or before its result is durable, fn is called
// again with the same [IdempotencyKey].
//
// A failed attempt is retried according to the policy. The last error is returned as the journal
// has it, so errors.Is and errors.As have the same results live and on replay for registered
// errors. Its text begins with the name and [Key] of the step, unless the step has a [Phase] or
// fails because the workflow's context has ended. A panic in fn is a failed attempt.
//
// A step does not begin if its context has ended already: it fails with the error of the context.
// The journal records that, so a replay has the same result. The same holds for [Async], [Timer],
// [Sleep], waits for signals, and children.
//
// fn runs on a goroutine of its own with a context that ends with the attempt, the run or the
// engine. Call Step with the workflow's context, on a goroutine of the workflow.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error),
	opts ...StepOption) (T, error) {
	spec, err := stepSpec(name, fn, opts)
	if err != nil {
		var zero T
		return zero, err
	}
	out, err := kernel.Do(ctx, spec)
	return resultOf[T](spec, out, err)
}

// Do is [Step] for a function that has no result. A step may change from one to the other: Do
// ignores a result that is recorded.
func Do(ctx context.Context, name string, fn func(context.Context) error,
	opts ...StepOption) error {
	var body func(context.Context) (nothing, error)
	if fn != nil {
		body = func(ctx context.Context) (nothing, error) { return nothing{}, fn(ctx) }
	}
	_, err := Step(ctx, name, body, opts...)
	return err
}

// nothing is the result of a step without one.
type nothing struct{}

func (*nothing) UnmarshalJSON([]byte) error { return nil }

// resultOf returns the result of a step. The text of an error begins with the step's name, unless
// the step is one of a pattern, whose result names the failed step.
func resultOf[T any](s kernel.Step, out kernel.Outcome, err error) (T, error) {
	ofPattern := s.Declared || s.Phase != "" || strings.HasPrefix(s.Name, "perdure:")
	if err == nil && out.Failure != nil && !ofPattern {
		err = failure.OfStep(s.Name, s.Key, out.Failure)
	}
	return result[T]("step", s.Name, out, err)
}

// StepOf returns the step whose body ctx belongs to, or false outside of a step's body.
func StepOf(ctx context.Context) (StepInfo, bool) {
	s, err := kernel.StepOf(ctx, "step")
	if err != nil {
		return StepInfo{}, false
	}
	return infoOfStep(s), true
}

// Attempt returns the number of the current attempt of the step whose body ctx belongs to, from
// 1, and whether the policy allows no further attempt. It fails outside of a step's body.
func Attempt(ctx context.Context) (n int, last bool, err error) {
	s, err := kernel.StepOf(ctx, "attempt")
	if err != nil {
		return 0, false, err
	}
	n, last = s.Attempt()
	return n, last, nil
}

// IdempotencyKey returns the key of the step whose body ctx belongs to. The key is the same for
// every execution of the step, over retries and crashes, and differs for every other step, run
// and database. It has at most 255 bytes. Outside of a step's body it is empty.
func IdempotencyKey(ctx context.Context) string {
	s, err := kernel.StepOf(ctx, "idempotency key")
	if err != nil {
		return ""
	}
	return s.IdempotencyKey()
}

// Once keeps a value over the attempts of a step. The first call calls produce and returns when
// the value is durable. Every later call, in this attempt or another one, returns that value as
// it decodes. An error of produce is not kept. Call Once in the body of a step.
func Once[T any](ctx context.Context, key string, produce func() (T, error)) (T, error) {
	var zero T
	s, err := kernel.StepOf(ctx, "once")
	if err != nil {
		return zero, err
	}
	if !journal.ValidName(key) {
		return zero, failure.BadName("key", key)
	}
	data, err := s.Once(key, func() ([]byte, error) {
		v, err := produce()
		if err != nil {
			return nil, err
		}
		data, err := payload.Encode(v)
		if err != nil {
			return nil, failure.Err(payload.Failure("once "+key, v, err))
		}
		return data, nil
	})
	if err != nil {
		return zero, err
	}
	v, err := payload.Decode[T](data)
	if err != nil {
		return zero, payload.DecodeError("once "+key, zero, err)
	}
	return v, nil
}

// Progress notifies observers of the progress of the step whose body ctx belongs to. The journal
// does not record it.
func Progress(ctx context.Context, what string) error {
	s, err := kernel.StepOf(ctx, "progress")
	if err == nil {
		s.Progress(what)
	}
	return err
}

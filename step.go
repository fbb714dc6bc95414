package perdure

import (
	"context"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A StepOption says how a step is run. A [Retry] is one.
type StepOption interface{ step(*stepOptions) error }

// A BranchOption says how a branch or scope is known. [Key], [RenamedFrom] and [Added]
// are ones.
type BranchOption interface{ branch(*stepOptions) error }

type stepOptions struct {
	key       string
	change    kernel.Change
	announced bool
	declared  bool
	timeout   time.Duration
	retry     *Retry
	phase     Phase
	standsFor context.Context // of a branch or scope
	does      string          // of a branch: the step
}

func (r Retry) step(o *stepOptions) error {
	o.retry = &r
	return r.Validate()
}

// Timeout limits one attempt of a step, or, as an option of a workflow, the
// whole run. An attempt that passes it has failed, and is not waited for.
type Timeout time.Duration

func (t Timeout) step(o *stepOptions) error {
	if t < 0 {
		return invalid("timeout", "%v is negative", time.Duration(t))
	}
	o.timeout = time.Duration(t)
	return nil
}

// Key tells apart operations of one name: what runs in a loop over data should
// have one, such as the ID of the item. It has the form of a name.
type Key string

func (k Key) step(o *stepOptions) error {
	if !journal.ValidName(string(k)) {
		return badName("key", string(k))
	}
	o.key = string(k)
	return nil
}

func (k Key) branch(o *stepOptions) error { return k.step(o) }

// RenamedFrom is the name that an operation had in an older build, so that runs which
// recorded it under that name go on with it. See [Added].
type RenamedFrom string

func (w RenamedFrom) step(o *stepOptions) error {
	if !journal.ValidName(string(w)) {
		return badName("old name", string(w))
	}
	o.change.Was = string(w)
	return nil
}

func (w RenamedFrom) branch(o *stepOptions) error { return w.step(o) }

type added struct{}

// Added is an option of an operation that a newer build has before others, and that runs
// which have recorded those are to perform all the same, although that is late. Without
// it such a run is suspended when the newer build's code comes there, since the operation
// may be a recorded one under another name, whose effect would come twice. What else
// decides is [RenamedFrom], [Version], the operator who resumes the run, or [ByName].
var Added added

func (added) step(o *stepOptions) error {
	o.change.Added = true
	return nil
}

func (a added) branch(o *stepOptions) error { return a.step(o) }
func (a added) child(o *childOptions) error { return a.step(&o.step) }

func (added) wait(w *kernel.Wait) error {
	w.Added = true
	return nil
}

type announced struct{}

func (announced) step(o *stepOptions) error {
	o.announced = true
	return nil
}

// Announced has the start of a step's first attempt recorded before the attempt
// begins. It rides with the record before it and costs no commit.
var Announced StepOption = announced{}

// declared is the option of a step of a declaration, which begins however those beside it
// end.
type declared struct{}

func (declared) step(o *stepOptions) error {
	o.declared = true
	return nil
}

// A Phase is an option of a step that is a part of what something bigger does: of a
// TCC's participant, or what undoes a step. It is in front of the step's name: a step
// debit in PhaseTry is the operation try:debit. However often it is asked for in one
// scope, or a clean-up of that, it has one idempotency key. The first attempt of all but
// a try is [Announced].
type Phase string

// The phases.
const (
	PhaseTry     Phase = journal.PhaseTry
	PhaseConfirm Phase = journal.PhaseConfirm
	PhaseCancel  Phase = journal.PhaseCancel
	PhaseUndo    Phase = journal.PhaseUndo

	// PhaseComposition is of a [Fact] only: a composition of sagas or TCCs begins or ends.
	PhaseComposition Phase = journal.PhaseComposition
)

func (p Phase) step(o *stepOptions) error {
	switch p {
	case PhaseTry, PhaseConfirm, PhaseCancel, PhaseUndo:
		o.phase, o.announced = p, o.announced || p != PhaseTry
		return nil
	}
	return invalid("step", "no such phase: %s", quoted(string(p)))
}

// Of is the name that a step has in the phase: try:debit.
func (p Phase) Of(name string) string { return p.named(name) }

func (p Phase) verb() string { return strings.ToLower(string(p)) }

// named gives a name with the phase in front.
func (p Phase) named(name string) string {
	if p == "" {
		return name
	}
	return p.verb() + ":" + name
}

func badName(what, s string) error {
	return &Error{
		Code: journal.CodeInvalid, Message: what + " " + quoted(s) + " cannot be",
		Hint: "1 to 255 of A-Z a-z 0-9 . _ : -",
	}
}

// stepSpec makes what the kernel runs of a step.
func stepSpec[T any](name string, fn func(context.Context) (T, error), opts []StepOption) (kernel.Step, error) {
	if fn == nil {
		return kernel.Step{}, invalid("step "+name, "a step needs a function")
	}
	s, err := bareStep(name, opts)
	s.Body = func(ctx context.Context) ([]byte, *journal.Failure) {
		return call(ctx, "step", name, fn)
	}
	return s, err
}

// bareStep is a step without a body.
func bareStep(name string, opts []StepOption) (kernel.Step, error) {
	var o stepOptions
	if !journal.ValidName(name) {
		return kernel.Step{}, badName("step", name)
	}
	for _, opt := range opts {
		if opt == nil {
			return kernel.Step{}, invalid("step "+name, "a nil option")
		}
		if err := opt.step(&o); err != nil {
			return kernel.Step{}, err
		}
	}
	if name = o.phase.named(name); !journal.ValidName(name) {
		return kernel.Step{}, badName("step", name)
	}
	s := kernel.Step{
		Name: name, Key: o.key, Change: o.change,
		Work: kernel.Work{Announced: o.announced, Declared: o.declared, Timeout: o.timeout, Phase: string(o.phase)},
	}
	if o.change.Was != "" {
		s.Was = o.phase.named(o.change.Was)
	}
	if o.retry != nil {
		s.Next = o.retry.next
	}
	return s, nil
}

// call runs fn and encodes what it gives.
func call[T any](ctx context.Context, what, name string, fn func(context.Context) (T, error)) ([]byte, *journal.Failure) {
	v, err := fn(ctx)
	if err != nil {
		return nil, toFailure(err)
	}
	data, err := encode(v)
	if err != nil {
		return nil, encodeFailure(what+" "+name, v, err)
	}
	return data, nil
}

// result gives what an outcome is to workflow code.
func result[T any](what, name string, out kernel.Outcome, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if out.Failure != nil {
		return zero, fromFailure(out.Failure)
	}
	v, err := decode[T](out.Data)
	if err != nil {
		return zero, decodeError(what+" "+name, zero, err)
	}
	return v, nil
}

// Step runs fn as a step of the workflow and waits for its result. The result
// is durable before anything outside the run can depend on it, and after a crash
// it comes from the journal: fn is not called again. A crash while fn runs, or
// before its result is durable, calls it again with the same [IdempotencyKey].
//
// A failed attempt is tried again as the policy says; the last error comes back
// as the journal has it, so that errors.Is and errors.As answer the same live
// and on replay for what is registered. A panic in fn is a failed attempt.
//
// fn runs on a goroutine of its own with a context that ends with the attempt,
// the run or the engine. Step is called with the workflow's context, by a
// goroutine of the workflow.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error), opts ...StepOption) (T, error) {
	spec, err := stepSpec(name, fn, opts)
	if err != nil {
		var zero T
		return zero, err
	}
	out, err := kernel.Do(ctx, spec)
	return result[T]("step", name, out, err)
}

// StepOf gives what the step is whose body ctx belongs to, and false outside of one.
func StepOf(ctx context.Context) (StepInfo, bool) {
	s, err := kernel.StepOf(ctx, "step")
	if err != nil {
		return StepInfo{}, false
	}
	return infoOfStep(s), true
}

// Attempt counts the attempts of the step whose body ctx belongs to, from 1,
// and says whether its policy allows no further one. It fails outside of a
// step's body.
func Attempt(ctx context.Context) (n int, last bool, err error) {
	s, err := kernel.StepOf(ctx, "attempt")
	if err != nil {
		return 0, false, err
	}
	n, last = s.Attempt()
	return n, last, nil
}

// IdempotencyKey is the same for every execution of the step whose body ctx
// belongs to, over retries and crashes, and differs for every other step, run
// and database. It has at most 255 bytes. Outside of a step's body it is empty.
func IdempotencyKey(ctx context.Context) string {
	s, err := kernel.StepOf(ctx, "idempotency key")
	if err != nil {
		return ""
	}
	return s.IdempotencyKey()
}

// Once keeps a value over the attempts of a step: the first time it calls
// produce and returns when the value is durable; every later time, in this
// attempt or another one, it gives that value, as it decodes. An error of
// produce is not kept. It is called in the body of a step.
func Once[T any](ctx context.Context, key string, produce func() (T, error)) (T, error) {
	var zero T
	s, err := kernel.StepOf(ctx, "once")
	if err != nil {
		return zero, err
	}
	if !journal.ValidName(key) {
		return zero, badName("key", key)
	}
	data, err := s.Once(key, func() ([]byte, error) {
		v, err := produce()
		if err != nil {
			return nil, err
		}
		data, err := encode(v)
		if err != nil {
			return nil, fromFailure(encodeFailure("once "+key, v, err))
		}
		return data, nil
	})
	if err != nil {
		return zero, err
	}
	v, err := decode[T](data)
	if err != nil {
		return zero, decodeError("once "+key, zero, err)
	}
	return v, nil
}

// Progress tells observers how far the step is whose body ctx belongs to. It is
// not kept.
func Progress(ctx context.Context, what string) error {
	s, err := kernel.StepOf(ctx, "progress")
	if err == nil {
		s.Progress(what)
	}
	return err
}

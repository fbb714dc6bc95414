package sealed

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Branch returns the operation that the options of a branch or scope of that name describe.
func Branch[O interface{ ApplyToBranch(o *Operation) error }](what, name string,
	opts []O) (Operation, error) {
	var o Operation
	if !journal.ValidName(name) {
		return o, failure.BadName(what, name)
	}
	for _, opt := range opts {
		if any(opt) == nil {
			return o, failure.Invalid(what+" "+name, "a nil option")
		}
		if err := opt.ApplyToBranch(&o); err != nil {
			return o, failure.Within(what+" "+name, err)
		}
	}
	return o, nil
}

// Step returns the step that the options of a step of that name describe. It has no body.
func Step[O interface{ ApplyToStep(o *Operation) error }](name string, opts []O) (kernel.Step,
	error) {
	var o Operation
	if !journal.ValidName(name) {
		return kernel.Step{}, failure.BadName("step", name)
	}
	for _, opt := range opts {
		if any(opt) == nil {
			return kernel.Step{}, failure.Invalid("step "+name, "a nil option")
		}
		if err := opt.ApplyToStep(&o); err != nil {
			return kernel.Step{}, failure.Within("step "+name, err)
		}
	}
	if name = InPhase(o.Phase, name); !journal.ValidName(name) {
		return kernel.Step{}, failure.BadName("step", name)
	}
	if o.Compensation != nil {
		if o.Phase != "" {
			return kernel.Step{}, &journal.Error{
				Code: journal.CodeInvalid, Op: "step " + name,
				Message: "a step with a Phase cannot have an Undo",
				Hint:    "the pattern that the phase belongs to undoes the step",
			}
		}
		if undo := InPhase(journal.PhaseUndo, name); !journal.ValidName(undo) {
			return kernel.Step{}, failure.BadName("step", undo)
		}
	}
	if o.AtMostOnce {
		if o.Next != nil {
			return kernel.Step{}, &journal.Error{
				Code: journal.CodeInvalid, Op: "step " + name,
				Message: "a step that runs at most once cannot have a retry policy",
				Hint:    "leave out perdure.Retry, or effect.AtMostOnce",
			}
		}
		o.Next = func(int, *journal.Failure) (time.Duration, bool) { return 0, false }
	}
	s := kernel.Step{
		Name: name, Key: o.Key, Change: o.Change,
		Work: kernel.Work{
			Announced: o.Announced, AtMostOnce: o.AtMostOnce, Declared: o.Declared, Undo: o.Undo,
			Timeout: o.Timeout, Phase: o.Phase, Of: o.Of, Next: o.Next, Limit: o.Limit,
			Compensation: o.Compensation, Keep: o.Keep,
		},
	}
	if o.Change.Was != "" {
		s.Was = InPhase(o.Phase, o.Change.Was)
	}
	return s, nil
}

// InPhase returns the name that a step has in a phase: debit in TRY is try:debit. Without a phase
// it returns the name unchanged.
func InPhase(phase, name string) string {
	if phase == "" {
		return name
	}
	return strings.ToLower(phase) + ":" + name
}

// Naming returns the kernel's naming of a branch or scope of that name.
func (o *Operation) Naming(name string) kernel.Naming {
	return kernel.Naming{
		Name: name, Key: o.Key, Change: o.Change, StandsFor: o.StandsFor, ForStep: o.ForStep,
	}
}

// An Operation has the options of a step, branch or scope.
type Operation struct {
	Key       string
	Change    kernel.Change
	Announced bool
	// AtMostOnce means that the body is called at most once. There is no Next then.
	AtMostOnce bool
	Declared   bool
	Undo       bool // the step has a compensation
	// Compensation undoes the step if the run ends without success; nil for none. Undo is set then.
	Compensation *kernel.Compensation
	Of           int // of an undo: the occurrence of the step that it undoes; 0 for the first
	Timeout      time.Duration
	// Next is the retry policy. It is nil for the workflow's policy.
	Next  func(n int, f *journal.Failure) (time.Duration, bool)
	Phase string
	// Limit is the ask for the token that each attempt needs; nil for none.
	Limit *store.Ask
	// Keep is the rule for its log lines. Nil means the workflow's.
	Keep      func(level int) (attempt, run int)
	StandsFor context.Context // of a branch or scope
	ForStep   string          // of a branch: the step that it stands for
	// Status, of a dead letter, is the status of the run when the step failed. Zero means the
	// present status.
	Status journal.Status
}

// Decide waits until an operator decides for name[key], or for name if there is no key.
func Decide(ctx context.Context, name, key, reason string, choices []string) (kernel.Decided,
	error) {
	switch {
	case !journal.ValidName(name):
		return kernel.Decided{}, failure.BadName("name", name)
	case key != "" && !journal.ValidName(key):
		return kernel.Decided{}, failure.BadName("key", key)
	}
	return kernel.Decide(ctx, kernel.Decision{
		Name: name, Key: key, Reason: failure.Clip(reason), Choices: choices,
	})
}

// Fits returns an error if the Undo of a step does not take the type of the step's result.
func Fits(s kernel.Step, result reflect.Type) error {
	c := s.Compensation
	if c == nil || c.Takes == result || c.Takes.Kind() == reflect.Interface ||
		payload.IsRaw(c.Takes) || payload.IsRaw(result) {
		return nil
	}
	return &journal.Error{
		Code: journal.CodeInvalid, Op: "step " + s.Name,
		Message: fmt.Sprintf("its result is a %v, and its Undo takes a %v", result, c.Takes),
		Hint:    "the function of an Undo takes the result of the step; for perdure.Do a struct{}",
	}
}

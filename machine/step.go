package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// End is the target of a step that may end the machine, beside other targets.
const End = "[*]"

// A Step is a step of a machine, whose function takes an input of type A. Its methods return it, so
// that they can be chained.
type Step[A any] struct{ s *step }

// A step is a Step without its type.
type step struct {
	of      *declaration
	id      string
	input   reflect.Type
	call    func(ctx context.Context, in json.RawMessage) (Action, error)
	targets []string
	route   func(Result) string
	splits  []string
	routes  []errorRoute
	retry   *perdure.Retry
	timeout time.Duration
	slice   time.Duration
	form    approval.Form
	issues  []definition.Issue

	undo        func(ctx context.Context, in json.RawMessage) error
	undoRetry   *perdure.Retry
	undoTimeout time.Duration
}

// Add adds a step. The ID has the form of a name, and is unique in the machine. fn is ordinary
// code, like the body of a [perdure.Step]: it gets the output of the step before it, or the input
// of the run, and returns what is to follow.
//
// If fn returns an error, or panics, the action does not count. The step is tried again if its
// policy allows that ([Step.Retry]); else it has failed for good.
func Add[I, A any](m *Machine[I], id string,
	fn func(ctx context.Context, in A) (Action, error)) *Step[A] {
	s := &step{of: m.def, id: id, input: reflect.TypeFor[A](), slice: DefaultSlice}
	if fn == nil {
		s.complain(IssueFunction, "", "a step needs a function")
	}
	s.call = func(ctx context.Context, in json.RawMessage) (Action, error) {
		v, err := pattern.Decode[A](in)
		if err != nil {
			return Action{}, perdure.Permanent(fmt.Errorf(
				"the input of step %s is not valid: %w", id, err))
		}
		return fn(ctx, v)
	}
	m.def.steps = append(m.def.steps, s)
	return &Step[A]{s}
}

// Do makes the function of a step from a function that returns an output: the step completes with
// it.
func Do[A, R any](fn func(context.Context, A) (R, error)) func(context.Context, A) (Action, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, in A) (Action, error) {
		out, err := fn(ctx, in)
		return Complete(out), err
	}
}

// To sets the steps that may come next. If there is one, it does; of several the action names one
// ([Action.To]), or a [Step.Route] does. If an operator skips the step, the first target counts as
// the one that the action names. [End] is one of them if the machine may end here. Without
// targets the machine, or the branch of a split, ends with this step.
func (s *Step[A]) To(steps ...string) *Step[A] {
	s.s.targets = append(s.s.targets, steps...)
	return s
}

// Route lets a function choose one of the targets ([Step.To]). It is called with each result of the
// step, and sees the target that the action names, if any. Its choice is recorded. It must decide
// by its argument alone.
func (s *Step[A]) Route(fn func(r Result) string) *Step[A] {
	if fn == nil || s.s.route != nil {
		s.s.complain(IssueFunction, "route", "a step has one function for its route")
	}
	s.s.route = fn
	return s
}

// A Result is the result of a step that has completed, for a route.
type Result struct {
	Step   string
	Next   string // the target that the action names; empty for none
	Output json.RawMessage
}

// Decode decodes the output.
func (r Result) Decode(v any) error { return json.Unmarshal(r.Output, v) }

// Split sets the steps that branches of a [Split] may begin with.
func (s *Step[A]) Split(steps ...string) *Step[A] {
	s.s.splits = append(s.s.splits, steps...)
	return s
}

// OnError is [Machine.OnError] for failures of this step. In the branch of a split, the branch goes
// on with the step of the route.
func (s *Step[A]) OnError(step string, on ...error) *Step[A] {
	s.s.routes = append(s.s.routes, errorRoute{step, on})
	return s
}

// Retry sets the policy for errors and panics of the function. Without it, that of the machine
// counts, or else the first error fails the step.
func (s *Step[A]) Retry(r perdure.Retry) *Step[A] {
	r = s.s.policy("retry", r)
	s.s.retry = &r
	return s
}

// Timeout limits one call of the function. A call that passes it has failed.
func (s *Step[A]) Timeout(d time.Duration) *Step[A] {
	s.s.timeout = s.s.limit("timeout", d)
	return s
}

// DefaultSlice is the time slice of a step that has none of its own.
const DefaultSlice = 10 * time.Second

// Slice sets the time after which [ShouldYield] is true.
func (s *Step[A]) Slice(d time.Duration) *Step[A] {
	if d <= 0 {
		s.s.complain(IssueLimit, "slice", "a time slice of %v is not possible: above 0", d)
		return s
	}
	s.s.slice = d
	return s
}

// Undo sets the compensation of the step. It gets the input of the step. [OutputOf] returns the
// output of the step, and [FailureOf] the failure that the run is undone for. It is called at least
// once, with an idempotency key of its own, and may read signals.
func (s *Step[A]) Undo(fn func(ctx context.Context, in A) error) *Step[A] {
	if fn == nil || s.s.undo != nil {
		s.s.complain(IssueFunction, "undo", "a step has one compensation")
	}
	s.s.undo = func(ctx context.Context, in json.RawMessage) error {
		v, err := pattern.Decode[A](in)
		if err != nil {
			return err
		}
		return pattern.RetryWithin(maxDelay, fn(ctx, v))
	}
	return s
}

// UndoRetry sets the retry policy of the compensation. The default is the policy of the step.
func (s *Step[A]) UndoRetry(r perdure.Retry) *Step[A] {
	r = s.s.policy("undo.retry", r)
	s.s.undoRetry = &r
	return s
}

// UndoTimeout limits one attempt of the compensation. The default is five minutes.
func (s *Step[A]) UndoTimeout(d time.Duration) *Step[A] {
	s.s.undoTimeout = s.s.limit("undo.timeout", d)
	return s
}

func (s *step) complain(code, where, format string, args ...any) {
	s.issues = append(s.issues, issue(code, at(s.id, where), fmt.Sprintf(format, args...)))
}

// at joins the parts of a place with a dot.
func at(step, where string) string {
	if where == "" {
		return step
	}
	return step + "." + where
}

// policy checks a retry policy. Its delays end at a day.
func (s *step) policy(where string, r perdure.Retry) perdure.Retry {
	r, issues := r.Check(at(s.id, where))
	s.issues = append(s.issues, coded(IssueLimit, issues)...)
	return r
}

func (s *step) limit(where string, d time.Duration) time.Duration {
	d, issues := definition.CheckAttemptTimeout(at(s.id, where), d)
	s.issues = append(s.issues, coded(IssueLimit, issues)...)
	return d
}

// coded returns issues with a code.
func coded(code string, issues []definition.Issue) []definition.Issue {
	issues = slices.Clone(issues)
	for i := range issues {
		issues[i].Code = code
	}
	return issues
}

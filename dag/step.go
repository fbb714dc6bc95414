package dag

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/perdure/perdure"
)

// A Dependency is a step that another one comes after.
type Dependency interface{ step() *step }

// A Step is one step of a graph. Its function gets an A, which is the graph's input, or a
// struct with tags: see [perdure.Arguments]. Its methods build it, and return it.
type Step[A, R any] struct {
	s    *step
	args *perdure.Arguments[A]
}

// A step is one without its types.
type step struct {
	id        string
	after     []string
	order     int
	condition perdure.Condition
	gates     []gate
	before    prelude // what the task waits for after the gates; nil for none
	call      perdure.TaskFunc
	check     func(perdure.GivenTypes) []perdure.Issue
	result    reflect.Type
	retry     *perdure.Retry
	timeout   time.Duration
	async     bool
	undo      perdure.TaskFunc
	undoCheck func(perdure.GivenTypes) []perdure.Issue
	event     *perdure.StepEvent
	variable  string
	issues    []perdure.Issue
}

// A prelude is workflow code that does what a step stands for, and gives what its task
// records.
type prelude func(ctx context.Context, x *execution, s *step) perdure.Awaitable

// Add adds a step. What is wrong with it is told when the graph is registered.
func Add[I, A, R any](g *Graph[I], id string, fn func(context.Context, A) (R, error)) *Step[A, R] {
	args := perdure.NewArguments[A]()
	s := &step{id: id, call: perdure.TaskOf(args, fn), check: args.Check, result: reflect.TypeFor[R]()}
	if fn == nil {
		s.complain("", "a step needs a function")
	}
	g.def.steps = append(g.def.steps, s)
	return &Step[A, R]{s, args}
}

func (d *definition) complain(where, format string, args ...any) {
	d.issues = append(d.issues, perdure.Issue{Severity: perdure.IssueError, Where: where, Message: fmt.Sprintf(format, args...)})
}

func (s *step) complain(where, format string, args ...any) {
	if where != "" {
		where = "." + where
	}
	s.issues = append(s.issues, perdure.Issue{Severity: perdure.IssueError, Where: s.id + where, Message: fmt.Sprintf(format, args...)})
}

// warn tells of a time that is odd.
func (s *step) warn(where string, d time.Duration) time.Duration {
	if d < 0 || d > 24*time.Hour {
		s.issues = append(s.issues, perdure.Issue{Severity: perdure.IssueWarning, Where: s.id + "." + where, Message: fmt.Sprintf("a %s of %v", where, d)})
	}
	return max(d, 0)
}

func (s *Step[A, R]) step() *step { return s.s }

// ID is the step's ID.
func (s *Step[A, R]) ID() string { return s.s.id }

// After has the step begin when those have ended.
func (s *Step[A, R]) After(steps ...Dependency) *Step[A, R] {
	for _, d := range steps {
		s.s.after = append(s.s.after, d.step().id)
	}
	return s
}

// Order sorts the steps of one layer; equal ones are as declared.
func (s *Step[A, R]) Order(n int) *Step[A, R] {
	s.s.order = n
	return s
}

// When has the step run only where the condition holds; else it is SKIPPED, and those
// that come after it get no value of it.
func (s *Step[A, R]) When(c perdure.Condition) *Step[A, R] {
	s.s.condition = c
	return s
}

// Retry is the step's policy; without one it is the graph's.
func (s *Step[A, R]) Retry(r perdure.Retry) *Step[A, R] {
	s.s.setRetry(r)
	return s
}

func (s *step) setRetry(r perdure.Retry) {
	if err := r.Validate(); err != nil {
		s.complain("retry", "%v", err)
	}
	s.warn("retry", r.Cap)
	s.retry = &r
}

// Timeout limits one attempt.
func (s *Step[A, R]) Timeout(d time.Duration) *Step[A, R] {
	s.s.timeout = s.s.warn("timeout", d)
	return s
}

// Async has nothing wait for the step: its layer counts it as ended once it has begun. A
// failure of it is recorded and fails nothing else; what still runs when all else has
// ended is cancelled.
func (s *Step[A, R]) Async() *Step[A, R] {
	s.s.async = true
	return s
}

// Undo is what undoes the step when the graph fails: it gets what the step got and what
// it gave.
func (s *Step[A, R]) Undo(fn func(ctx context.Context, in A, out R) error) *Step[A, R] {
	if s.s.undo != nil {
		s.s.complain("undo", "two compensations")
	}
	if fn == nil {
		s.s.complain("undo", "a compensation needs a function")
	}
	s.s.undo = func(ctx context.Context, given perdure.Given) (json.RawMessage, error) {
		in, err := s.args.Fill(ctx, given)
		if err != nil {
			return nil, err
		}
		out, _, err := perdure.Output[R](ctx, s.s.id)
		if err != nil {
			return nil, err
		}
		return nil, fn(ctx, in, out)
	}
	return s
}

// Event is the type under which the publisher is told of the step's success, where the
// graph publishes events; without it that is STEP_COMPLETED.
func (s *Step[A, R]) Event(e perdure.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable has the result stored as a variable of the run.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Output gives the step's result in the body of a step that comes after it, and false
// where it has none: it was skipped.
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	return perdure.Output[R](ctx, s.s.id)
}

// Of gives the step's result of a run, and false where it has none.
func (s *Step[A, R]) Of(r Result) (R, bool, error) {
	return perdure.ResultOf[R](r.Report, s.s.id)
}

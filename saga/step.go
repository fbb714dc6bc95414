package saga

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

// A Step is one step of a saga. Its function gets an A, which is the saga's input, or a
// struct with tags: see [perdure.Arguments]. Its methods build it, and return it.
type Step[A, R any] struct {
	s    *step
	args *perdure.Arguments[A]
}

// A step is one without its types.
type step struct {
	id       string
	after    []string
	order    int
	call     perdure.TaskFunc
	check    func(perdure.GivenTypes) []perdure.Issue
	result   reflect.Type
	retry    perdure.Retry
	timeout  time.Duration
	key      string
	event    *perdure.StepEvent
	variable string
	each     *each // nil where it is one step

	undo        perdure.TaskFunc
	undoCheck   func(perdure.GivenTypes) []perdure.Issue
	undoResult  reflect.Type
	undoRetry   *perdure.Retry
	undoTimeout time.Duration
	critical    bool

	issues []perdure.Issue
}

// Add adds a step. What is wrong with it is told when the saga is registered.
func Add[I, A, R any](s *Saga[I], id string, fn func(context.Context, A) (R, error)) *Step[A, R] {
	args := perdure.NewArguments[A]()
	t := &step{id: id, call: perdure.TaskOf(args, fn), check: args.Check, result: reflect.TypeFor[R](), retry: perdure.NoRetry}
	if fn == nil {
		t.complain("", "a step needs a function")
	}
	s.def.steps = append(s.def.steps, t)
	return &Step[A, R]{t, args}
}

func (t *step) complain(where, format string, args ...any) {
	if where != "" {
		where = "." + where
	}
	t.issues = append(t.issues, perdure.Issue{Severity: perdure.IssueError, Where: t.id + where, Message: fmt.Sprintf(format, args...)})
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

// Retry is the step's policy; without one it has one attempt.
func (s *Step[A, R]) Retry(r perdure.Retry) *Step[A, R] {
	if err := r.Validate(); err != nil {
		s.s.complain("retry", "%v", err)
	}
	s.s.retry = r
	return s
}

// Timeout limits one attempt.
func (s *Step[A, R]) Timeout(d time.Duration) *Step[A, R] {
	s.s.timeout = s.s.limit("timeout", d)
	return s
}

// limit tells of a timeout that is odd.
func (t *step) limit(where string, d time.Duration) time.Duration {
	if d < 0 || d > 24*time.Hour {
		t.issues = append(t.issues, perdure.Issue{Severity: perdure.IssueWarning, Where: t.id + "." + where, Message: fmt.Sprintf("a timeout of %v", d)})
	}
	return max(d, 0)
}

// Key is an idempotency key: of the steps of one execution that have it, one is done,
// and the others count as done, with no result.
func (s *Step[A, R]) Key(key string) *Step[A, R] {
	s.s.key = key
	return s
}

// Event has each success of the step told to the publisher.
func (s *Step[A, R]) Event(e perdure.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable has the result stored as a variable of the run.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Undo is what undoes the step: it gets what the step got and what it gave.
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
		out, _, err := perdure.Output[R](ctx, ownResult)
		if err != nil {
			return nil, err
		}
		return nil, fn(ctx, in, out)
	}
	return s
}

// ownResult is the name under which a compensation finds the result of its step.
const ownResult = "result"

// UndoWith is [Step.Undo] by a function whose argument is made as that of a step: the
// input is the step's, its own result that of the step "result", and what it gives is
// kept for other compensations and for the report.
func UndoWith[A, R, C, U any](s *Step[A, R], fn func(context.Context, C) (U, error)) *Step[A, R] {
	if s.s.undo != nil {
		s.s.complain("undo", "two compensations")
	}
	if fn == nil {
		s.s.complain("undo", "a compensation needs a function")
	}
	args := perdure.NewArguments[C]()
	s.s.undo, s.s.undoCheck, s.s.undoResult = perdure.TaskOf(args, fn), args.Check, reflect.TypeFor[U]()
	return s
}

// UndoRetry is the compensation's policy, where the saga's allows retries; without one
// it is the step's.
func (s *Step[A, R]) UndoRetry(r perdure.Retry) *Step[A, R] {
	if err := r.Validate(); err != nil {
		s.s.complain("undo.retry", "%v", err)
	}
	s.s.undoRetry = &r
	return s
}

// UndoTimeout limits one attempt of the compensation; without it that is the step's.
func (s *Step[A, R]) UndoTimeout(d time.Duration) *Step[A, R] {
	s.s.undoTimeout = s.s.limit("undo.timeout", d)
	return s
}

// Critical has a failure of the compensation keep [CircuitBreaker] from undoing more.
func (s *Step[A, R]) Critical() *Step[A, R] {
	s.s.critical = true
	return s
}

// Output gives the step's result in the body of a step that comes after it, and false
// where it has none.
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	return perdure.Output[R](ctx, s.s.id)
}

// Of gives the step's result of a run that has ended, and false where it has none.
func (s *Step[A, R]) Of(r Result) (R, bool, error) {
	return perdure.ResultOf[R](r.Report, s.s.id)
}

package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
)

// A Dependency is a step that another step comes after.
type Dependency interface{ step() *step }

// A Step is one step of a saga. Its function gets an A, which is the saga's input, or a struct with
// tags: see [pattern.Arguments]. For a step over a list, A is the item. Its methods build it, and
// return it.
type Step[A, R any] struct {
	s    *step
	args *pattern.Arguments[A]
}

// A step is a [Step] without its types.
type step struct {
	of       *declaration
	id       string
	after    []*step
	order    int
	call     pattern.TaskFunc
	check    func(pattern.SourceTypes) []definition.Issue
	result   reflect.Type // for other steps
	one      reflect.Type // for its own compensation
	retry    perdure.Retry
	timeout  time.Duration
	key      string
	event    *pattern.StepEvent
	variable string
	each     *each // nil if it is not over a list

	undo        pattern.TaskFunc
	undoCheck   func(pattern.SourceTypes) []definition.Issue
	undoResult  reflect.Type
	undoRetry   *perdure.Retry
	undoTimeout time.Duration
	critical    bool

	issues []definition.Issue
}

// Add adds a step. Mistakes in it are reported when the saga is registered.
func Add[I, A, R any](s *Saga[I], id string, fn func(context.Context, A) (R, error)) *Step[A, R] {
	args, of := pattern.NewArguments[A](), reflect.TypeFor[R]()
	t := &step{
		of: s.def, id: id, call: pattern.TaskOf(args, fn), check: args.Check, result: of, one: of,
		retry: perdure.NoRetry,
	}
	if fn == nil {
		t.complain("", "a step needs a function")
	}
	s.def.steps = append(s.def.steps, t)
	return &Step[A, R]{t, args}
}

// copy returns a copy that the builder methods do not change any more.
func (t *step) copy() *step {
	c := *t
	c.after, c.issues = slices.Clone(t.after), slices.Clone(t.issues)
	if t.each != nil {
		each := *t.each
		c.each = &each
	}
	return &c
}

func (t *step) afterIDs() []string {
	ids := make([]string, len(t.after))
	for i, before := range t.after {
		ids[i] = before.id
	}
	return ids
}

func (t *step) complain(at, format string, args ...any) {
	t.issues = append(t.issues, definition.Issue{
		Severity: definition.SeverityError, Where: where(t.id, at),
		Message: fmt.Sprintf(format, args...),
	})
}

func (s *Step[A, R]) step() *step {
	if s == nil {
		return nil
	}
	return s.s
}

// ID returns the step's ID.
func (s *Step[A, R]) ID() string { return s.s.id }

// After makes the step begin after the given steps have ended.
func (s *Step[A, R]) After(steps ...Dependency) *Step[A, R] {
	for _, d := range steps {
		var before *step
		if d != nil {
			before = d.step()
		}
		if before == nil {
			s.s.complain("after", "a nil step")
			continue
		}
		s.s.after = append(s.s.after, before)
	}
	return s
}

// Order sorts the steps of a layer. Steps with equal numbers keep the order of their declaration.
func (s *Step[A, R]) Order(n int) *Step[A, R] {
	s.s.order = n
	return s
}

// Retry sets the step's retry policy. The default is one attempt.
func (s *Step[A, R]) Retry(r perdure.Retry) *Step[A, R] {
	s.s.retry = s.s.policy("retry", r)
	return s
}

func (t *step) policy(at string, r perdure.Retry) perdure.Retry {
	r, issues := r.Check(where(t.id, at))
	t.issues = append(t.issues, issues...)
	return r
}

// Timeout limits one attempt.
func (s *Step[A, R]) Timeout(d time.Duration) *Step[A, R] {
	s.s.timeout = s.s.limit("timeout", d)
	return s
}

// limit adds an issue for a timeout that is negative or unusually long.
func (t *step) limit(at string, d time.Duration) time.Duration {
	d, issues := definition.CheckAttemptTimeout(where(t.id, at), d)
	t.issues = append(t.issues, issues...)
	return d
}

// Key sets an idempotency key. If several steps of one execution have the same key, one of them is
// executed. The others count as done, with no result and nothing to undo. Each clone has its own
// key. A part of a run, and each member of a composition, is a separate execution.
func (s *Step[A, R]) Key(key string) *Step[A, R] {
	s.s.key = key
	return s
}

// Event sends the publisher an event for each success of the step.
func (s *Step[A, R]) Event(e pattern.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable stores the result in a variable of the run. For a step over a list it stores the list of
// all results when the last clone has ended.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Undo sets the compensation of the step. The compensation gets the step's argument and its result.
// The argument is made again from the same sources, and variables have their current values then.
// So put everything that undoing depends on into the result.
func (s *Step[A, R]) Undo(fn func(ctx context.Context, in A, out R) error) *Step[A, R] {
	s.s.undoBy(fn == nil, func(ctx context.Context, given pattern.Sources) (json.RawMessage,
		error) {
		in, err := s.args.Fill(ctx, given)
		if err != nil {
			return nil, err
		}
		out, _, err := pattern.Output[R](ctx, s.s.id)
		if err != nil {
			return nil, err
		}
		return nil, fn(ctx, in, out)
	})
	return s
}

func (t *step) undoBy(missing bool, call pattern.TaskFunc) {
	if t.undo != nil {
		t.complain("undo", "two compensations")
	}
	if missing {
		t.complain("undo", "a compensation needs a function")
	}
	t.undo = call
}

// UndoWith sets the compensation, like [Step.Undo], to a function whose argument is made like a
// step's. The input in it is the input of the step. In its tags, the ID of the step means the
// result of the step itself or, for a step over a list, of the clone. The result of the
// compensation is kept for other compensations and for the report.
func UndoWith[A, R, C, U any](s *Step[A, R], fn func(context.Context, C) (U, error)) *Step[A, R] {
	args := pattern.NewArguments[C]()
	s.s.undoBy(fn == nil, pattern.TaskOf(args, fn))
	s.s.undoCheck, s.s.undoResult = args.Check, reflect.TypeFor[U]()
	return s
}

// UndoRetry sets the compensation's retry policy, for sagas whose policy allows retries. The
// default is the step's retry policy.
func (s *Step[A, R]) UndoRetry(r perdure.Retry) *Step[A, R] {
	r = s.s.policy("undo.retry", r)
	s.s.undoRetry = &r
	return s
}

// UndoTimeout limits one attempt of the compensation. The default is five minutes.
func (s *Step[A, R]) UndoTimeout(d time.Duration) *Step[A, R] {
	s.s.undoTimeout = s.s.limit("undo.timeout", d)
	return s
}

// Critical makes [CircuitBreaker] stop undoing when the compensation of the step fails.
func (s *Step[A, R]) Critical() *Step[A, R] {
	s.s.critical = true
	return s
}

// Output returns the step's result. It is called in the body of a later step. It returns false if
// there is no result. For a step over a list use [Step.Outputs].
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	if err := s.s.single(); err != nil {
		var zero R
		return zero, false, err
	}
	return pattern.Output[R](ctx, s.s.id)
}

// Outputs returns the results of a step over a list, in the order of the items. It is called in the
// body of a later step.
func (s *Step[A, R]) Outputs(ctx context.Context) ([]R, error) {
	if err := s.s.multiple(); err != nil {
		return nil, err
	}
	all, _, err := pattern.Output[[]R](ctx, s.s.id)
	return all, err
}

// Of returns the step's result in an execution. It returns false if there is no result. For a step
// over a list use [Step.AllOf].
func (s *Step[A, R]) Of(e Execution) (R, bool, error) {
	var zero R
	if err := s.s.single(); err != nil {
		return zero, false, err
	}
	data := e.resultOf(s.s.id)
	if data == nil {
		return zero, false, nil
	}
	v, err := pattern.Decode[R](data)
	return v, err == nil, err
}

// AllOf returns the results of a step over a list in an execution, by the IDs of clones.
func (s *Step[A, R]) AllOf(e Execution) (map[string]R, error) {
	if err := s.s.multiple(); err != nil {
		return nil, err
	}
	out := map[string]R{}
	for id, data := range e.resultsOf(s.s.id + "[") {
		v, err := pattern.Decode[R](data)
		if err != nil {
			return nil, err
		}
		out[id] = v
	}
	return out, nil
}

func (t *step) single() error {
	if t.each == nil {
		return nil
	}
	return &perdure.Error{
		Code: perdure.CodeMisuse, Op: "result of " + t.id, Message: "it is a step over a list",
		Hint: "ask for Outputs, or AllOf",
	}
}

func (t *step) multiple() error {
	if t.each != nil {
		return nil
	}
	return &perdure.Error{
		Code: perdure.CodeMisuse, Op: "results of " + t.id, Message: "it is no step over a list",
		Hint: "ask for Output, or Of",
	}
}

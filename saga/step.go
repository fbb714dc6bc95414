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

// A Dependency is a step that another one comes after.
type Dependency interface{ step() *step }

// A Step is one step of a saga. Its function gets an A, which is the saga's input, or a
// struct with tags: see [pattern.Arguments]. Of a step over a list A is the item. Its
// methods build it, and return it.
type Step[A, R any] struct {
	s    *step
	args *pattern.Arguments[A]
}

// A step is one without its types.
type step struct {
	of       *declaration
	id       string
	after    []*step
	order    int
	call     pattern.TaskFunc
	check    func(pattern.SourceTypes) []definition.Issue
	result   reflect.Type // for others
	one      reflect.Type // for its own compensation
	retry    perdure.Retry
	timeout  time.Duration
	key      string
	event    *pattern.StepEvent
	variable string
	each     *each // nil where it is one step

	undo        pattern.TaskFunc
	undoCheck   func(pattern.SourceTypes) []definition.Issue
	undoResult  reflect.Type
	undoRetry   *perdure.Retry
	undoTimeout time.Duration
	critical    bool

	issues []definition.Issue
}

// Add adds a step. What is wrong with it is told when the saga is registered.
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

// copy gives a step that nobody builds any more.
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

// ID is the step's ID.
func (s *Step[A, R]) ID() string { return s.s.id }

// After has the step begin when those have ended.
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

// Order sorts the steps of one layer; equal ones are as declared.
func (s *Step[A, R]) Order(n int) *Step[A, R] {
	s.s.order = n
	return s
}

// Retry is the step's policy; without one it has one attempt.
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

// limit tells of a timeout that is odd.
func (t *step) limit(at string, d time.Duration) time.Duration {
	d, issues := definition.CheckTimeout(where(t.id, at), d)
	t.issues = append(t.issues, issues...)
	return d
}

// Key is an idempotency key: of the steps of one execution that have it, one is done,
// and the others count as done, with no result and nothing to undo. Clones have a key
// each. A part of a run, and each member of a composition, is an execution of its own.
func (s *Step[A, R]) Key(key string) *Step[A, R] {
	s.s.key = key
	return s
}

// Event has each success of the step told to the publisher.
func (s *Step[A, R]) Event(e pattern.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable has the result stored as a variable of the run; of a step over a list all
// results, when the last clone has ended.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Undo is what undoes the step: it gets what the step got, made once more of the same
// sources, and what it gave. Variables have the values that they have then: what undoing
// depends on belongs into the result.
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

// UndoWith is [Step.Undo] by a function whose argument is made as that of a step: the
// input is the step's, the result of the step itself, or of the clone, is the one of its
// ID, and what it gives is kept for other compensations and for the report.
func UndoWith[A, R, C, U any](s *Step[A, R], fn func(context.Context, C) (U, error)) *Step[A, R] {
	args := pattern.NewArguments[C]()
	s.s.undoBy(fn == nil, pattern.TaskOf(args, fn))
	s.s.undoCheck, s.s.undoResult = args.Check, reflect.TypeFor[U]()
	return s
}

// UndoRetry is the compensation's policy, where the saga's allows retries; without one
// it is the step's.
func (s *Step[A, R]) UndoRetry(r perdure.Retry) *Step[A, R] {
	r = s.s.policy("undo.retry", r)
	s.s.undoRetry = &r
	return s
}

// UndoTimeout limits one attempt of the compensation; without it that is
// five minutes.
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
// where it has none. A step over a list has [Step.Outputs].
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	if err := s.s.single(); err != nil {
		var zero R
		return zero, false, err
	}
	return pattern.Output[R](ctx, s.s.id)
}

// Outputs gives the results of a step over a list in the body of a step that comes after
// it, in the order of the items.
func (s *Step[A, R]) Outputs(ctx context.Context) ([]R, error) {
	if err := s.s.multiple(); err != nil {
		return nil, err
	}
	all, _, err := pattern.Output[[]R](ctx, s.s.id)
	return all, err
}

// Of gives the step's result of an execution, and false where it has none. A step over
// a list has [Step.AllOf].
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

// AllOf gives the results of a step over a list of an execution, by the IDs of clones.
func (s *Step[A, R]) AllOf(e Execution) (map[string]R, error) {
	if err := s.s.multiple(); err != nil {
		return nil, err
	}
	out := map[string]R{}
	for id, data := range e.resultsOf(s.s.id + s.s.each.separator()) {
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

package dag

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Dependency is a step that another one comes after.
type Dependency interface{ step() *step }

// idOf gives the ID of a step, and false for nil.
func idOf(d Dependency) (string, bool) {
	if d == nil || d.step() == nil {
		return "", false
	}
	return d.step().id, true
}

// A Step is one step of a graph. Its function gets an A, which is the graph's input, or a
// struct with tags: see [pattern.Arguments]. Its methods build it, and return it.
type Step[A, R any] struct {
	s    *step
	args *pattern.Arguments[A]
}

// A step is one without its types.
type step struct {
	of        *declaration
	id        string
	after     []string
	order     int
	condition pattern.Condition
	gates     []gate
	before    prelude // nil for none
	word      string  // before the ID, it is the name of the branch of the prelude
	call      pattern.TaskFunc
	check     func(pattern.SourceTypes) []definition.Issue
	result    reflect.Type
	retry     *perdure.Retry
	timeout   time.Duration
	async     bool
	undo      pattern.TaskFunc
	undoCheck func(pattern.SourceTypes) []definition.Issue
	undone    reflect.Type // the result of the compensation; nil for none
	event     *pattern.StepEvent
	variable  string
	issues    []definition.Issue
}

// copied gives a copy that its builder does not change. Its gates are in order.
func (s *step) copied() *step {
	c := *s
	c.after, c.gates, c.issues = slices.Clone(s.after), slices.Clone(s.gates),
		slices.Clone(s.issues)
	sortGates(c.gates)
	return &c
}

// Add adds a step. What is wrong with it is told when the graph is registered.
func Add[I, A, R any](g *Graph[I], id string, fn func(context.Context, A) (R, error)) *Step[A, R] {
	args := pattern.NewArguments[A]()
	s := &step{
		of: g.def, id: id, call: pattern.TaskOf(args, fn), check: args.Check,
		result: reflect.TypeFor[R](),
	}
	if fn == nil {
		s.complain("", "a step needs a function")
	}
	g.def.steps = append(g.def.steps, s)
	return &Step[A, R]{s, args}
}

// where is the place of something of the step.
func (s *step) where(parts ...string) string {
	parts = slices.DeleteFunc(append([]string{s.id}, parts...), func(part string) bool {
		return part == ""
	})
	return strings.Join(parts, ".")
}

func (s *step) note(how definition.Severity, where, format string, args ...any) {
	s.issues = append(s.issues, definition.Issue{
		Severity: how, Where: s.where(where), Message: fmt.Sprintf(format, args...),
	})
}

func (s *step) complain(where, format string, args ...any) {
	s.note(definition.SeverityError, where, format, args...)
}

// take takes in issues of a part of it.
func (s *step) take(where string, issues []definition.Issue) {
	for _, i := range issues {
		i.Where = s.where(where, i.Where)
		s.issues = append(s.issues, i)
	}
}

// checkTimes tells of times that are odd.
func (s *step) checkTimes() {
	odd := func(at string, d time.Duration) time.Duration {
		d, issues := definition.CheckTimeout(s.where(at), d)
		s.issues = append(s.issues, issues...)
		return d
	}
	s.timeout = odd("timeout", s.timeout)
	if s.retry != nil {
		r, issues := s.retry.Check(s.where("retry"))
		s.retry, s.issues = &r, append(s.issues, issues...)
	}
	for i, g := range s.gates {
		s.gates[i].within = odd("wait."+g.kind.String(), g.within)
	}
}

// checkNames says which names cannot be recorded.
func (s *step) checkNames() {
	if s.variable != "" && !pattern.ValidName(s.variable) {
		s.complain("variable", "this cannot be the name of a variable: %s", s.variable)
	}
	if s.event != nil && s.event.Type != "" && !pattern.ValidName(s.event.Type) {
		s.complain("event", "this cannot be a type of event: %s", s.event.Type)
	}
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
		switch id, is := idOf(d); {
		case !is:
			s.s.complain("after", "a nil step")
		case d.step().of != s.s.of:
			s.s.complain("after", "step %s is one of another graph", id)
		default:
			s.s.after = append(s.s.after, id)
		}
	}
	return s
}

// Order sorts the steps of one layer; equal ones are as declared.
func (s *Step[A, R]) Order(n int) *Step[A, R] {
	s.s.order = n
	return s
}

// When has the step run only where the condition holds; else it is SKIPPED, and those
// that come after it get no value of it. It is asked before the step waits at its gates.
func (s *Step[A, R]) When(c pattern.Condition) *Step[A, R] {
	if c == nil {
		s.s.complain("when", "a nil condition")
	}
	s.s.condition = c
	return s
}

// Retry is the step's policy; without one it is the graph's. What is workflow code, a
// child or a branch, is done once: for those it is the policy of what undoes them.
func (s *Step[A, R]) Retry(r perdure.Retry) *Step[A, R] {
	s.s.retry = &r
	return s
}

// Timeout limits one attempt of the step, and of what undoes it; without it the latter has
// five minutes. A child that passes it is cancelled.
func (s *Step[A, R]) Timeout(d time.Duration) *Step[A, R] {
	s.s.timeout = d
	return s
}

// Async has nothing wait for the step: its layer counts it as ended once it is taken up,
// also while it waits at its gates. A failure of it is recorded and fails nothing else;
// what still runs when all else has ended is cancelled.
func (s *Step[A, R]) Async() *Step[A, R] {
	s.s.async = true
	return s
}

// Undo is what undoes the step when the graph fails: it gets what the step got, made once
// more of the same sources, and what it gave. Variables have the values that they have
// then: what undoing depends on belongs into the result.
func (s *Step[A, R]) Undo(fn func(ctx context.Context, in A, out R) error) *Step[A, R] {
	s.s.setUndo(fn == nil, nil, func(ctx context.Context, given pattern.Sources) (json.RawMessage,
		error) {
		in, err := s.args.Fill(ctx, given)
		if err != nil {
			return nil, err
		}
		out, _, err := pattern.Output[R](ctx, ownResult)
		if err != nil {
			return nil, err
		}
		return nil, fn(ctx, in, out)
	})
	return s
}

// ownResult is the name under which a compensation finds the result of its step.
const ownResult = "result"

// UndoWith is [Step.Undo] by a function whose argument is made as that of a step: the
// result of what it undoes is that of the step "result", and undo and undo-error are of
// those that were undone before.
func UndoWith[A, R, C, U any](s *Step[A, R], fn func(context.Context, C) (U, error)) *Step[A, R] {
	args := pattern.NewArguments[C]()
	s.s.setUndo(fn == nil, args.Check, pattern.TaskOf(args, fn))
	s.s.undone = reflect.TypeFor[U]()
	return s
}

func (s *step) setUndo(missing bool, check func(pattern.SourceTypes) []definition.Issue,
	undo pattern.TaskFunc) {
	if s.undo != nil {
		s.complain("undo", "two compensations")
	}
	if missing {
		s.complain("undo", "a compensation needs a function")
	}
	s.undo, s.undoCheck = undo, check
}

// Event is the type under which the publisher is told of the step's success, where the
// graph publishes events; without it that is STEP_COMPLETED.
func (s *Step[A, R]) Event(e pattern.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable has the result stored as a variable of the run.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Output gives the step's result in the body of a step that comes after it, and false
// where it has none: it was skipped, or is [Step.Async] and has not ended.
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	return pattern.Output[R](ctx, s.s.id)
}

// Of gives the step's result of a run, and false where it has none.
func (s *Step[A, R]) Of(r Result) (R, bool, error) {
	return report.ResultOf[R](r.Run, s.s.id)
}

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

// A Dependency is a step that another step comes after.
type Dependency interface{ step() *step }

// idOf returns the ID of a step, and false for nil.
func idOf(d Dependency) (string, bool) {
	if d == nil || d.step() == nil {
		return "", false
	}
	return d.step().id, true
}

// A Step is one step of a graph. Its function takes an A, which is the graph's input or a struct
// with tags: see [pattern.Arguments]. The methods of Step set its properties and return the step.
type Step[A, R any] struct {
	s    *step
	args *pattern.Arguments[A]
}

// A step is a [Step] without its types.
type step struct {
	of        *declaration
	id        string
	after     []string
	order     int
	condition pattern.Condition
	gates     []gate
	before    prelude // nil for no prelude
	word      string  // the branch of the prelude has this word and the ID as its name
	call      pattern.TaskFunc
	check     func(pattern.SourceTypes) []definition.Issue
	result    reflect.Type
	retry     *perdure.Retry
	timeout   time.Duration
	async     bool
	undo      pattern.TaskFunc
	undoCheck func(pattern.SourceTypes) []definition.Issue
	undone    reflect.Type // the type of the compensation's result; nil for none
	event     *pattern.StepEvent
	variable  string
	issues    []definition.Issue
}

// copied returns a copy that its builder does not change. The gates of the copy are sorted.
func (s *step) copied() *step {
	c := *s
	c.after, c.gates, c.issues = slices.Clone(s.after), slices.Clone(s.gates),
		slices.Clone(s.issues)
	sortGates(c.gates)
	return &c
}

// Add adds a step. Its defects are reported when the graph is registered.
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

// where returns the place of a part of the step.
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

// take adds the issues of a part of the step.
func (s *step) take(where string, issues []definition.Issue) {
	for _, i := range issues {
		i.Where = s.where(where, i.Where)
		s.issues = append(s.issues, i)
	}
}

// checkTimes adds issues for times that are negative or very long. A child or a branch may take
// long: it waits by itself.
func (s *step) checkTimes() {
	check := definition.CheckAttemptTimeout
	if s.before != nil {
		check = definition.CheckTimeout
	}
	d, issues := check(s.where("timeout"), s.timeout)
	s.timeout, s.issues = d, append(s.issues, issues...)
	if s.retry != nil {
		r, issues := s.retry.Check(s.where("retry"))
		s.retry, s.issues = &r, append(s.issues, issues...)
	}
	for i, g := range s.gates {
		d, issues := definition.CheckTimeout(s.where("wait."+g.kind.String()), g.within)
		s.gates[i].within, s.issues = d, append(s.issues, issues...)
	}
}

// checkNames adds issues for names that are not valid in a journal.
func (s *step) checkNames() {
	if s.variable != "" {
		s.checkName("variable", "variable", s.variable, "")
	}
	if s.event != nil && s.event.Type != "" {
		s.checkName("event", "event type", s.event.Type, "")
	}
}

// checkName adds an issue if a name, with prefix before it, is not valid. It reports whether the
// name is valid.
func (s *step) checkName(where, what, name, prefix string) bool {
	err := pattern.CheckName(what, name, prefix)
	if err != nil {
		s.complain(where, "%v", err)
	}
	return err == nil
}

func (s *Step[A, R]) step() *step {
	if s == nil {
		return nil
	}
	return s.s
}

// ID returns the step's ID.
func (s *Step[A, R]) ID() string { return s.s.id }

// After makes the step begin when the given steps have ended.
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

// Order sets the position of the step in its layer. Steps of equal order are sorted as declared.
func (s *Step[A, R]) Order(n int) *Step[A, R] {
	s.s.order = n
	return s
}

// When sets a condition: the step runs only if the condition holds. Otherwise the step is SKIPPED,
// and later steps get no result of it. The condition is evaluated before the step waits at its
// gates.
func (s *Step[A, R]) When(c pattern.Condition) *Step[A, R] {
	if c == nil {
		s.s.complain("when", "a nil condition")
	}
	s.s.condition = c
	return s
}

// Retry sets the step's policy. The default is the policy of the graph. The work of a child or a
// branch is workflow code and is done once: for these steps the policy is for their compensation.
func (s *Step[A, R]) Retry(r perdure.Retry) *Step[A, R] {
	s.s.retry = &r
	return s
}

// Timeout limits one attempt of the step, and of its compensation. Without it an attempt of the
// step has no limit, and an attempt of the compensation has 5 min. A child that passes the timeout
// is cancelled.
func (s *Step[A, R]) Timeout(d time.Duration) *Step[A, R] {
	s.s.timeout = d
	return s
}

// Async lets the graph go on without waiting for the step. For its layer the step counts as ended
// as soon as it begins, also if it then waits at its gates. A failure of the step is recorded and
// fails nothing else. A step that still runs when everything else has ended is cancelled.
func (s *Step[A, R]) Async() *Step[A, R] {
	s.s.async = true
	return s
}

// Undo sets the compensation of the step, which is called when the graph fails. It takes the
// argument of the step, made again from the same sources, and the step's result. Variables have
// their values at the time of the compensation: put a value that the compensation depends on into
// the result.
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

// UndoWith sets the compensation as [Step.Undo] does, with a function whose argument is made like
// the argument of a step. In the tags of this argument, step=result is the result of the step
// itself. The sources undo and undo-error are the results and errors of compensations that were
// done before.
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

// Event sets the event that the publisher gets at the step's success, if the graph publishes
// events. Without it the type is STEP_COMPLETED.
func (s *Step[A, R]) Event(e pattern.StepEvent) *Step[A, R] {
	s.s.event = &e
	return s
}

// Variable stores the result as a variable of the run.
func (s *Step[A, R]) Variable(name string) *Step[A, R] {
	s.s.variable = name
	return s
}

// Output returns the step's result. It is called in the body of a later step. It returns false if
// the step has no result: the step was skipped, or it is [Step.Async] and has not ended.
func (s *Step[A, R]) Output(ctx context.Context) (R, bool, error) {
	return pattern.Output[R](ctx, s.s.id)
}

// Of returns the step's result in a run, and false if the step has no result.
func (s *Step[A, R]) Of(r Result) (R, bool, error) {
	return report.ResultOf[R](r.Run, s.s.id)
}

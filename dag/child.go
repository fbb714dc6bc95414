package dag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/guard"
)

// A prelude is workflow code that does the work of a step in a branch of its own, and returns the
// result that the step records. Arguments are made from given.
type prelude func(ctx context.Context, s *step, given pattern.Sources) (json.RawMessage, error)

// A ChildResult is the result of a step that starts a child. In JSON, which conditions see, it has
// the fields run_id, status (by its name), output and error.
type ChildResult[O any] struct {
	RunID  string
	Status perdure.RunStatus // zero if the step does not wait for the child
	Output O
	Error  string
}

// A childResult is a ChildResult in the form that conditions and people read.
type childResult[O any] struct {
	RunID  string `json:"run_id"`
	Status string `json:"status,omitempty"`
	Output O      `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}

// MarshalJSON writes the status by its name.
func (r ChildResult[O]) MarshalJSON() ([]byte, error) {
	out := childResult[O]{r.RunID, "", r.Output, r.Error}
	if r.Status != 0 {
		out.Status = r.Status.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (r *ChildResult[O]) UnmarshalJSON(data []byte) error {
	var in childResult[O]
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*r = ChildResult[O]{RunID: in.RunID, Output: in.Output, Error: in.Error}
	for _, s := range journal.Statuses() {
		if s.String() == in.Status {
			r.Status = s
		}
	}
	return nil
}

// A ChildStep is a step that starts a run of another workflow.
type ChildStep[A, O any] struct {
	*Step[A, ChildResult[O]]
	c *child
}

type child struct {
	detached bool
	any      bool
}

// AddChild adds a step that starts a run of a workflow and waits for it. input makes the input of
// the run from the argument of the step. It is workflow code: a panic in it fails the step. A child
// that does not succeed fails the step. A step starts one child, however often its code is
// replayed. A retry of the graph retries that child. If the graph is cancelled, so is the child.
// The child has the headers of the graph's run, and begins with its variables.
func AddChild[I, A, CI, O any](g *Graph[I], id string, wf *perdure.Workflow[CI, O],
	input func(A) CI) *ChildStep[A, O] {
	args := pattern.NewArguments[A]()
	c := &child{}
	s := addPrelude(g.def, id, childWord, args.Check, reflect.TypeFor[ChildResult[O]](),
		func(ctx context.Context, s *step, given pattern.Sources) (json.RawMessage, error) {
			in, err := args.Fill(ctx, given)
			if err != nil {
				return nil, err
			}
			of, err := made(func() CI { return input(in) })
			if err != nil {
				return nil, err
			}
			return runChild(ctx, c, s.async, wf, of)
		})
	if wf == nil || input == nil {
		s.complain("", "a step that is a child needs a workflow, and what makes its input")
	}
	return &ChildStep[A, O]{&Step[A, ChildResult[O]]{s, args}, c}
}

// Detached makes the step DONE as soon as the child has started.
func (s *ChildStep[A, O]) Detached() *ChildStep[A, O] {
	s.c.detached = true
	return s
}

// AnyOutcome lets the step succeed also if the child does not succeed. The result has the status of
// the child.
func (s *ChildStep[A, O]) AnyOutcome() *ChildStep[A, O] {
	s.c.any = true
	return s
}

// runChild starts a child, and waits for it unless it is detached. A child that the step waits for
// ends with its parent, however the parent ends.
func runChild[CI, O any](ctx context.Context, c *child, async bool, wf *perdure.Workflow[CI, O],
	in CI) (json.RawMessage, error) {
	opts := []perdure.ChildOption{pattern.WithVariables()}
	if !c.detached {
		opts = append(opts, perdure.ChildEnds)
	}
	run := wf.Child(ctx, in, opts...)
	r := ChildResult[O]{RunID: run.RunID()}
	if c.detached {
		if r.RunID == "" { // the child was not started
			_, err := run.Await(ctx)
			return nil, err
		}
		return pattern.Encode(r)
	}
	out, err := run.Outcome(ctx)
	if err != nil {
		return nil, err
	}
	r.Status, r.Output = out.Status, out.Output
	if out.Err == nil && !out.Status.IsSuccess() {
		out.Err = fmt.Errorf("child %s has ended %v", r.RunID, out.Status)
	}
	if out.Err != nil {
		if r.Error = out.Err.Error(); !c.any {
			return nil, out.Err
		}
	}
	return pattern.Encode(r)
}

// AddBranch adds a step whose function is workflow code: it may wait, have steps of its own, and
// start children. A panic in it is a panic of the run's code: the code is replayed, and then the
// run is parked. Paths of its operations begin with in:ID/, or with in:ID/body/ if the step has a
// timeout.
func AddBranch[I, A, R any](g *Graph[I], id string, fn func(context.Context, A) (R,
	error)) *Step[A, R] {
	args := pattern.NewArguments[A]()
	body := pattern.TaskOf(args, fn)
	s := addPrelude(g.def, id, "in:", args.Check, reflect.TypeFor[R](),
		func(ctx context.Context, _ *step, given pattern.Sources) (json.RawMessage, error) {
			return body(ctx, given)
		})
	if fn == nil {
		s.complain("", "a step needs a function")
	}
	return &Step[A, R]{s, args}
}

func addPrelude(d *declaration, id, word string, check func(pattern.SourceTypes) []definition.Issue,
	result reflect.Type, before prelude) *step {
	s := &step{of: d, id: id, word: word, check: check, result: result, before: before}
	d.steps = append(d.steps, s)
	return s
}

// do runs the prelude, for at most the timeout of the step.
func (s *step) do(ctx context.Context, given pattern.Sources) (json.RawMessage, error) {
	if s.timeout == 0 {
		return s.before(ctx, s, given)
	}
	body := perdure.Go(ctx, "body", func(ctx context.Context) (json.RawMessage, error) {
		return s.before(ctx, s, given)
	})
	late := perdure.Timer(ctx, "perdure:late", s.timeout)
	set, err := pattern.NewSet(ctx)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	if err := errors.Join(set.Add(body), set.Add(late)); err != nil {
		return nil, err
	}
	first, err := set.Next()
	if err != nil {
		return nil, err
	}
	if first == pattern.Awaitable(late) {
		return nil, s.passed(ctx, body)
	}
	if _, err := late.Cancel(ctx, "the step has ended"); err != nil {
		return nil, err
	}
	return body.Await(ctx)
}

// passed cancels a prelude that takes too long.
func (s *step) passed(ctx context.Context, body *perdure.Future[json.RawMessage]) error {
	if _, err := body.Cancel(ctx, "the step has passed its timeout"); err != nil {
		return err
	}
	return &perdure.Error{
		Code: perdure.CodeTimedOut, Op: "step " + s.id, Message: "it has passed its timeout of " +
			s.timeout.String(),
	}
}

// made returns a value that code of the application makes, in workflow code.
func made[T any](f func() T) (out T, err error) {
	err = guard.Try(func() error {
		out = f()
		return nil
	})
	return out, err
}

package dag

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/perdure/perdure"
)

// A ChildResult is the result of a step that is a run of its own.
type ChildResult[O any] struct {
	RunID  string            `json:"run_id"`
	Status perdure.RunStatus `json:"status,omitempty"` // zero where it is not waited for
	Output O                 `json:"output,omitempty"`
	Error  string            `json:"error,omitempty"`
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

// AddChild adds a step that starts a run of a workflow and waits for it; input makes its
// input of the step's argument, and is workflow code. A child that does not succeed fails
// the step. A step starts one child, however often its code is replayed; when the graph
// is cancelled, so is the child.
func AddChild[I, A, CI, O any](g *Graph[I], id string, wf *perdure.Workflow[CI, O], input func(A) CI) *ChildStep[A, O] {
	args := perdure.NewArguments[A]()
	s := &step{id: id, check: args.Check, result: reflect.TypeFor[ChildResult[O]](), retry: &perdure.NoRetry}
	if wf == nil || input == nil {
		s.complain("", "a step that is a child needs a workflow, and what makes its input")
	}
	c := &child{}
	s.before = func(ctx context.Context, x *execution, _ *step) perdure.Awaitable {
		return perdure.Go(ctx, "child:"+id, func(ctx context.Context) (json.RawMessage, error) {
			in, err := args.Fill(ctx, x.given(s))
			if err != nil {
				return nil, err
			}
			return runChild(ctx, c, wf, input(in))
		})
	}
	s.call = recorded(s)
	g.def.steps = append(g.def.steps, s)
	return &ChildStep[A, O]{&Step[A, ChildResult[O]]{s, args}, c}
}

// Detached has the step be DONE once the child is started.
func (s *ChildStep[A, O]) Detached() *ChildStep[A, O] {
	s.c.detached = true
	return s
}

// AnyOutcome has a child that does not succeed not fail the step: the result tells.
func (s *ChildStep[A, O]) AnyOutcome() *ChildStep[A, O] {
	s.c.any = true
	return s
}

func runChild[CI, O any](ctx context.Context, c *child, wf *perdure.Workflow[CI, O], in CI) (json.RawMessage, error) {
	run := wf.Child(ctx, in)
	r := ChildResult[O]{RunID: string(run.RunID())}
	if c.detached {
		if run.RunID() == "" { // it was not started
			_, err := run.Await(ctx)
			return nil, err
		}
		return perdure.Encode(r)
	}
	out, err := run.Outcome(ctx)
	if err != nil {
		return nil, err
	}
	r.Status, r.Output = out.Status, out.Output
	if out.Err != nil {
		if r.Error = out.Err.Error(); !c.any {
			return nil, out.Err
		}
	}
	return perdure.Encode(r)
}

// AddBranch adds a step whose function is workflow code: it waits, has steps of its own,
// runs a saga or a TCC. What it does is named within in:ID.
func AddBranch[I, A, R any](g *Graph[I], id string, fn func(context.Context, A) (R, error)) *Step[A, R] {
	args := perdure.NewArguments[A]()
	s := &step{id: id, check: args.Check, result: reflect.TypeFor[R](), retry: &perdure.NoRetry}
	if fn == nil {
		s.complain("", "a step needs a function")
	}
	s.before = func(ctx context.Context, x *execution, _ *step) perdure.Awaitable {
		return perdure.Go(ctx, "in:"+id, func(ctx context.Context) (json.RawMessage, error) {
			in, err := args.Fill(ctx, x.given(s))
			if err != nil {
				return nil, err
			}
			out, err := fn(ctx, in)
			if err != nil {
				return nil, err
			}
			return perdure.Encode(out)
		})
	}
	s.call = recorded(s)
	g.def.steps = append(g.def.steps, s)
	return &Step[A, R]{s, args}
}

// recorded is the body of a step whose prelude has done the work: it gives what that
// gave.
func recorded(s *step) perdure.TaskFunc {
	return func(_ context.Context, given perdure.Given) (json.RawMessage, error) {
		out, _ := given.Result(beforeOf(s))
		return out, nil
	}
}

// beforeOf is the name under which a task finds what its prelude gave. No step has it.
func beforeOf(s *step) string { return s.id + "/before" }

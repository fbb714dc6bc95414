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

// A prelude is workflow code that does what a step stands for, in a branch of its own,
// and gives what the step records. Arguments are made of given.
type prelude func(ctx context.Context, s *step, given pattern.Sources) (json.RawMessage, error)

// A ChildResult is the result of a step that is a run of its own. In JSON, which
// conditions see, it has run_id, status by its name, output and error.
type ChildResult[O any] struct {
	RunID  string
	Status perdure.RunStatus // zero where it is not waited for
	Output O
	Error  string
}

// childResult is a ChildResult as conditions and people read it.
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

// UnmarshalJSON reads what MarshalJSON has written.
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

// AddChild adds a step that starts a run of a workflow and waits for it; input makes its
// input of the step's argument, and is workflow code: a panic in it fails the step. A
// child that does not succeed fails the step. A step starts one child, however often its
// code is replayed, and a retry of the graph retries that one; when the graph is
// cancelled, so is the child.
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

// runChild starts a child, and waits for it unless it is detached. One that is waited for
// ends with its parent, however that ends.
func runChild[CI, O any](ctx context.Context, c *child, async bool, wf *perdure.Workflow[CI, O],
	in CI) (json.RawMessage, error) {
	var opts []perdure.ChildOption
	if !c.detached {
		opts = append(opts, perdure.ChildEnds)
	}
	run := wf.Child(ctx, in, opts...)
	r := ChildResult[O]{RunID: string(run.RunID())}
	if c.detached {
		if r.RunID == "" { // it was not started
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

// AddBranch adds a step whose function is workflow code: it waits, has steps of its own,
// starts children. A panic in it is one of the run's code, which is replayed, and then
// parked. What it does is named within in:ID, or in:ID/body where it has a
// timeout.
func AddBranch[I, A, R any](g *Graph[I], id string, fn func(context.Context, A) (R,
	error)) *Step[A, R] {
	args := pattern.NewArguments[A]()
	s := addPrelude(g.def, id, "in:", args.Check, reflect.TypeFor[R](),
		func(ctx context.Context, _ *step, given pattern.Sources) (json.RawMessage, error) {
			in, err := args.Fill(ctx, given)
			if err != nil {
				return nil, err
			}
			out, err := fn(ctx, in)
			if err != nil {
				return nil, err
			}
			return pattern.Encode(out)
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

// do does the prelude, for at most as long as the step may take.
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

// passed ends what takes too long.
func (s *step) passed(ctx context.Context, body *perdure.Future[json.RawMessage]) error {
	if _, err := body.Cancel(ctx, "the step has passed its timeout"); err != nil {
		return err
	}
	return &perdure.Error{
		Code: perdure.CodeTimedOut, Op: "step " + s.id, Message: "it has passed its timeout of " +
			s.timeout.String(),
	}
}

// made makes a value by code of the application's, in workflow code.
func made[T any](f func() T) (out T, err error) {
	err = guard.Try(func() error {
		out = f()
		return nil
	})
	return out, err
}

package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A ChildOption says how a child is started: [ID], [Key], [RenamedFrom], [Added], [Dedup] and
// [ChildPolicy].
type ChildOption interface{ child(*childOptions) error }

type childOptions struct {
	step   stepOptions
	start  startOptions
	policy string
}

func (k Key) child(o *childOptions) error         { return k.step(&o.step) }
func (w RenamedFrom) child(o *childOptions) error { return w.step(&o.step) }
func (id ID) child(o *childOptions) error         { return id.start(&o.start) }
func (d Dedup) child(o *childOptions) error       { return d.start(&o.start) }

// ChildPolicy says what becomes of a child when its parent ends.
type ChildPolicy string

// The policies. Without one a child is cancelled when its parent is, and goes on
// when its parent ends in another way.
const (
	ChildEnds     ChildPolicy = kernel.ChildEnds     // it is cancelled however the parent ends
	ChildDetached ChildPolicy = kernel.ChildDetached // it is a run of its own: never cancelled with the parent, which does not hear of its end, nor that its ID was taken; observers do
)

func (p ChildPolicy) child(o *childOptions) error {
	if p != ChildEnds && p != ChildDetached {
		return invalid("child", "no such policy: %q", string(p))
	}
	o.policy = string(p)
	return nil
}

// A Child is a run that workflow code has started as part of its own. It belongs
// to workflow code, as a [Future] does.
type Child[O any] struct {
	*Future[O]
	id journal.RunID
}

// Child starts a run of this workflow as a child of the run of ctx, in the commit
// that records it there: the same operation never starts two. Without an [ID] the
// child gets a workflow ID of its own; one that another open run has fails the
// child before it begins. While its parent waits for it, the parent may leave
// memory.
func (w *Workflow[I, O]) Child(ctx context.Context, in I, opts ...ChildOption) *Child[O] {
	c := &Child[O]{Future: &Future[O]{name: w.def.Name}}
	spec, err := w.childSpec(in, opts)
	if err != nil {
		c.err = err
		return c
	}
	c.op, c.id, c.err = kernel.StartChild(ctx, spec)
	return c
}

func (w *Workflow[I, O]) childSpec(in I, opts []ChildOption) (kernel.Child, error) {
	op := "child " + w.def.Name
	if w.err != nil {
		return kernel.Child{}, w.err
	}
	o := childOptions{start: startOptions{dedup: defaultDedup}}
	for _, opt := range opts {
		if opt == nil {
			return kernel.Child{}, invalid(op, "a nil option")
		}
		if err := opt.child(&o); err != nil {
			return kernel.Child{}, err
		}
	}
	data, err := encode(in)
	if err != nil {
		return kernel.Child{}, &Error{Code: journal.CodeEncode, Op: op, Message: "its input does not encode", Err: err}
	}
	return kernel.Child{
		Name: w.def.Name, Key: o.step.key, Change: o.step.change, Workflow: w.def.Name, Pattern: w.def.Pattern,
		ID: o.start.id, Input: data, Keep: o.start.dedup, Policy: o.policy,
	}, nil
}

// RunID is the child's run ID.
func (c *Child[O]) RunID() journal.RunID { return c.id }

// An Outcome is how a child has ended, as a value.
type Outcome[O any] struct {
	Status journal.Status
	Output O
	Err    error // nil where it succeeded
}

// Outcome waits for the child to end and tells how it did: only what keeps the
// parent from hearing of it is an error here. Its Await gives the output, or
// the child's error.
func (c *Child[O]) Outcome(ctx context.Context) (Outcome[O], error) {
	if c.err != nil {
		return Outcome[O]{}, c.err
	}
	out, err := c.op.Await(ctx)
	if err != nil {
		return Outcome[O]{}, err
	}
	o := Outcome[O]{}
	if out.Detail != nil {
		o.Status = out.Detail.Outcome
	}
	if o.Status == 0 && out.Failure != nil { // the wait has ended, and not the child
		return o, fromFailure(out.Failure)
	}
	o.Output, o.Err = c.result(out, nil)
	return o, nil
}

// Cancel asks the child to end. The child's end says whether it was in time.
func (c *Child[O]) Cancel(ctx context.Context, reason string) error {
	if c.err != nil {
		return c.err
	}
	return c.op.CancelChild(ctx, clip(reason))
}

package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A ChildOption says how a child is started: [ID], [Key], [RenamedFrom], [Added], [Dedup] and
// [ChildPolicy].
type ChildOption interface{ ApplyToChild(*sealed.Child) error }

func (k Key) ApplyToChild(o *sealed.Child) error         { return k.ApplyToStep(&o.Operation) }
func (w RenamedFrom) ApplyToChild(o *sealed.Child) error { return w.ApplyToStep(&o.Operation) }
func (id ID) ApplyToChild(o *sealed.Child) error         { return id.ApplyToStart(&o.Start) }
func (d Dedup) ApplyToChild(o *sealed.Child) error       { return d.ApplyToStart(&o.Start) }

// ChildPolicy says what becomes of a child when its parent ends.
type ChildPolicy string

// The policies. Without one a child is cancelled when its parent is, and goes on
// when its parent ends in another way.
const (
	ChildEnds ChildPolicy = kernel.ChildEnds // it is cancelled however the parent ends
	// it is a run of its own: never cancelled with the parent, which does not hear of its end, nor
	// that its ID was taken; observers do
	ChildDetached ChildPolicy = kernel.ChildDetached
)

func (p ChildPolicy) ApplyToChild(o *sealed.Child) error {
	if p != ChildEnds && p != ChildDetached {
		return failure.Invalid("child", "no such policy: %q", string(p))
	}
	o.Policy = string(p)
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
	o := sealed.Child{Start: sealed.Start{Dedup: defaultDedup}}
	for _, opt := range opts {
		if opt == nil {
			return kernel.Child{}, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToChild(&o); err != nil {
			return kernel.Child{}, err
		}
	}
	data, err := payload.Encode(in)
	if err != nil {
		return kernel.Child{}, &Error{
			Code: journal.CodeEncode, Op: op, Message: "its input does not encode", Err: err,
		}
	}
	if err := accepts(&w.def, data); err != nil {
		return kernel.Child{}, err
	}
	return kernel.Child{
		Name: w.def.Name, Key: o.Operation.Key, Change: o.Operation.Change, Workflow: w.def.Name,
		Pattern: w.def.Pattern,
		ID:      o.Start.ID, Input: data, Keep: o.Start.Dedup, Policy: o.Policy,
	}, nil
}

// RunID is the child's run ID.
func (c *Child[O]) RunID() journal.RunID { return c.id }

// An Outcome is how a child has ended, as a value.
type Outcome[O any] struct {
	Status RunStatus
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
		return o, failure.Err(out.Failure)
	}
	o.Output, o.Err = c.result(out, nil)
	return o, nil
}

// Cancel asks the child to end. The child's end says whether it was in time.
func (c *Child[O]) Cancel(ctx context.Context, reason string) error {
	if c.err != nil {
		return c.err
	}
	return c.op.CancelChild(ctx, failure.Clip(reason))
}

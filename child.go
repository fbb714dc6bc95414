package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A ChildOption is an option of the start of a child: [ID], [Key], [RenamedFrom], [Added],
// [Dedup], [Headers], [ChildPolicy] or pattern.WithVariables.
type ChildOption interface{ ApplyToChild(*sealed.Child) error }

func (k Key) ApplyToChild(o *sealed.Child) error         { return k.ApplyToStep(&o.Operation) }
func (w RenamedFrom) ApplyToChild(o *sealed.Child) error { return w.ApplyToStep(&o.Operation) }
func (id ID) ApplyToChild(o *sealed.Child) error         { return id.ApplyToStart(&o.Start) }
func (d Dedup) ApplyToChild(o *sealed.Child) error       { return d.ApplyToStart(&o.Start) }
func (h Headers) ApplyToChild(o *sealed.Child) error     { return h.ApplyToStart(&o.Start) }

// ChildPolicy sets what happens to a child when its parent ends.
type ChildPolicy string

// The policies of children. Without a policy, a child is cancelled when its parent is cancelled,
// and goes on when its parent ends in another way.
const (
	ChildEnds ChildPolicy = kernel.ChildEnds // it is cancelled however the parent ends
	// The child is a run of its own: it is never cancelled with the parent. Observers are notified
	// of its end, or that its ID was taken; the parent is not.
	ChildDetached ChildPolicy = journal.ChildDetached
)

func (p ChildPolicy) ApplyToChild(o *sealed.Child) error {
	if p != ChildEnds && p != ChildDetached {
		return failure.Invalid("child", "no such policy: %q", string(p))
	}
	o.Policy = string(p)
	return nil
}

// A Child is a run that workflow code has started as part of its own run. It belongs to workflow
// code, as a [Future] does.
type Child[O any] struct {
	*Future[O]
	id journal.RunID
}

// Child starts a run of this workflow as a child of the run of ctx. The start is in the commit
// that records the child in the parent's journal, so one operation never starts two children.
// Without an [ID] the child gets a workflow ID of its own. If another open run has the ID, the
// child fails before it begins. The child has the headers of its parent; the option [Headers] adds
// others. While the parent waits for the child, the parent may be unloaded.
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
		Headers: o.Start.Headers, Variables: o.Variables,
	}, nil
}

// RunID returns the child's run ID.
func (c *Child[O]) RunID() string { return string(c.id) }

// An Outcome is the result of a run that has ended, as a value.
type Outcome[O any] struct {
	Status RunStatus
	Output O
	Err    error // nil where it succeeded
}

// Outcome waits for the child to end and returns its outcome as a value. It returns an error only
// if the parent cannot learn of the end. Await returns the output, or the child's error, instead.
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

// Cancel asks the child to end. The child's status at its end shows whether the request was in
// time.
func (c *Child[O]) Cancel(ctx context.Context, reason string) error {
	if c.err != nil {
		return c.err
	}
	return c.op.CancelChild(ctx, failure.Clip(reason))
}

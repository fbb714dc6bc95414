package pattern

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/paced"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Walk does the work of the nodes of a graph, layer after layer: a layer begins when every node
// of the layer before has ended. It is workflow code, and the same on replay.
type Walk struct {
	Layers [][]string
	// Policy limits how many nodes go on at a time, over all layers; nil means no limit. See
	// [backpressure.Named].
	Policy backpressure.Policy
	// Begin begins a node, and returns the operation that it waits for, or nil if the node has
	// ended at once. alone means that no other node goes on until this node has ended.
	Begin func(node string, alone bool) (Awaitable, error)
	// Ended is called when the operation that a node waited for has ended. It returns the next
	// operation that the node waits for, or nil. It is also called for a node that the policy has
	// refused; refused is then the error.
	Ended func(node string, f Awaitable, refused error) (Awaitable, error)
	// Beside reports whether a node runs beside the walk: its layer does not wait for its end.
	// Ended is called for such a node only if it ends while the walk goes on. Nil means that there
	// is no such node.
	Beside func(node string) bool
	// More is called before each layer except the first. If it returns false, the walk ends.
	More func() bool
}

// Run does the walk. It fails if the run ends meanwhile. An error of a node does not end the walk:
// the policy gets the error, and the layer goes on.
func (w Walk) Run(ctx context.Context) error {
	if len(w.Layers) == 0 {
		return nil
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	p, err := policyOf(ctx, w.Policy)
	if err != nil {
		return err
	}
	limiter, err := backpressure.Begin(ctx, p)
	if err != nil {
		return err
	}
	pace := paced.New(ctx, limiter, info.Started, paced.Things[string]{
		Begin: func(node string, alone bool) (paced.Awaitable, error) {
			return w.Begin(node, alone)
		},
		Ended: func(node string, f paced.Awaitable, refused error) (paced.Awaitable, error) {
			return w.Ended(node, f, refused)
		},
		Beside: w.Beside,
	})
	defer pace.Close()
	for i, layer := range w.Layers {
		if i > 0 && w.More != nil && !w.More() {
			return nil
		}
		if err := pace.All(layer); err != nil {
			return err
		}
	}
	return nil
}

// policyOf returns the policy of a walk: the policy that the start of the run has named, or else
// the policy of the definition. A walk in a scope has the policy of its definition.
func policyOf(ctx context.Context, own backpressure.Policy) (backpressure.Policy, error) {
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return nil, err
	}
	if name := i.Headers[sealed.HeaderPolicy]; name != "" && i.Scope == "" {
		p, err := backpressure.Lookup(name)
		return p, failure.Mark(journal.ClassPark, 0, err)
	}
	if own == nil {
		return backpressure.Limit(0), nil
	}
	return own, nil
}

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

// A Walk has what the nodes of a graph stand for done, layer after layer: a layer begins
// when everything of the one before has ended. It is workflow code, and the same on
// replay.
type Walk struct {
	Layers [][]string
	// how many go on at a time, over all layers; nil for no limit; see [backpressure.Named]
	Policy backpressure.Policy
	// Begin begins a node, and gives what it waits for; nil where it has ended at once.
	// Alone says that nothing else goes on until it has.
	Begin func(node string, alone bool) (Awaitable, error)
	// Ended is told of a node when what it waited for has ended, and gives what it waits
	// for next, or nil; and of one that the policy has refused, by refused.
	Ended func(node string, f Awaitable, refused error) (Awaitable, error)
	// Beside says of a node that nobody waits for it: its layer counts it as ended when it
	// has begun. Ended is told of it if it ends while the walk goes on. Nil is none.
	Beside func(node string) bool
	// More is asked before each layer but the first.
	More func() bool
}

// Run walks. It fails where the run ends meanwhile. What fails in a node is that node's:
// it is told to the policy, and the layer goes on.
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
	pace := paced.New(ctx, p.Begin(), info.Started, paced.Things[string]{
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

// policyOf returns the policy of a walk: the one that the start of the run has named,
// or else the one of the definition. What is in a scope has its own.
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

package pattern

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Walk has what the nodes of a graph stand for done, layer after layer: a layer begins
// when everything of the one before has ended. It is workflow code, and the same on
// replay.
type Walk struct {
	Layers [][]string
	Policy backpressure.Policy // how many go on at a time, over all layers; nil for no limit; see [backpressure.Named]
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
	s := strider{Walk: w, ctx: ctx, flow: p.Begin(), now: info.Started, nodes: map[Awaitable]string{}}
	defer s.close()
	for i, layer := range w.Layers {
		if i > 0 && w.More != nil && !w.More() {
			return nil
		}
		if err := s.layer(layer); err != nil {
			return err
		}
	}
	return nil
}

// A strider is a walk that goes on.
type strider struct {
	Walk
	ctx     context.Context
	flow    backpressure.Limiter
	now     time.Time // of what it knows of last
	set     *Set      // nil while nothing was waited for
	nodes   map[Awaitable]string
	running int // that their layer waits for
	beside  int // that nobody waits for
}

func (s *strider) close() {
	if s.set != nil {
		s.set.Close()
	}
}

func (s *strider) layer(nodes []string) error {
	alone := len(nodes) == 1
	for len(nodes) > 0 || s.running > 0 {
		for len(nodes) > 0 {
			room, refused := s.flow.Room(s.running, s.now)
			if refused == nil && room <= 0 && s.running > 0 {
				break
			}
			if err := s.begin(nodes[0], alone, refused); err != nil {
				return err
			}
			nodes = nodes[1:]
		}
		if s.running > 0 {
			if err := s.next(); err != nil {
				return err
			}
		}
		if err := EndedBy(s.ctx); err != nil {
			return err
		}
	}
	return nil
}

// isBeside says whether nobody waits for a node.
func (s *strider) isBeside(node string) bool { return s.Beside != nil && s.Beside(node) }

// begin begins a node, or tells it that it is refused.
func (s *strider) begin(node string, alone bool, refused error) error {
	if refused != nil {
		_, _ = s.Ended(node, nil, refused)
		return EndedBy(s.ctx)
	}
	beside := s.isBeside(node)
	f, err := s.Begin(node, alone && !beside && s.beside == 0)
	if f == nil || beside {
		s.flow.Ended(err, s.now)
	}
	switch {
	case f == nil:
		return EndedBy(s.ctx)
	case beside:
		s.beside++
	default:
		s.running++
	}
	return s.wait(node, f)
}

// wait adds what a node waits for.
func (s *strider) wait(node string, f Awaitable) error {
	if s.set == nil {
		set, err := NewSet(s.ctx)
		if err != nil {
			return err
		}
		s.set = set
	}
	s.nodes[f] = node
	return s.set.Add(f)
}

// next waits for the next node that ends.
func (s *strider) next() error {
	f, err := s.set.Next()
	if err != nil {
		return err
	}
	node := s.nodes[f]
	delete(s.nodes, f)
	if at := endedAt(f); at.After(s.now) {
		s.now = at
	}
	then, err := s.Ended(node, f, nil)
	switch {
	case then != nil:
		return s.wait(node, then)
	case s.isBeside(node):
		s.beside--
	default:
		s.running--
		s.flow.Ended(err, s.now)
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

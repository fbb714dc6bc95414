package kernel

import (
	"context"
	"slices"
	"sync"

	"github.com/perdure/perdure/journal"
)

// shared is what all kernels of an engine know, one after the other: what its
// program has told it, and who waits for the end of a run.
type shared struct {
	asking chan struct{} // asks who watches the ends of runs to look now

	mu         sync.Mutex // taken after every other lock
	workflows  map[string]*Workflow
	listeners  []*Listener
	subscriber func(context.Context, Event) error // nil for none
	ends       map[journal.Number]*awaitedEnd     // of runs that somebody waits for
}

func newShared() *shared {
	return &shared{
		asking: make(chan struct{}, 1), workflows: map[string]*Workflow{},
		ends: map[journal.Number]*awaitedEnd{},
	}
}

// add adds a workflow. It gives false on a name that is known.
func (s *shared) add(w *Workflow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workflows[w.Name] != nil {
		return false
	}
	s.workflows[w.Name] = w
	return true
}

// Lookup gives the registered workflow of a name, or nil.
func (s *shared) Lookup(name string) *Workflow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workflows[name]
}

// names gives the workflows that the engine knows.
func (s *shared) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.workflows))
	for name := range s.workflows {
		names = append(names, name)
	}
	return names
}

// Listen adds a listener until the function that it gives is called.
func (s *shared) Listen(l *Listener) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(slices.Clone(s.listeners), l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(slices.Clone(s.listeners), func(x *Listener) bool { return x == l })
	}
}

// listening gives the listeners that want to hear of an end.
func (s *shared) listening(h journal.Head) []*Listener {
	s.mu.Lock()
	all := s.listeners
	if def := s.workflows[h.Workflow]; def != nil {
		all = slices.Concat(all, def.Listeners)
	}
	s.mu.Unlock()
	var out []*Listener
	for _, l := range all {
		if l.wants(h) {
			out = append(out, l)
		}
	}
	return out
}

// Subscribe gives the engine the one that takes events.
func (s *shared) Subscribe(f func(context.Context, Event) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriber = f
}

// subscription gives who takes events; nil for nobody.
func (s *shared) subscription() func(context.Context, Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscriber
}

// subscribed says whether somebody takes events.
func (s *shared) subscribed() bool { return s.subscription() != nil }

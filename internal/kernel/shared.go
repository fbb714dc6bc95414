package kernel

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
)

// A shared has the data that all kernels of an engine share, one after the other: the workflows,
// listeners and subscriber of the program, and the callers that wait for the end of a run.
type shared struct {
	rules  atomic.Pointer[rules.Rules]
	asking chan struct{} // asks the goroutine that watches the ends of runs to look now
	owner  any           // the engine of the application; nil for none
	silent bool          // no lifecycle events are published

	mu         sync.Mutex // taken after every other lock
	workflows  map[string]*Workflow
	listeners  []*Listener
	subscriber func(context.Context, Event) error // nil for none
	ends       map[journal.Number]*awaitedEnd     // by run: the ends that callers wait for

	news awaitedNews
}

func newShared() *shared {
	s := &shared{
		asking: make(chan struct{}, 1), workflows: map[string]*Workflow{},
		ends: map[journal.Number]*awaitedEnd{},
	}
	s.rules.Store(rules.Of(nil))
	return s
}

// add adds a workflow. It returns false if the name is known.
func (s *shared) add(w *Workflow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workflows[w.Name] != nil {
		return false
	}
	s.workflows[w.Name] = w
	return true
}

// Lookup returns the registered workflow of a name, or nil.
func (s *shared) Lookup(name string) *Workflow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workflows[name]
}

// names returns the names of the workflows that the engine knows, in order.
func (s *shared) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.workflows))
	for name := range s.workflows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A roster writes to the store which workflows the engine has, so that others see it there. It does
// so when the engine joins, and again when a workflow was registered since.
type roster struct {
	k    *Kernel
	told atomic.Int64 // how many workflows the store has heard of
}

// tellWithin is the time after which the names of workflows wait for the next renewal.
const tellWithin = 5 * time.Second

// untold returns the names of all workflows if there are some that the store has not heard of.
func (r *roster) untold() []string {
	if names := r.k.names(); int64(len(names)) != r.told.Load() {
		return names
	}
	return nil
}

// tell lets the store hear of workflows that were registered since the engine has joined.
func (r *roster) tell() {
	select {
	case <-r.k.ready:
	default:
		return // the join tells them
	}
	if r.untold() != nil {
		go func() { _, _, _ = r.k.renewOnTime(context.Background(), tellWithin) }()
	}
}

// runnable returns the names of the workflows whose runs may be claimed, and of those that are
// paused.
func (s *shared) runnable() (names, paused []string) {
	x := s.rules.Load()
	for _, name := range s.names() {
		if x.IsPaused(name) {
			paused = append(paused, name)
		} else {
			names = append(names, name)
		}
	}
	return names, paused
}

// limited returns the workflows that the engine knows, with their limits.
func (s *shared) limited() (all []rules.Workflow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workflows {
		all = append(all, w.limited())
	}
	return all
}

// limited returns the workflow as rules know it.
func (w *Workflow) limited() rules.Workflow {
	return rules.Workflow{
		Name: w.Name, Limited: w.Limits != nil, Limit: w.Limit, Bounds: w.Bounds,
	}
}

// Listen adds a listener. The function that it returns removes the listener.
func (s *shared) Listen(l *Listener) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(slices.Clone(s.listeners), l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(slices.Clone(s.listeners), func(x *Listener) bool {
			return x == l
		})
	}
}

// listening returns the listeners that listen to the end of such a run.
func (s *shared) listening(h journal.Head) []*Listener {
	s.mu.Lock()
	all := s.listeners
	if def := s.workflows[h.Workflow]; def != nil {
		all = slices.Concat(all, def.Listeners)
	}
	s.mu.Unlock()
	var out []*Listener
	for _, l := range all {
		if l.Lifecycle && s.silent {
			continue
		}
		if l.wants(h) && (!l.Alerts || s.rules.Load().Alerts(h.Workflow, h.Status.String())) {
			out = append(out, l)
		}
	}
	return out
}

// Subscribe sets the subscriber: the function that takes events.
func (s *shared) Subscribe(f func(context.Context, Event) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriber = f
}

// subscription returns the subscriber; nil for none.
func (s *shared) subscription() func(context.Context, Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscriber
}

// subscribed reports whether there is a subscriber.
func (s *shared) subscribed() bool { return s.subscription() != nil }

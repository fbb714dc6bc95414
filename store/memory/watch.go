package memory

import "context"

// A watcher is a handle that is notified when another handle has written something it may want to
// know.
type watcher struct {
	of    *Store
	nudge chan struct{}
}

// Watch calls f once when it begins. Then it calls f when another handle has made a run due, sent a
// message to a run with an owner, or ended a run, and when an engine has left or was taken over.
func (s *Store) Watch(ctx context.Context, f func()) {
	w := &watcher{of: s, nudge: make(chan struct{}, 1)}
	s.data.mu.Lock()
	s.data.watchers[w] = true
	s.data.mu.Unlock()
	defer func() {
		s.data.mu.Lock()
		defer s.data.mu.Unlock()
		delete(s.data.watchers, w)
	}()
	f()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.nudge:
			f()
		}
	}
}

// tell notifies the watchers of other handles. If a client has written, it notifies those of this
// handle, too, since an engine on it does not know. The caller has locked the data.
func (s *Store) tell(byClient bool) {
	for w := range s.data.watchers {
		if w.of == s && !byClient {
			continue
		}
		select {
		case w.nudge <- struct{}{}:
		default:
		}
	}
}

// concerns reports whether other handles may want to know of the change of a run.
func (tx *transaction) concerns(r *run) bool {
	return !r.isOpen() || r.hasMail() || r.isFree() && !r.head.Wake.After(tx.group.Now)
}

// Lanes implements [store.Parallel]. This store gains nothing from concurrent commits. But a store
// for many engines returns 2, so that tests have concurrent commits as on stores that gain from
// them.
func (s *Store) Lanes() int {
	if s.data.lease > 0 {
		return 2
	}
	return 1
}

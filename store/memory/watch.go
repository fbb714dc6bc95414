package memory

import "context"

// A watcher is told that another handle has written what it may want to know.
type watcher struct {
	of    *Store
	nudge chan struct{}
}

// Watch calls f when another handle has made a run due, sent a message to one that
// is owned, or ended one, when an engine has come off, and once when it begins.
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

// tell wakes the watchers of other handles, and those of this handle if a client has written: an
// engine beside it on the same handle did not. The data is locked.
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

// concerns says whether others may want to know what a group has made of a run.
func (tx *transaction) concerns(r *run) bool {
	return !r.isOpen() || r.hasMail() || r.isFree() && !r.head.Wake.After(tx.group.Now)
}

// Lanes is [store.Parallel]: it gains nothing by several commits at a time, but a store
// for many engines is there to show what they do on others that gain.
func (s *Store) Lanes() int {
	if s.data.lease > 0 {
		return 2
	}
	return 1
}

package sqlite

import "sync"

// A notice notifies all waiters that something has happened.
type notice struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next call of tell; nil while nobody waits
}

// next returns a channel that the next call of tell closes.
func (n *notice) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// tell notifies all waiters.
func (n *notice) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

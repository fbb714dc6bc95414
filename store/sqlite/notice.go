package sqlite

import "sync"

// A notice tells everybody who waits that something has happened.
type notice struct {
	mu sync.Mutex
	ch chan struct{} // closed when it happens next; nil while nobody waits
}

// next gives a channel that is closed when it happens next.
func (n *notice) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// tell says that it has happened.
func (n *notice) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

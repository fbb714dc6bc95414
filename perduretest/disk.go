package perduretest

import (
	"context"
	"time"

	"github.com/perdure/perdure/store"
)

// A disk is what one process sees of the store: all of it, until it dies.
type disk struct {
	store.Store
	env  *Env
	dead chan struct{} // closed when the process has died
}

// Watch is [store.Watcher]. Nobody else writes; it is how an engine that waits
// hears that it is dead.
func (d *disk) Watch(ctx context.Context, f func()) {
	select {
	case <-d.dead:
		f()
	case <-ctx.Done():
	}
}

// Commit is [store.Store.Commit].
func (d *disk) Commit(ctx context.Context, g *store.Group) error {
	err := d.Store.Commit(ctx, g)
	if err == nil && d.env.committed(d) {
		return store.ErrClosed
	}
	return err
}

// A crash is the death of a process by a plan.
type crash struct {
	after int // commits, of all engines together
	// the process never hears of the last one; else it does what it can without the store
	lost bool

	commits  int // that there were
	happened bool
}

// committed counts a commit. It says whether the process has died before it could
// hear of it.
func (e *Env) committed(d *disk) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.plan
	if c == nil {
		return false
	}
	p := e.now
	if c.commits++; c.commits != c.after || p.disk != d || p.next != nil {
		return false
	}
	c.happened = true
	e.die(p)
	go func() {
		time.Sleep(time.Nanosecond) // in virtual time: until everything waits
		e.succeed(p)
	}()
	return c.lost
}

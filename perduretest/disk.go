package perduretest

import (
	"context"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

var _ store.Transactor = (*disk)(nil)

// A disk is the store as one process sees it: complete until the process dies. In a transaction of
// the application it behaves as the store in memory does, which cannot roll back. So no crash is
// planned for a commit within a transaction: the crash would lose the writes of the application,
// and keep the entry about them.
type disk struct {
	*memory.Store
	env  *Env
	dead chan struct{} // closed when the process has died
}

// Watch is [store.Watcher]: transactions write beside the engine. A waiting engine learns from it
// that its process is dead.
func (d *disk) Watch(ctx context.Context, f func()) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		select {
		case <-d.dead:
		case <-ctx.Done():
		}
	}()
	d.Store.Watch(ctx, func() {
		if !d.isLost() { // what a process still does without the store, it does
			f()
		}
	})
	f()
}

// isLost reports whether the process has lost its store.
func (d *disk) isLost() bool {
	d.env.mu.Lock()
	defer d.env.mu.Unlock()
	return d.env.db != d.Store
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
	after int // number of commits, of all engines together
	// If lost is set, the process never learns of the last commit. Otherwise it does what it can
	// without the store.
	lost bool

	commits  int // number of commits so far
	happened bool
}

// committed counts a commit. It reports whether the process died before it could learn of the
// commit.
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

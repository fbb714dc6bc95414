package sqlite

import (
	"errors"
	"sync"
	"time"
)

// maxReaders limits the connections for reading. A caller that needs one more waits.
const maxReaders = 16

// A pool has the connections for reading. Each one sees the database as it was when its statement
// began, whatever is written meanwhile.
//
// One connection, the anchor, is never used, and it stays open until the store is closed. As long
// as any connection is open, nobody rebuilds the index of the log from the file. So a transaction
// whose sync failed, and which SQLite has rolled back, cannot come back to life from its remains in
// the log when the writer is opened anew.
type pool struct {
	path   string
	mode   string
	anchor *conn
	slots  chan struct{} // one for each connection in use

	mu   sync.Mutex
	idle []*conn
}

func newPool(path, mode string) *pool {
	return &pool{path: path, mode: mode, slots: make(chan struct{}, maxReaders)}
}

// dial opens a connection that cannot write.
func (p *pool) dial() (*conn, error) {
	c, err := dial(p.path, p.mode)
	if err != nil {
		return nil, explain(p.path, err)
	}
	for _, prepare := range []func(*conn) error{patience, identify, queryOnly} {
		if err := prepare(c); err != nil {
			return nil, errors.Join(explain(p.path, err), c.close())
		}
	}
	return c, nil
}

func queryOnly(c *conn) error { return c.script("pragma query_only = on") }

// use calls f with a connection. After an error the connection is not kept.
func (p *pool) use(f func(*conn) error) error {
	p.slots <- struct{}{}
	return p.with(f)
}

// reserve takes a place for with. It reports whether a place was free.
func (p *pool) reserve() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// pause calls f while no connection is in use. It does not call f if it waits for that longer than
// most.
func (p *pool) pause(most time.Duration, f func() error) error {
	late := time.NewTimer(most)
	defer late.Stop()
	taken := 0
	defer func() {
		for range taken {
			<-p.slots
		}
	}()
	for ; taken < maxReaders; taken++ {
		select {
		case p.slots <- struct{}{}:
		case <-late.C:
			return nil
		}
	}
	return f()
}

// with is use in a place that is already taken. It frees the place.
func (p *pool) with(f func(*conn) error) error {
	defer func() { <-p.slots }()
	c := p.get()
	if c == nil {
		var err error
		if c, err = p.dial(); err != nil {
			return err
		}
	}
	err := f(c)
	if code(err) != 0 {
		return errors.Join(err, c.close())
	}
	p.put(c)
	return err
}

func (p *pool) get() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// close closes the connections, which nobody uses any more.
func (p *pool) close() error {
	var errs []error
	for _, c := range append(p.idle, p.anchor) {
		errs = append(errs, c.close())
	}
	p.idle = nil
	return errors.Join(errs...)
}

package kernel

import (
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A group may need a lock that a transaction of the user's holds as long as it is open: on a run
// that the transaction has sent to, or on a workflow ID. The store reports that after a moment, and
// the group is set aside. It is tried again in ever smaller parts, beside the groups that follow,
// until only those changes wait that need the lock. A source with changes aside is in no other
// group before it has the verdict on them.

// asideParts is the number of parts that a held group is taken apart into.
const asideParts = 16

// An asideList has the changes that wait for transactions of others. The pipeline's mu guards it.
type asideList struct {
	parts  []batch         // one is tried after the other
	of     map[source]bool // the sources of the changes that wait, or are being tried
	later  []source        // those sources, if they were pushed meanwhile
	trying bool            // a goroutine tries parts
}

// parts takes a batch apart.
func (b batch) parts() (all []batch) {
	for n := (len(b.sources) + asideParts - 1) / asideParts; len(b.sources) > n; {
		var one batch
		one, b = b.split(n)
		all = append(all, one)
	}
	return append(all, b)
}

// held reports whether a group has to wait for a transaction of the user's.
func held(err error) bool { return errors.Is(err, store.ErrHeld) }

// setAside makes a batch be tried again beside the groups that follow.
func (p *pipeline) setAside(b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.aside
	if a.of == nil {
		a.of = map[source]bool{}
	}
	for _, s := range b.sources {
		a.of[s] = true
	}
	a.parts = append(a.parts, b.parts()...)
	if !a.trying {
		a.trying = true
		p.trials.Go(p.tryAside)
	}
}

// tryAside tries one part after the other until none is left.
func (p *pipeline) tryAside() {
	for {
		p.mu.Lock()
		if len(p.aside.parts) == 0 {
			p.aside.trying = false
			p.mu.Unlock()
			return
		}
		b := p.aside.parts[0]
		p.aside.parts = slices.Delete(p.aside.parts, 0, 1)
		p.mu.Unlock()
		resent, err := p.put(b)
		if held(err) || len(b.sources) > 1 && refusal(err) {
			p.setAside(b)
			continue
		}
		p.telling.Add(1)
		p.told <- verdict{b, err, resent, nil}
		p.release(b.sources)
	}
}

// release lets sources be in groups again: the verdict on their changes aside is on its way to
// them, ahead of any other.
func (p *pipeline) release(done []source) {
	p.mu.Lock()
	for _, s := range done {
		delete(p.aside.of, s)
	}
	later := p.aside.later
	p.aside.later = nil
	p.mu.Unlock()
	for _, s := range later {
		p.push(s)
	}
}

// pushed adds the sources that were pushed and may be in a group. It is called with the lock.
func (p *pipeline) pushed(work []source) []source {
	for _, s := range p.dirty {
		if p.aside.of[s] {
			p.aside.later = append(p.aside.later, s)
		} else {
			work = append(work, s)
		}
	}
	clear(p.dirty)
	p.dirty = p.dirty[:0]
	return work
}

// put commits a batch, and notifies observers how long that took. It reports whether it sent the
// batch more than once.
func (p *pipeline) put(b batch) (resent bool, err error) {
	if len(b.sources) == 0 {
		return false, nil
	}
	began, rows := time.Now(), 0
	for i := range b.changes {
		rows += len(b.changes[i].Entries)
	}
	g := &store.Group{Changes: b.changes}
	err = p.commit(g)
	if err == nil && rows > 0 {
		p.observe(observe.Notice{
			Kind: observe.Committed, Took: time.Since(began), Rows: rows,
		})
	}
	return g.Again, err
}

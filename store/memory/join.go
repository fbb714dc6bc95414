package memory

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func (s *Store) join(c store.Claim) (store.Claimed, error) {
	d := s.data
	if d.holder != nil {
		has := d.engines[d.holder.engine]
		return store.Claimed{}, fmt.Errorf("%w: process %d on %s, since %s",
			store.ErrLocked, has.PID, has.Host, has.Since.Format(time.RFC3339))
	}
	clear(d.engines)
	d.putBack(c.Now)
	for _, r := range d.byNumber {
		if r.isOpen() && r.head.Owner != 0 {
			r.countCrash()
			d.release(r, c.Now)
		}
	}
	all := map[journal.Number]bool{}
	for id := range d.spilled {
		all[id] = true
	}
	d.sweep(all)
	d.joined++
	self := c.Self
	self.ID, self.Since = d.joined, stored(self.Since)
	d.engines[self.ID] = self
	d.holder, s.engine = s, self.ID
	return store.Claimed{Engine: self.ID}, nil
}

// countCrash counts one more crash against a run that was executing, the first
// one if it has recorded anything since the last.
func (r *run) countCrash() {
	if r.head.Status != journal.Running && !r.claimed {
		return
	}
	if r.last() > r.seen {
		r.head.Crashes = 0
	}
	r.head.Crashes++
	r.seen = r.last()
}

// tick notes what the clock said.
func (d *data) tick(now time.Time) {
	if now.After(d.clock) {
		d.clock = now
	}
}

// putBack makes due what was due by a clock that has been put back.
func (d *data) putBack(now time.Time) {
	if !now.Before(d.clock) {
		return
	}
	for _, r := range d.byNumber {
		if r.isFree() && r.head.Wake.After(now) && !r.head.Wake.After(d.clock) {
			r.head.Wake = stored(now)
			d.offer(r)
		}
	}
	d.clock = now
}

func (s *Store) quit(c store.Claim) store.Claimed {
	d := s.data
	d.tick(c.Now)
	for _, r := range d.byNumber {
		if r.isOpen() && r.head.Owner == c.Engine {
			d.release(r, c.Now)
		}
	}
	delete(d.engines, c.Engine)
	d.holder = nil
	return store.Claimed{Engine: c.Engine}
}

// release takes a run from its engine.
func (d *data) release(r *run, now time.Time) {
	r.head.Owner, r.head.Wake = 0, stored(now)
	d.offer(r)
}

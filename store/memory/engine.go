package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func (s *Store) join(c store.Join) (store.Claimed, error) {
	d := s.data
	if d.holder != nil {
		return store.Claimed{}, d.locked()
	}
	out := s.takeOver(c.Now)
	d.putBack(c.Now)
	d.sweepAll()
	d.joined++
	self := c.Self
	self.ID, self.Since, self.Seen = d.joined, stored(self.Since), stored(c.Now)
	self.Workflows = slices.Clone(self.Workflows)
	d.engines[self.ID] = self
	if d.lease == 0 {
		d.holder = s
	}
	d.lend(self.ID, d.lease, &out)
	return out, nil
}

// locked returns the error for a store that another engine holds. It names the process of the
// engine.
func (d *data) locked() error {
	for _, has := range d.engines {
		return fmt.Errorf("%w: process %d on %s, since %s", store.ErrLocked, has.PID, has.Host,
			has.Since.Format(time.RFC3339))
	}
	return store.ErrLocked
}

// renew starts an engine's lease anew, and records what it says of itself.
func (s *Store) renew(c store.Renew) store.Claimed {
	var out store.Claimed
	self := s.data.engines[c.Engine]
	self.Seen, self.Drain, self.Loops = stored(c.Now), c.Drain, slices.Clone(c.Loops)
	self.Drain.Until = stored(self.Drain.Until)
	if c.Workflows != nil {
		self.Workflows = slices.Clone(c.Workflows)
	}
	s.data.engines[c.Engine] = self
	lease := s.data.lease
	if c.Idle && s.data.isIdle(c.Engine) {
		lease *= store.IdleLeases
	}
	s.data.lend(c.Engine, lease, &out)
	if s.data.lease > 0 {
		dead := s.takeOver(c.Now)
		out.Expired, out.Freed = dead.Expired, dead.Freed
	}
	return out
}

// isIdle reports whether an engine has nothing that other engines would have to take over.
func (d *data) isIdle(id journal.EngineID) bool {
	for _, r := range d.byNumber {
		if r.head.Owner == id && r.isOpen() {
			return false
		}
	}
	for _, o := range d.outbox {
		if o.dispatcher == id {
			return false
		}
	}
	return true
}

// shorten cuts the lease of an engine that has become an owner down to the usual length.
func (d *data) shorten(id journal.EngineID, out *store.Claimed) {
	out.Lease = d.lease
	self := d.engines[id]
	if end := stored(time.Now().Add(d.lease)); d.lease > 0 && self.Until.After(end) {
		self.Until = end
		d.engines[id] = self
	}
}

// lend starts an engine's lease now, if the store has leases.
func (d *data) lend(id journal.EngineID, lease time.Duration, out *store.Claimed) {
	out.Engine, out.Lease = id, lease
	if d.lease == 0 {
		return
	}
	now := time.Now()
	self := d.engines[id]
	self.Seen, self.Until = stored(now), stored(now.Add(lease))
	d.engines[id] = self
	for other, e := range d.engines {
		lapse := e.Until.Sub(now)
		if other != id && lapse > 0 && (out.Lapse == 0 || lapse < out.Lapse) {
			out.Lapse = lapse
		}
	}
}

// isDead reports whether an engine has expired, so that other engines take over its runs.
func (d *data) isDead(e *store.Engine) bool {
	if d.lease == 0 {
		return d.holder == nil
	}
	return !e.Until.After(time.Now())
}

// takeOver removes the rows of expired engines and releases their runs.
func (s *Store) takeOver(now time.Time) store.Claimed {
	d := s.data
	var out store.Claimed
	dead := map[journal.EngineID]bool{}
	for id, e := range d.engines {
		if d.isDead(&e) {
			dead[id] = true
			delete(d.engines, id)
			out.Expired++
		}
	}
	for _, r := range d.byNumber {
		if o := r.head.Owner; r.isOpen() && o != 0 && (dead[o] || d.lease == 0) {
			r.countCrash()
			d.release(r, now)
			out.Freed++
		}
	}
	if out.Expired > 0 {
		s.tell(false)
	}
	return out
}

// sweepAll removes the payloads that nothing names, unless an engine that is still there made them.
func (d *data) sweepAll() {
	all := map[journal.Number]bool{}
	for id := range d.spilled {
		if _, lives := d.engines[id.Engine()]; !lives {
			all[id] = true
		}
	}
	d.sweep(all)
}

// Lapse ends the lease of an engine now, as if the engine had not renewed it in time. It does
// nothing if there is no such engine. It is for tests.
func (s *Store) Lapse(engine journal.EngineID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if e, ok := s.data.engines[engine]; ok {
		e.Until = stored(time.Now())
		s.data.engines[engine] = e
	}
	return nil
}

// countCrash counts one more crash of a run that was executing. It counts from 1 again if the run
// has recorded anything but output since its last crash.
func (r *run) countCrash() {
	if r.head.Status != journal.Running && !r.claimed {
		return
	}
	if r.lastProgress() > r.seen {
		r.head.Crashes = 0
	}
	r.head.Crashes++
	r.seen = r.lastProgress()
}

// tick records the time now if it is later than the recorded one.
func (d *data) tick(now time.Time) {
	if now.After(d.clock) {
		d.clock = now
	}
}

// putBack is for a clock that has been put back. It makes the runs due now that were due by the
// clock before.
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

func (s *Store) quit(c store.Leave) store.Claimed {
	d := s.data
	d.tick(c.Now)
	for _, r := range d.byNumber {
		if r.isOpen() && r.head.Owner == c.Engine {
			d.release(r, c.Now)
		}
	}
	delete(d.engines, c.Engine)
	d.holder = nil
	s.tell(false)
	return store.Claimed{Engine: c.Engine}
}

// release takes a run from its engine and makes it due.
func (d *data) release(r *run, now time.Time) {
	r.head.Owner, r.head.Wake = 0, stored(now)
	d.offer(r)
}

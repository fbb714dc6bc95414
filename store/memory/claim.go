package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// claimBytes bounds the journals that come with one claim.
const claimBytes = 32 << 20

// Claim joins an engine, gives it runs, or takes it off.
func (s *Store) Claim(_ context.Context, c store.Claim) (store.Claimed, error) {
	if err := s.enter(); err != nil {
		return store.Claimed{}, err
	}
	defer s.leave()
	if c.Engine == 0 {
		return s.join(c)
	}
	if err := s.data.fence(c.Engine); err != nil {
		return store.Claimed{}, err
	}
	switch {
	case c.Leave:
		return s.quit(c), nil
	case c.Run != 0:
		return s.data.one(c), nil
	}
	return s.data.take(c), nil
}

func (s *Store) join(c store.Claim) (store.Claimed, error) {
	d := s.data
	if d.holder != nil {
		has := d.engines[d.joined]
		return store.Claimed{}, fmt.Errorf("%w: process %d on %s, since %s",
			store.ErrLocked, has.PID, has.Host, has.Since.Format(time.RFC3339))
	}
	clear(d.engines)
	for _, r := range d.byNumber {
		if r.isOpen() && r.head.Owner != 0 {
			r.countCrash()
			d.release(r, c.Now)
		}
	}
	d.sweep()
	d.joined++
	self := c.Self
	self.ID, self.Since = d.joined, stored(self.Since)
	d.engines[self.ID] = self
	d.holder = s
	return store.Claimed{Engine: self.ID}, nil
}

// countCrash counts one more crash against a run that was executing code, the
// first one if it has recorded anything since the last.
func (r *run) countCrash() {
	if r.head.Status != journal.Running {
		return
	}
	if r.last() > r.seen {
		r.head.Crashes = 0
	}
	r.head.Crashes++
	r.seen = r.last()
}

// sweep removes payloads that no entry names.
func (d *data) sweep() {
	named := map[journal.Number]bool{}
	for _, r := range d.byNumber {
		for i := range r.rows {
			named[r.rows[i].entry.Spill] = true
		}
	}
	for id := range d.spilled {
		if !named[id] {
			delete(d.spilled, id)
		}
	}
}

func (s *Store) quit(c store.Claim) store.Claimed {
	d := s.data
	for _, r := range d.byNumber {
		if r.isOpen() && r.head.Owner == c.Engine {
			d.release(r, c.Now)
		}
	}
	delete(d.engines, c.Engine)
	d.holder = nil
	return store.Claimed{Engine: c.Engine}
}

func (d *data) release(r *run, now time.Time) {
	r.head.Owner, r.head.Wake = 0, stored(now)
	d.offer(r)
}

func (d *data) one(c store.Claim) store.Claimed {
	out := store.Claimed{Engine: c.Engine}
	if r := d.runs[c.Run]; r != nil && r.isOpen() && (r.head.Owner == 0 || r.head.Owner == c.Engine) {
		r.head.Owner = c.Engine
		out.Runs = append(out.Runs, r.claimed())
	}
	return out
}

func (d *data) take(c store.Claim) store.Claimed {
	out := store.Claimed{Engine: c.Engine}
	size := 0
	next := d.first(c.Workflows)
	for ; next != nil && !next.head.Wake.After(c.Now); next = d.first(c.Workflows) {
		if len(out.Runs) == c.Max || size >= claimBytes {
			out.More = true
			break
		}
		next.head.Owner = c.Engine
		got := next.claimed()
		for i := range got.Entries {
			size += got.Entries[i].Size()
		}
		out.Runs = append(out.Runs, got)
	}
	if next != nil {
		out.Next = next.head.Wake
	}
	return out
}

// claimed gives the run as a claim does.
func (r *run) claimed() store.Run {
	out := store.Run{Head: r.head, Last: r.last()}
	if !r.head.Status.Valid() {
		out.Err = &journal.CorruptError{Run: r.head.Number, Reason: "unknown status " + r.head.Status.String()}
		return out
	}
	out.Entries = make([]journal.Entry, 0, len(r.rows))
	for _, row := range r.rows {
		e, err := row.read()
		if err != nil {
			out.Err = err
			return out
		}
		out.Entries = append(out.Entries, e)
	}
	return out
}

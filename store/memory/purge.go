package memory

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Purge removes expired runs and messages, a bounded number of rows at a time.
func (s *Store) Purge(_ context.Context, p store.Purge) (store.Purged, error) {
	if err := s.enter(); err != nil {
		return store.Purged{}, err
	}
	defer s.leave()
	if p.Engine != 0 {
		if err := s.data.fence(p.Engine); err != nil {
			return store.Purged{}, err
		}
	}
	return s.data.purge(p), nil
}

// A purging is the state of one purge.
type purging struct {
	*data
	store.Purged
	left     int                     // how many more rows may be removed
	bytes    int                     // removed bytes of payloads
	payloads map[journal.Number]bool // spilled payloads that the removed rows named
}

func (d *data) purge(p store.Purge) store.Purged {
	g := purging{data: d, left: p.Rows(), payloads: map[journal.Number]bool{}}
	if g.More = d.say(p.Unsaid, p.Rows()); g.More {
		return g.Purged
	}
	if g.More = len(d.gone) > 0; !g.More {
		g.vanish(p.Now, p.Heads())
	}
	for len(d.gone) > 0 && g.clear(d.gone[0]) {
		d.gone = d.gone[1:]
	}
	g.More = g.More || len(d.gone) > 0
	g.expire(p.Now)
	g.Rows += d.sweep(g.payloads)
	return g.Purged
}

// say sets the retention of ended runs that have none, for at most that many runs. It reports
// whether there were any.
func (d *data) say(unsaid map[string]journal.Retention, most int) bool {
	said := 0
	for _, r := range d.byNumber {
		if own := unsaid[r.head.Workflow]; own != "" && !r.isOpen() && r.head.Retain == "" &&
			said < most {
			r.head.Retain = own
			said++
		}
	}
	return said > 0
}

// vanish removes the heads of runs that have expired, in the order in which they expired.
func (g *purging) vanish(now time.Time, most int) {
	outbox := g.undelivered()
	var over []*run
	for _, r := range g.byNumber {
		if at := r.head.Expires(); !at.IsZero() && !at.After(now) && !outbox[r] && !g.goesOn(r) {
			over = append(over, r)
		}
	}
	slices.SortStableFunc(over, func(a, b *run) int {
		return a.head.Expires().Compare(b.head.Expires())
	})
	if len(over) > most {
		over, g.More = over[:most], true
	}
	for _, r := range over {
		g.remove(r)
		g.spend(1, 0)
	}
	g.gone = append(g.gone, over...)
	g.Runs = len(over)
}

// spend counts rows as removed.
func (g *purging) spend(rows, bytes int) {
	g.left, g.bytes, g.Rows = g.left-rows, g.bytes+bytes, g.Rows+rows
}

// spendEntry counts a row as removed, together with the spilled payload that it names. It reports
// whether the purge has room for both.
func (g *purging) spendEntry(e *journal.Entry) bool {
	rows, bytes := 1, len(e.Data)
	if e.Spill != 0 {
		rows, bytes = 2, len(g.spilled[e.Spill])
	}
	if rows > g.left && g.Rows > 0 || g.left <= 0 || g.bytes >= store.PurgeBytes {
		return false
	}
	g.spend(1, bytes)
	if e.Spill != 0 {
		g.left--
		g.payloads[e.Spill] = true
	}
	return true
}

// clear removes the rows of a run whose head was removed. It reports whether it has removed all.
func (g *purging) clear(r *run) bool {
	for len(r.rows) > 0 {
		if !g.spendEntry(&r.rows[0].entry) {
			return false
		}
		r.rows = r.rows[1:]
	}
	for _, messages := range []*[]*message{&r.taken, &r.inbox} {
		for len(*messages) > 0 {
			if m := (*messages)[0]; m.taker == nil || messages == &r.taken {
				if !g.spendEntry(&m.row.entry) {
					return false
				}
				delete(g.known, r.sent(m.id))
			}
			*messages = (*messages)[1:]
		}
	}
	for name := range r.attributes {
		if g.left <= 0 {
			return false
		}
		g.spend(1, 0)
		delete(r.attributes, name)
	}
	return true
}

// expire removes unrouted messages that have expired.
func (g *purging) expire(now time.Time) {
	for _, u := range g.allUnrouted() {
		if u.waits(now) {
			continue
		}
		if !g.spendEntry(&u.row.entry) {
			g.More = true
			return
		}
		g.setWaiting(u.workflowID, without(g.waiting[u.workflowID], u))
		g.Unrouted++
	}
}

// payloads adds the numbers of the spilled payloads that the run names to named.
func (r *run) payloads(named map[journal.Number]bool) {
	for i := range r.rows {
		named[r.rows[i].entry.Spill] = true
	}
	for _, m := range r.inbox {
		named[m.row.entry.Spill] = true
	}
}

// sweep removes those of the payloads that nothing names, and returns how many it removed.
func (d *data) sweep(some map[journal.Number]bool) int {
	delete(some, 0)
	if len(some) == 0 {
		return 0
	}
	named := map[journal.Number]bool{}
	for _, r := range slices.Concat(d.byNumber, d.gone) {
		r.payloads(named)
	}
	for _, u := range d.allUnrouted() {
		named[u.row.entry.Spill] = true
	}
	before := len(d.spilled)
	for id := range some {
		if !named[id] {
			delete(d.spilled, id)
		}
	}
	return before - len(d.spilled)
}

// goesOn reports whether an ended run is needed by the open run of its chain. The first run is
// needed because it names the chain. A run that has not continued as new is needed because messages
// for it follow to the run that retries it.
func (d *data) goesOn(r *run) bool {
	next := d.open(r.head.WorkflowID)
	if next == nil || next.head.Chain == 0 {
		return false
	}
	return next.head.Chain == r.head.Number || next.head.Chain == r.head.Chain &&
		r.head.Status != journal.ContinuedAsNew
}

package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// purgePage is how many runs go at a time where the purge does not say.
const purgePage = 100

// Purge removes what is kept no longer.
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

func (d *data) purge(p store.Purge) store.Purged {
	var out store.Purged
	payloads := map[journal.Number]bool{} // of what is removed
	for _, u := range d.allUnrouted() {
		if !u.waits(p.Now) {
			d.setWaiting(u.workflowID, without(d.waiting[u.workflowID], u))
			payloads[u.row.entry.Spill] = true
			out.Unrouted++
		}
	}
	gone, more := d.purgeable(p)
	for _, r := range gone {
		d.remove(r)
		for _, m := range r.messages {
			delete(d.known, r.sent(m.id))
		}
		r.payloads(payloads)
	}
	out.Runs, out.More = len(gone), more
	d.sweep(payloads)
	return out
}

// purgeable gives the runs that go now, and whether there are more.
func (d *data) purgeable(p store.Purge) (gone []*run, more bool) {
	owing := d.owing()
	for _, r := range d.byNumber {
		if r.isOpen() || owing[r] || r.stands(p.Now) || d.goesOn(r) || !isNamed(p.Rules, &r.head) {
			continue
		}
		if len(gone) == cmp.Or(p.Limit, purgePage) {
			return gone, true
		}
		gone = append(gone, r)
	}
	return gone, false
}

// payloads adds the spilled payloads that the run names.
func (r *run) payloads(named map[journal.Number]bool) {
	for i := range r.rows {
		named[r.rows[i].entry.Spill] = true
	}
	for _, m := range r.messages {
		named[m.row.entry.Spill] = true
	}
}

// sweep removes those payloads that nothing names.
func (d *data) sweep(some map[journal.Number]bool) {
	delete(some, 0)
	if len(some) == 0 {
		return
	}
	named := map[journal.Number]bool{}
	for _, r := range d.byNumber {
		r.payloads(named)
	}
	for _, u := range d.allUnrouted() {
		named[u.row.entry.Spill] = true
	}
	for id := range some {
		if !named[id] {
			delete(d.spilled, id)
		}
	}
}

// stands says whether an ended run stands for its workflow ID still.
func (r *run) stands(now time.Time) bool {
	return r.head.Keep > 0 && !r.head.Ended.Add(r.head.Keep).Before(now)
}

// goesOn says whether an ended run is the first of a chain that has an open run.
func (d *data) goesOn(r *run) bool {
	next := d.open(r.head.WorkflowID)
	return next != nil && next.head.Chain == r.head.Number
}

// isNamed says whether a rule names the ended run.
func isNamed(rules []store.Rule, h *journal.Head) bool {
	own := slices.ContainsFunc(rules, func(r store.Rule) bool { return r.Workflow == h.Workflow })
	return slices.ContainsFunc(rules, func(r store.Rule) bool {
		fits := r.Workflow == h.Workflow || r.Workflow == "" && !own
		return fits && (len(r.Statuses) == 0 || slices.Contains(r.Statuses, h.Status)) && !h.Ended.After(r.Before)
	})
}

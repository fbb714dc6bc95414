package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An unrouted message waits for a run of its workflow ID.
type unrouted struct {
	message
	workflowID string
	until      time.Time
}

// waits says whether the message has not expired.
func (u *unrouted) waits(now time.Time) bool { return u.until.After(now) }

// read gives the message as it is listed.
func (u *unrouted) read() (journal.Entry, error) {
	e, err := u.message.read(0)
	if err != nil {
		return e, err
	}
	if e.Detail == nil {
		e.Detail = &journal.Detail{}
	}
	e.Detail.To, e.Detail.Due = u.workflowID, u.until
	return e, nil
}

// judge says what is to become of a message, with its receiver, and where the
// receiver has it already, its number there. Of a message to be moved the number
// is the one among the unrouted, zero where there is none.
func (d *data) judge(p *store.Post, now time.Time) (store.Verdict, *run, int64) {
	id := messageID(p.Message.Detail)
	r := d.receiver(p)
	if p.Unrouted != 0 {
		u := d.unroutedOf(p.Unrouted)
		if u == nil {
			return store.Nobody, r, 0
		}
		id = u.id
	}
	if p.Run == 0 {
		if r = d.open(p.WorkflowID); r == nil {
			return d.judgeUnrouted(p, id, now)
		}
	}
	switch m := d.knows(r, id); {
	case r == nil:
		return store.Nobody, nil, p.Unrouted
	case m != nil:
		return store.Duplicate, r, m.number
	case !r.isOpen():
		return store.Closed, r, p.Unrouted
	}
	return store.Delivered, r, p.Unrouted
}

// receiver returns the run of the number that a message is for, or the open one of its
// chain that the message follows to; nil for none.
func (d *data) receiver(p *store.Post) *run {
	r := d.runs[p.Run]
	if r == nil || r.isOpen() || !p.Follow.Leads(r.head.Status) {
		return r
	}
	if next := d.open(r.head.WorkflowID); next != nil && next.head.Chain == r.head.Chain {
		return next
	}
	return r
}

// judgeUnrouted judges a message for a workflow ID that no open run has.
func (d *data) judgeUnrouted(p *store.Post, id string, now time.Time) (store.Verdict, *run, int64) {
	newest := d.newest(p.WorkflowID)
	if m := d.knows(newest, id); m != nil {
		return store.Duplicate, newest, m.number
	}
	for _, u := range d.waiting[p.WorkflowID] {
		if id != "" && u.id == id && u.waits(now) {
			return store.Duplicate, nil, u.number
		}
	}
	if p.Until.IsZero() {
		return store.Nobody, nil, 0
	}
	return store.Unrouted, nil, 0
}

// keep keeps a message that found no run, and gives its number.
func (tx *transaction) keep(p *store.Post, row row) int64 {
	d := tx.data
	d.unrouted++
	u := &unrouted{workflowID: p.WorkflowID, until: stored(p.Until)}
	u.number, u.id, u.sent, u.row = d.unrouted, messageID(p.Message.Detail), row.entry.At, row
	before := d.waiting[p.WorkflowID]
	d.waiting[p.WorkflowID] = append(slices.Clip(before), u)
	tx.undo = append(tx.undo, func() {
		d.unrouted--
		d.setWaiting(p.WorkflowID, before)
	})
	return u.number
}

// reroute moves an unrouted message as it was judged, and gives its number in
// the inbox.
func (tx *transaction) reroute(p *store.Post, verdict store.Verdict, r *run) int64 {
	u := tx.data.unroutedOf(p.Unrouted)
	switch verdict {
	case store.Delivered:
		tx.drop(u)
		return tx.deliver(r, u.id, u.row, p.Force)
	case store.Duplicate:
		tx.drop(u)
	}
	return 0
}

// route delivers the messages that waited for a new run's workflow ID.
func (tx *transaction) route(r *run) {
	for _, u := range tx.data.waiting[r.head.WorkflowID] {
		if !u.waits(tx.group.Now) {
			continue
		}
		tx.drop(u)
		if tx.data.knows(r, u.id) == nil {
			tx.deliver(r, u.id, u.row, false)
		}
	}
}

// drop removes an unrouted message.
func (tx *transaction) drop(u *unrouted) {
	d := tx.data
	before := d.waiting[u.workflowID]
	d.setWaiting(u.workflowID, without(before, u))
	tx.undo = append(tx.undo, func() { d.setWaiting(u.workflowID, before) })
}

func without(all []*unrouted, u *unrouted) []*unrouted {
	return slices.DeleteFunc(slices.Clone(all), func(v *unrouted) bool { return v == u })
}

func (d *data) setWaiting(workflowID string, waiting []*unrouted) {
	if d.waiting[workflowID] = waiting; len(waiting) == 0 {
		delete(d.waiting, workflowID)
	}
}

// allUnrouted gives the messages that found no run by number.
func (d *data) allUnrouted() []*unrouted {
	var all []*unrouted
	for _, waiting := range d.waiting {
		all = append(all, waiting...)
	}
	slices.SortFunc(all, func(a, b *unrouted) int { return cmp.Compare(a.number, b.number) })
	return all
}

// unroutedOf gives the unrouted message of that number; nil for none.
func (d *data) unroutedOf(number int64) *unrouted {
	for _, waiting := range d.waiting {
		for _, u := range waiting {
			if u.number == number {
				return u
			}
		}
	}
	return nil
}

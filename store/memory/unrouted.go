package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An unrouted is a message that waits for a run with its workflow ID.
type unrouted struct {
	message
	workflowID string
	until      time.Time
}

// waits reports whether the message has not expired.
func (u *unrouted) waits(now time.Time) bool { return u.until.After(now) }

// read returns the message as it appears in lists.
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

// judge returns the verdict on a message and its receiver. For a duplicate it also returns the
// number of the message that the receiver has. For an unrouted message that is to be moved it
// returns the number among the unrouted messages, or zero if there is no such message.
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

// receiver returns the run with the number that a message is for. If that run has ended and the
// message follows its chain, it returns the open run of the chain. It returns nil if there is no
// run.
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

// keep stores a message that found no run, and returns its number.
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

// reroute moves an unrouted message according to its verdict. It returns the number in the inbox.
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

// route delivers the messages that waited for the workflow ID of a new run.
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

// allUnrouted returns the unrouted messages in the order of their numbers.
func (d *data) allUnrouted() []*unrouted {
	var all []*unrouted
	for _, waiting := range d.waiting {
		all = append(all, waiting...)
	}
	slices.SortFunc(all, func(a, b *unrouted) int { return cmp.Compare(a.number, b.number) })
	return all
}

// unroutedOf returns the unrouted message with that number; nil if there is none.
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

package memory

import (
	"maps"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An outboxEntry is an entry of a journal that is not delivered yet.
type outboxEntry struct {
	run *run
	seq int64
	// dispatcher is the engine that delivers the entry, as long as it has a row.
	dispatcher journal.EngineID
}

// addToOutbox puts an entry into the outbox.
func (tx *transaction) addToOutbox(r *run, seq int64) {
	d := tx.data
	d.lastOutbox++
	number := d.lastOutbox
	d.outbox[number] = outboxEntry{run: r, seq: seq, dispatcher: tx.group.Engine}
	tx.undo = append(tx.undo, func() {
		delete(d.outbox, number)
		d.lastOutbox--
	})
}

// told removes an entry from the outbox, since it was delivered.
func (tx *transaction) told(number int64) {
	d := tx.data
	before, ok := d.outbox[number]
	if !ok {
		return
	}
	delete(d.outbox, number)
	tx.undo = append(tx.undo, func() { d.outbox[number] = before })
}

// takeOutbox returns entries of the outbox. It leaves out an entry that is not readable: the run
// is parked, and readers of its journal get the reason.
func (d *data) takeOutbox(c store.TakeOutbox) store.Claimed {
	out := store.Claimed{Engine: c.Engine}
	for _, number := range slices.Sorted(maps.Keys(d.outbox)) {
		o := d.outbox[number]
		_, lives := d.engines[o.dispatcher]
		if number <= c.After || lives && o.dispatcher != c.Engine ||
			!slices.Contains(c.Workflows, o.run.head.Workflow) {
			continue
		}
		if len(out.Outbox) == c.Limit {
			out.More = true
			break
		}
		o.dispatcher = c.Engine
		d.outbox[number] = o
		e, err := o.run.from(o.seq)[0].read()
		if err == nil {
			err = d.fill(&e)
		}
		if err == nil {
			out.Outbox = append(out.Outbox, store.OutboxEntry{
				Number: number, Head: o.run.head, Entry: e,
			})
		}
	}
	return out
}

// undelivered returns the runs that have entries in the outbox.
func (d *data) undelivered() map[*run]bool {
	runs := map[*run]bool{}
	for _, o := range d.outbox {
		runs[o.run] = true
	}
	return runs
}

// setAttributes applies an entry to the search attributes of the run.
func (r *run) setAttributes(e *journal.Entry) {
	switch {
	case e.Kind == journal.AttributeSet:
		r.attributes = maps.Clone(r.attributes)
		if e.Data == nil {
			delete(r.attributes, e.Op.Name)
			return
		}
		if r.attributes == nil {
			r.attributes = map[string]string{}
		}
		r.attributes[e.Op.Name] = string(e.Data)
	case e.Kind == journal.RunStarted && e.Detail != nil:
		r.attributes = maps.Clone(e.Detail.Attributes)
	}
}

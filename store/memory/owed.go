package memory

import (
	"maps"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An owed is an entry of the outbox: somebody is still to be told of it.
type owed struct {
	run *run
	seq int64
	// teller is the engine that is to tell of the entry, as long as it has a row.
	teller journal.EngineID
}

// owe puts an entry into the outbox.
func (tx *transaction) owe(r *run, seq int64) {
	d := tx.data
	d.lastOwed++
	number := d.lastOwed
	d.owed[number] = owed{run: r, seq: seq, teller: tx.group.Engine}
	tx.undo = append(tx.undo, func() {
		delete(d.owed, number)
		d.lastOwed--
	})
}

// told removes an entry from the outbox, since somebody was told of it.
func (tx *transaction) told(number int64) {
	d := tx.data
	before, ok := d.owed[number]
	if !ok {
		return
	}
	delete(d.owed, number)
	tx.undo = append(tx.undo, func() { d.owed[number] = before })
}

// outbox returns entries of the outbox. It leaves out an entry that is not readable: the run is
// parked, and readers of its journal get the reason.
func (d *data) outbox(c store.TakeOutbox) store.Claimed {
	out := store.Claimed{Engine: c.Engine}
	for _, number := range slices.Sorted(maps.Keys(d.owed)) {
		o := d.owed[number]
		_, told := d.engines[o.teller]
		if number <= c.After || told && o.teller != c.Engine ||
			!slices.Contains(c.Workflows, o.run.head.Workflow) {
			continue
		}
		if len(out.Outbox) == c.Limit {
			out.More = true
			break
		}
		o.teller = c.Engine
		d.owed[number] = o
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

// owing returns the runs that have entries in the outbox.
func (d *data) owing() map[*run]bool {
	runs := map[*run]bool{}
	for _, o := range d.owed {
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

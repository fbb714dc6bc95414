package memory

import (
	"context"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Load returns entries of one journal in order, or messages of one inbox. If a row is not readable
// or is missing, it returns the rows before it and a CorruptError.
func (s *Store) Load(_ context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	entries, err := s.data.load(n, r)
	if whole, missing := r.Whole(n, entries); missing != nil {
		return whole, missing
	}
	return entries, err
}

func (d *data) load(n journal.Number, r store.Range) ([]journal.Entry, error) {
	var entries []journal.Entry
	for _, read := range d.rangeOf(n, r) {
		e, err := read()
		if err == nil && r.Payloads {
			err = d.fill(&e)
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// A reader reads one stored row.
type reader func() (journal.Entry, error)

// rangeOf returns readers of the rows in a range.
func (d *data) rangeOf(n journal.Number, r store.Range) []reader {
	if r.Tail {
		r.From = 0
	}
	var all []reader
	run := d.runs[n]
	switch {
	case len(r.Ends) > 0:
		return d.ends(r.Ends)
	case r.Inbox && n == 0:
		for _, u := range d.allUnrouted() {
			if u.number >= r.From && u.row.isNamed(r.Name) {
				all = append(all, u.read)
			}
		}
		return page(all, r)
	case run == nil:
		return nil
	case r.Inbox:
		for m := range run.untaken(r.From - 1) {
			if m.row.isNamed(r.Name) {
				all = append(all, func() (journal.Entry, error) { return m.read(n) })
			}
			if len(all) == r.Limit && !r.Tail && r.Limit > 0 {
				break
			}
		}
		return page(all, r)
	}
	for _, row := range page(run.from(r.From), r) {
		all = append(all, row.read)
	}
	return all
}

// ends returns readers of the last entries of those runs that have ended.
func (d *data) ends(runs []journal.Number) []reader {
	var all []reader
	for _, n := range runs {
		r := d.runs[n]
		if r == nil || r.isOpen() {
			continue
		}
		for _, row := range r.from(r.head.Last)[:1] {
			all = append(all, row.read)
		}
	}
	return all
}

// page removes the elements that are beyond the limit of the range.
func page[E any](all []E, r store.Range) []E {
	switch {
	case r.Limit <= 0 || len(all) <= r.Limit:
		return all
	case r.Tail:
		return all[len(all)-r.Limit:]
	}
	return all[:r.Limit]
}

// isNamed reports whether the row has that name. The empty name matches every row.
func (r row) isNamed(name string) bool { return name == "" || r.entry.Op.Name == name }

// fill sets the payload of an entry if it was spilled.
func (d *data) fill(e *journal.Entry) error {
	if e.Spill == 0 {
		return nil
	}
	payload, ok := d.spilled[e.Spill]
	if !ok {
		return &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: "its payload is not there"}
	}
	e.Data = payload
	return nil
}

// Spill stores one large payload. The same payload may be sent again.
func (s *Store) Spill(_ context.Context, engine journal.EngineID, id journal.Number,
	payload []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.data.fence(engine); err != nil {
		return err
	}
	if payload == nil {
		payload = []byte{}
	}
	s.data.spilled[id] = payload
	return nil
}

package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Commit writes a group. It writes change by change and notes how to undo each,
// so that a group that is refused leaves no trace.
func (s *Store) Commit(_ context.Context, g *store.Group) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := g.Check(); err != nil {
		return err
	}
	if g.Engine != 0 {
		if err := s.data.fence(g.Engine); err != nil {
			return err
		}
	}
	tx := transaction{data: s.data, done: g.Again && s.data.hasGroup(g)}
	for i := range g.Changes {
		if err := tx.write(&g.Changes[i]); err != nil {
			tx.rollback()
			return &store.DataError{Err: err}
		}
	}
	for _, u := range tx.undo {
		s.data.offer(u.run)
	}
	return nil
}

// hasGroup says whether the group was committed before: one thing of it that is
// there proves that all of it is.
func (d *data) hasGroup(g *store.Group) bool {
	for i := range g.Changes {
		c := &g.Changes[i]
		r := d.runs[c.Run]
		if r == nil {
			continue
		}
		if c.Create || len(c.Entries) > 0 && c.Entries[0].Seq <= r.last() {
			return true
		}
	}
	return false
}

// A transaction is a group while it is written.
type transaction struct {
	data *data
	done bool // the group was committed before
	undo []undo
}

// An undo has a run as it was before its change.
type undo struct {
	run     *run
	head    journal.Head
	rows    int
	created bool
}

func (tx *transaction) write(c *store.Change) error {
	r := tx.data.runs[c.Run]
	switch {
	case tx.done && r != nil:
		c.Verdict, c.Found = store.Written, journal.Head{}
		return nil
	case c.Create && r != nil:
		return fmt.Errorf("run %d is there already", c.Run)
	case c.Create:
		return tx.create(c)
	case r == nil:
		return fmt.Errorf("there is no run %d", c.Run)
	}
	tx.undo = append(tx.undo, undo{run: r, head: r.head, rows: len(r.rows)})
	if err := r.add(c.Entries); err != nil {
		return err
	}
	if c.Head != nil {
		h := storedHead(*c.Head)
		r.head.Status, r.head.Owner, r.head.Wake = h.Status, h.Owner, h.Wake
		r.head.Ended, r.head.Last, r.head.Cause = h.Ended, h.Last, h.Cause
	}
	return nil
}

func (tx *transaction) create(c *store.Change) error {
	d := tx.data
	if n, ok := c.Head.ID.Number(d.database); !ok || n != c.Run {
		return fmt.Errorf("%q is not the ID of run %d in this database", c.Head.ID, c.Run)
	}
	if found := d.holds(c.Head, c.Since); found != nil {
		c.Verdict, c.Found = store.Exists, found.head
		if found.head.Workflow != c.Head.Workflow {
			c.Verdict = store.Taken
		}
		return nil
	}
	c.Verdict, c.Found = store.Written, journal.Head{}
	r := &run{head: storedHead(*c.Head)}
	d.insert(r)
	tx.undo = append(tx.undo, undo{run: r, created: true})
	return r.add(c.Entries)
}

// holds gives the run that the workflow ID of a new one stands for: the open
// one, else the one of the same workflow that ended last, at since or later.
func (d *data) holds(h *journal.Head, since time.Time) *run {
	var recent *run
	for _, r := range d.byID[h.WorkflowID] {
		if r.isOpen() {
			return r
		}
		if since.IsZero() || r.head.Workflow != h.Workflow || r.head.Ended.Before(since) {
			continue
		}
		if recent == nil || !r.head.Ended.Before(recent.head.Ended) {
			recent = r
		}
	}
	return recent
}

// add appends entries to the journal.
func (r *run) add(entries []journal.Entry) error {
	for i := range entries {
		e := &entries[i]
		if e.Seq <= r.last() {
			return fmt.Errorf("entry %d of run %d is there already", e.Seq, e.Run)
		}
		row, err := newRow(*e)
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
	}
	return nil
}

func (tx *transaction) rollback() {
	for _, u := range slices.Backward(tx.undo) {
		if u.created {
			tx.data.remove(u.run)
			continue
		}
		u.run.head, u.run.rows = u.head, u.run.rows[:u.rows]
	}
}

func (d *data) insert(r *run) {
	d.runs[r.head.Number] = r
	d.byID[r.head.WorkflowID] = append(d.byID[r.head.WorkflowID], r)
	d.byNumber = slices.Insert(d.byNumber, d.position(r.head.Number), r)
}

// remove takes back an insert.
func (d *data) remove(r *run) {
	delete(d.runs, r.head.Number)
	id, i := r.head.WorkflowID, d.position(r.head.Number)
	d.byID[id] = d.byID[id][:len(d.byID[id])-1]
	d.byNumber = slices.Delete(d.byNumber, i, i+1)
}

// position is where a number is in byNumber, or would be.
func (d *data) position(n journal.Number) int {
	i, _ := slices.BinarySearchFunc(d.byNumber, n, func(r *run, n journal.Number) int {
		return cmp.Compare(r.head.Number, n)
	})
	return i
}

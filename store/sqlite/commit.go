package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements of a commit. An open run that has the workflow ID already makes
// the insertion of a new head do nothing, so nothing is read before it.
const (
	insertHead = `insert into heads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, seen)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) on conflict (workflow_id) where ended is null do nothing`

	updateHead = `update heads set status = ?, owner = ?, wake = ?, ended = ?, last = ?, cause = ? where number = ?`

	selectOpen = `select ` + headColumns + ` from heads where workflow_id = ? and ended is null`

	selectEnded = `select ` + headColumns + ` from heads where workflow_id = ? and ended >= ? and workflow = ?
and not exists (select 1 from heads where workflow_id = ? and ended is null) order by ended desc, number desc limit 1`
)

// Commit writes a group in one transaction.
func (s *Store) Commit(_ context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	return s.write(func(c *conn) error {
		if g.Engine != 0 {
			if err := fence(c, g.Engine); err != nil {
				return err
			}
		}
		tx := transaction{conn: c, store: s}
		if err := tx.prepare(); err != nil {
			return err
		}
		if g.Again {
			return tx.writeAgain(g)
		}
		for i := range g.Changes {
			if err := tx.change(&g.Changes[i]); err != nil {
				return err
			}
		}
		return tx.entries.flush()
	})
}

// A transaction is a group while it is written.
type transaction struct {
	*conn
	store   *Store
	starts  *stmt // inserts heads
	heads   *stmt // updates them
	entries *inserter
}

func (tx *transaction) prepare() (err error) {
	if tx.starts, err = tx.conn.prepare(insertHead); err != nil {
		return err
	}
	if tx.heads, err = tx.conn.prepare(updateHead); err != nil {
		return err
	}
	tx.entries, err = newInserter(tx.conn)
	return err
}

// writeAgain writes a group that was sent before. A group is there as a whole
// or not at all, so one thing of it that is there proves that all of it is; what
// is not there then are starts that had found another run, and are judged anew.
func (tx *transaction) writeAgain(g *store.Group) error {
	there := make([]bool, len(g.Changes))
	done := false
	for i := range g.Changes {
		var err error
		if there[i], err = tx.isThere(&g.Changes[i]); err != nil {
			return err
		}
		done = done || there[i]
	}
	for i := range g.Changes {
		c := &g.Changes[i]
		if there[i] || done && !c.Create {
			c.Verdict, c.Found = store.Written, journal.Head{}
			continue
		}
		if err := tx.change(c); err != nil {
			return err
		}
	}
	return tx.entries.flush()
}

func (tx *transaction) isThere(c *store.Change) (bool, error) {
	var row driver.Value
	var err error
	switch {
	case c.Create:
		row, err = tx.value("select 1 from heads where number = ?", int64(c.Run))
	case len(c.Entries) > 0:
		row, err = tx.value("select 1 from entries where run = ? and seq = ?", int64(c.Run), c.Entries[0].Seq)
	}
	return row != nil, err
}

func (tx *transaction) change(c *store.Change) error {
	switch {
	case c.Create:
		written, err := tx.create(c)
		if err != nil || !written {
			return err
		}
	case c.Head != nil:
		if err := tx.update(c.Head); err != nil {
			return err
		}
	}
	for i := range c.Entries {
		if err := tx.entries.add(&c.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// create writes a new head, or finds who has its workflow ID.
func (tx *transaction) create(c *store.Change) (written bool, err error) {
	h := c.Head
	if n, ok := h.ID.Number(tx.store.database); !ok || n != c.Run {
		return false, &store.DataError{Err: fmt.Errorf("%q is not the ID of run %d in this database", h.ID, c.Run)}
	}
	c.Verdict, c.Found = store.Written, journal.Head{}
	if !c.Since.IsZero() {
		if found, err := tx.findEnded(c); err != nil || found {
			return false, err
		}
	}
	a := tx.starts.args
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(h.Number), h.WorkflowID, h.Workflow, int64(h.Pattern)
	a[4].Value, a[5].Value, a[6].Value, a[7].Value = int64(h.Status), int64(h.Owner), nanos(h.Wake), nanos(h.Created)
	a[8].Value, a[9].Value, a[10].Value, a[11].Value = nanos(h.Ended), h.Last, h.Cause, int64(h.Crashes)
	rows, err := tx.starts.exec()
	if err != nil || rows == 1 {
		return err == nil, err
	}
	return false, tx.findOpen(c)
}

// findOpen tells the open run that has the workflow ID of a new one.
func (tx *transaction) findOpen(c *store.Change) error {
	return tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Exists, tx.store.head(row)
		if c.Found.Workflow != c.Head.Workflow {
			c.Verdict = store.Taken
		}
		return nil
	}, selectOpen, c.Head.WorkflowID)
}

// findEnded tells the run that ended last within the window of a new one, unless
// an open run has its workflow ID.
func (tx *transaction) findEnded(c *store.Change) (found bool, err error) {
	err = tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Exists, tx.store.head(row)
		found = true
		return nil
	}, selectEnded, c.Head.WorkflowID, nanos(c.Since), c.Head.Workflow, c.Head.WorkflowID)
	return found, err
}

func (tx *transaction) update(h *journal.Head) error {
	a := tx.heads.args
	a[0].Value, a[1].Value, a[2].Value = int64(h.Status), int64(h.Owner), nanos(h.Wake)
	a[3].Value, a[4].Value, a[5].Value = nanos(h.Ended), h.Last, h.Cause
	a[6].Value = int64(h.Number)
	rows, err := tx.heads.exec()
	if err == nil && rows == 0 {
		err = &store.DataError{Err: fmt.Errorf("there is no run %d", h.Number)}
	}
	return err
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements of a commit. The insertion of a new head does nothing if an open run has the
// workflow ID, so a start reads nothing before it.
const (
	insertHead = `insert into perdure_heads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, seen, chain, parent, keep, retain, expires, error)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?) on conflict (workflow_id) where ended is null do nothing`

	updateHead = `update perdure_heads set status = ?1, owner = ?2, ordered = iif(?2 = 0, 0, ordered), wake = ?, ended = ?, last = ?, cause = ?, keep = ?, retain = ?, expires = ?, pattern = ?, error = ?, claimed = 0 where number = ?`

	// unloadHead updates the head only if the engine owns the run and knows of all its messages.
	// stayHead updates the head of a run with a message that the engine does not know of.
	unloadHead = updateHead + ` and mail = ? and owner = ?`

	selectOwner = `select owner from perdure_heads where number = ?`
	stayHead    = `update perdure_heads set status = ?, ended = ?, last = ?, cause = ?, keep = ?, retain = ?, expires = ?, pattern = ?, error = ?, claimed = 0 where number = ? returning ` +
		headColumns

	selectHead = `select ` + headColumns + ` from perdure_heads where number = ?`

	selectThere = `select 1 from perdure_heads where number = ?`

	selectOpen = `select ` + headColumns +
		` from perdure_heads where workflow_id = ? and ended is null`

	selectEnded = `select ` + headColumns +
		` from perdure_heads where workflow_id = ? and ended >= ? and workflow = ?
and not exists (select 1 from perdure_heads where workflow_id = ? and ended is null) order by ended desc, number desc limit 1`

	deleteOutbox = `delete from perdure_owed where number = ?`
)

// The statements by which a successor takes over from the run that it continues.
const (
	mayContinue = `select 1 from perdure_heads where number = ? and workflow_id = ? and ended is not null and inbox is not -1`

	// selectPast selects the number before the number of the first untaken message.
	selectPast = `select number - 1 from (select coalesce(inbox, number) as box, past from perdure_heads where number = ?) cross join perdure_messages
where holder = box and taken is null and number > past order by number limit 1`

	// inheritInbox counts messages that were not taken as not given.
	inheritInbox = `update perdure_heads set (mail, inbox, past, given) = (
    select mail, coalesce(inbox, number), coalesce(?1, mail), coalesce(?1, mail) from perdure_heads where number = ?2) where number = ?3`
	leaveInbox = `update perdure_heads set inbox = -1 where number = ?`
)

// Commit writes a group in one transaction.
func (s *Store) Commit(_ context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	err := s.write(func(c *conn) error {
		tx := transaction{conn: c, store: s, group: g}
		if err := tx.begin(); err != nil {
			return err
		}
		if err := s.tick(c, g.Now); err != nil {
			return err
		}
		if g.Again {
			return tx.writeAgain()
		}
		return tx.write()
	})
	if err == nil {
		s.written.note(g)
		if g.Engine == 0 { // an engine on this handle does not know
			s.otherWrites.tell()
		}
	}
	return err
}

// A transaction is a group that is being written.
type transaction struct {
	*conn
	store *Store
	group *store.Group
	// there marks the changes that were written before; nil if none was.
	there    []bool
	resent   bool  // a message that is there is the group's own
	unrouted bool  // there may be messages that wait for a run
	starts   *stmt // inserts heads
	heads    *stmt // updates heads
	entries  *inserter

	// receivers are the receivers of messages, as they are after the posts so far.
	receivers map[journal.Number]*receiver
	posted    []*receiver // receivers that have got messages
}

// begin checks the fence and prepares the statements. The same lookup finds out whether any message
// waits for a run, so that a start need not look.
func (tx *transaction) begin() (err error) {
	sql, args := "select exists (select 1 from perdure_unrouted)", []driver.Value(nil)
	if tx.group.Engine != 0 {
		sql, args = sql+" from perdure_engines where id = ?", []driver.Value{int64(tx.group.Engine)}
	}
	waits, err := tx.value(sql, args...)
	switch {
	case err != nil:
		return err
	case waits == nil:
		return store.ErrFenced
	}
	tx.unrouted = integer(waits) != 0
	if tx.starts, err = tx.prepare(insertHead); err != nil {
		return err
	}
	if tx.heads, err = tx.prepare(updateHead); err != nil {
		return err
	}
	tx.entries, err = newInserter(tx.conn)
	return err
}

// write writes the changes step by step, in the order that [store.Group] describes.
func (tx *transaction) write() error {
	for _, step := range []func() error{
		tx.each(tx.start, tx.recall), tx.follow, tx.each(tx.record, nil),
		tx.each(tx.set, tx.set), (&limiting{transaction: tx}).work, tx.meet, tx.sendAll, tx.part,
		tx.each(tx.settle, nil), tx.each(tx.succeed, nil), tx.entries.flush,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// each returns a step that handles each change: write for a change that is to be written, tell for
// a change that was written before.
func (tx *transaction) each(write, tell func(*store.Change) error) func() error {
	return func() error {
		for i := range tx.group.Changes {
			do := write
			if tx.there != nil && tx.there[i] {
				do = tell
			}
			if do == nil {
				continue
			}
			if err := do(&tx.group.Changes[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// sendAll posts the messages of the group.
func (tx *transaction) sendAll() error {
	for i := range tx.group.Changes {
		if err := tx.send(&tx.group.Changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// start creates a run that continues no other run.
func (tx *transaction) start(c *store.Change) error {
	c.Verdict, c.Found = store.Written, journal.Head{}
	if !c.Create || c.From != 0 {
		return nil
	}
	if tx.resent {
		if found, err := tx.had(c); err != nil || found {
			return err
		}
	}
	if tx.there != nil {
		return tx.findAgain(c)
	}
	if c.Shares != 0 {
		if err := tx.shares(c); err != nil {
			return err
		}
	}
	if !c.Since.IsZero() {
		if found, err := tx.findEnded(c, c.Since); err != nil || found {
			return err
		}
	}
	created, err := tx.create(c)
	if err == nil && !created {
		err = tx.findOpen(c)
	}
	if err == nil && created && tx.unrouted {
		err = tx.deliver(c)
	}
	return err
}

// shares refuses a run that uses payloads of a run that does not exist.
func (tx *transaction) shares(c *store.Change) error {
	there, err := tx.value(selectThere, int64(c.Shares))
	if err == nil && there == nil {
		err = &store.DataError{
			Err: fmt.Errorf("run %d has payloads of run %d, which is not there", c.Run, c.Shares),
		}
	}
	return err
}

// record writes entries and applies their effects.
func (tx *transaction) record(c *store.Change) error {
	for _, number := range c.Told {
		if _, err := tx.exec(deleteOutbox, number); err != nil {
			return err
		}
	}
	if c.From != 0 || c.Verdict != store.Written {
		return nil
	}
	return tx.append(c.Entries)
}

func (tx *transaction) append(entries []journal.Entry) error {
	for i := range entries {
		if err := tx.entries.add(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// settle writes the head of a run that exists.
func (tx *transaction) settle(c *store.Change) error {
	switch {
	case c.Create || c.Head == nil:
		return nil
	case c.Unload:
		return tx.rest(c)
	}
	return tx.update(c.Head)
}

// succeed creates a run that continues another run, which has ended by now.
func (tx *transaction) succeed(c *store.Change) error {
	if c.From == 0 {
		return nil
	}
	ended, err := tx.value(mayContinue, int64(c.From), c.Head.WorkflowID)
	if err != nil {
		return err
	}
	created := false
	if ended != nil {
		created, err = tx.create(c)
	}
	if err == nil && !created {
		err = &store.DataError{
			Err: fmt.Errorf("run %d cannot continue run %d: it is open, not there, was continued "+
				"or has another workflow ID", c.Run, c.From),
		}
	}
	if err != nil {
		return err
	}
	if err := tx.inherit(c); err != nil {
		return err
	}
	err = tx.query(func(row []driver.Value) error {
		c.Found = tx.store.head(row)
		return nil
	}, selectHead, int64(c.Run))
	if err != nil {
		return err
	}
	if err := tx.deliver(c); err != nil {
		return err
	}
	return tx.append(c.Entries)
}

// inherit hands the inbox of a run to the run that continues it. It writes no message, however many
// there are.
func (tx *transaction) inherit(c *store.Change) error {
	past, err := tx.value(selectPast, int64(c.From))
	if err != nil {
		return err
	}
	if _, err := tx.exec(inheritInbox, past, int64(c.From), int64(c.Run)); err != nil {
		return err
	}
	if _, err := tx.exec(inheritSlots, int64(c.Run), int64(c.From)); err != nil {
		return err
	}
	_, err = tx.exec(leaveInbox, int64(c.From))
	return err
}

// create writes a new head, unless an open run has its workflow ID. A group without an engine
// creates runs without an owner.
func (tx *transaction) create(c *store.Change) (bool, error) {
	h := *c.Head
	if n, ok := h.ID.Number(tx.store.database); !ok || n != c.Run {
		return false, &store.DataError{
			Err: fmt.Errorf("%q is not the ID of run %d in this database", h.ID, c.Run),
		}
	}
	if tx.group.Engine == 0 {
		h.Owner = 0
	}
	h.Mail = 0
	a := tx.starts.args
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(h.Number), h.WorkflowID, h.Workflow,
		int64(h.Pattern)
	a[4].Value, a[5].Value, a[6].Value, a[7].Value = int64(h.Status), int64(h.Owner), nanos(h.Wake),
		nanos(h.Created)
	a[8].Value, a[9].Value, a[10].Value, a[11].Value = nanos(h.Ended), h.Last, h.Cause,
		int64(h.Crashes)
	a[12].Value, a[13].Value, a[14].Value = int64(h.Chain), int64(h.Parent), int64(h.Keep)
	a[15].Value, a[16].Value, a[17].Value = string(h.Retain), nanos(h.Expires()), failure(&h)
	rows, err := tx.starts.exec()
	if err != nil || rows == 0 {
		return false, err
	}
	h.Wake, h.Created, h.Ended = stored(h.Wake), stored(h.Created), stored(h.Ended)
	c.Found = h
	return true, nil
}

// findOpen finds the open run that has the workflow ID of a new run.
func (tx *transaction) findOpen(c *store.Change) error {
	return tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Exists, tx.store.head(row)
		if c.Found.Workflow != c.Head.Workflow {
			c.Verdict = store.Taken
		}
		return nil
	}, selectOpen, c.Head.WorkflowID)
}

// findEnded finds the run that ended last, not before since, unless an open run has the workflow ID
// of the new run.
func (tx *transaction) findEnded(c *store.Change, since time.Time) (found bool, err error) {
	err = tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Exists, tx.store.head(row)
		found = true
		return nil
	}, selectEnded, c.Head.WorkflowID, nanos(since), c.Head.Workflow, c.Head.WorkflowID)
	return found, err
}

func (tx *transaction) update(h *journal.Head) error {
	bindHead(tx.heads, h)
	rows, err := tx.heads.exec()
	if err == nil && rows == 0 {
		err = noRun(h)
	}
	return err
}

// rest unloads a run, or sets the verdict that the run has messages.
func (tx *transaction) rest(c *store.Change) error {
	h := c.Head
	s, err := tx.prepare(unloadHead)
	if err != nil {
		return err
	}
	bindHead(s, h)
	s.args[12].Value, s.args[13].Value = h.Mail, int64(tx.group.Engine)
	if rows, err := s.exec(); err != nil || rows == 1 {
		return err
	}
	owner, err := tx.value(selectOwner, int64(h.Number))
	if err != nil || owner != nil && journal.EngineID(integer(owner)) != tx.group.Engine {
		return err
	}
	err = tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Mail, tx.store.head(row)
		return nil
	}, stayHead, int64(h.Status), nanos(h.Ended), h.Last, h.Cause, int64(h.Keep),
		string(h.Retain), nanos(h.Expires()), int64(h.Pattern), failure(h), int64(h.Number))
	if err == nil && c.Verdict != store.Mail {
		err = noRun(h)
	}
	return err
}

func bindHead(s *stmt, h *journal.Head) {
	a := s.args
	a[0].Value, a[1].Value, a[2].Value = int64(h.Status), int64(h.Owner), nanos(h.Wake)
	a[3].Value, a[4].Value, a[5].Value = nanos(h.Ended), h.Last, h.Cause
	a[6].Value, a[7].Value, a[8].Value = int64(h.Keep), string(h.Retain), nanos(h.Expires())
	a[9].Value, a[10].Value, a[11].Value = int64(h.Pattern), failure(h), int64(h.Number)
}

func noRun(h *journal.Head) error {
	return &store.DataError{Err: fmt.Errorf("there is no run %d", h.Number)}
}

package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Commit writes a group. It writes part by part and notes how to undo each, so
// that a group that is refused leaves no trace.
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
	tx := s.data.begin(g)
	if err := tx.write(); err != nil {
		tx.rollback()
		return &store.DataError{Err: err}
	}
	if tx.settle() {
		s.tell(g.Engine == 0)
	}
	s.data.tick(g.Now)
	return nil
}

// A sending says what is known of a group's fate when it was sent before.
type sending uint8

const (
	first  sending = iota // it was not sent before, or not written then
	unsure                // it was sent before, and nothing of it tells whether it was written
	done                  // it was written
)

// sending looks for the group. One thing of it that is there proves that all of
// it is; an entry that is not there, that nothing is. A message proves nothing: one
// like it may have come with another group.
func (d *data) sending(g *store.Group) sending {
	if !g.Again {
		return first
	}
	fate := unsure
	for i := range g.Changes {
		c := &g.Changes[i]
		r := d.runs[c.Run]
		switch {
		case r == nil:
		case c.Create, len(c.Entries) > 0 && c.Entries[0].Seq <= r.last():
			return done
		case len(c.Entries) > 0:
			fate = first
		}
	}
	return fate
}

// A transaction is a group while it is written.
type transaction struct {
	data    *data
	group   *store.Group
	sending sending
	old     []bool // the changes that are there already; nil for none
	undo    []func()
	touched []touched
}

// A touched run, as it was before.
type touched struct {
	run  *run
	free bool
	wake time.Time
}

func (d *data) begin(g *store.Group) *transaction {
	d.commits++
	tx := &transaction{data: d, group: g, sending: d.sending(g)}
	if tx.sending != done {
		return tx
	}
	tx.old = make([]bool, len(g.Changes))
	for i := range g.Changes {
		c := &g.Changes[i]
		tx.old[i] = !c.Create || d.runs[c.Run] != nil
	}
	return tx
}

func (tx *transaction) isOld(i int) bool { return tx.old != nil && tx.old[i] }

// write writes the group in the order that the contract demands.
func (tx *transaction) write() error {
	for _, part := range []func(int, *store.Change) error{
		tx.create, tx.append, tx.posts, tx.head, tx.succeed,
	} {
		for i := range tx.group.Changes {
			if err := part(i, &tx.group.Changes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// create judges and makes a new run that continues no other.
func (tx *transaction) create(i int, c *store.Change) error {
	d := tx.data
	c.Verdict, c.Found = store.Written, journal.Head{}
	switch {
	case tx.isOld(i):
		tx.recallChange(c)
		return nil
	case !c.Create || c.From != 0:
		return nil
	}
	if err := tx.isNew(c); err != nil {
		return err
	}
	if c.Shares != 0 && d.runs[c.Shares] == nil && tx.sending != done {
		return fmt.Errorf("run %d has payloads of run %d, which is not there", c.Run, c.Shares)
	}
	since := c.Since
	if tx.sending == done { // it had found a run, which may have ended
		since, c.Verdict = time.Unix(0, 1), store.Taken
	}
	found := d.holds(c.Head, since)
	if had := d.had(c); tx.sending != first && had != nil {
		found = had
	}
	if found != nil {
		c.Verdict, c.Found = store.Exists, found.head
		if found.head.Workflow != c.Head.Workflow {
			c.Verdict = store.Taken
		}
		return nil
	}
	if tx.sending != done {
		tx.insert(c, nil)
	}
	return nil
}

// had gives the run that a start had found which was sent before, where it has got a
// message of it.
func (d *data) had(c *store.Change) *run {
	for _, posts := range [][]store.Post{c.Posts, c.Else} {
		for i := range posts {
			p := &posts[i]
			if m, r := d.own(p, nil); p.WorkflowID == c.Head.WorkflowID && m != nil && r != nil {
				return r
			}
		}
	}
	return nil
}

func (tx *transaction) isNew(c *store.Change) error {
	if n, ok := c.Head.ID.Number(tx.data.database); !ok || n != c.Run {
		return fmt.Errorf("%q is not the ID of run %d in this database", c.Head.ID, c.Run)
	}
	if tx.data.runs[c.Run] != nil {
		return fmt.Errorf("run %d is there already", c.Run)
	}
	return nil
}

// recallChange gives the verdict that a change had, as far as it can be told.
func (tx *transaction) recallChange(c *store.Change) {
	r := tx.data.runs[c.Run]
	switch {
	case r == nil:
	case c.Create:
		c.Found = r.head
	case c.Unload && r.head.Owner == tx.group.Engine:
		c.Verdict, c.Found = store.Mail, r.head
	}
}

// insert makes a new run, which takes over the inbox of the one that it
// continues, and gets the messages that waited for it.
func (tx *transaction) insert(c *store.Change, from *run) {
	d := tx.data
	r := &run{head: storedHead(*c.Head), commit: d.commits}
	if tx.group.Engine == 0 {
		r.head.Owner = 0
	}
	d.insert(r)
	tx.undo = append(tx.undo, func() { d.remove(r) })
	tx.touched = append(tx.touched, touched{run: r})
	if from != nil {
		tx.pass(from, r)
	}
	tx.route(r)
	c.Verdict, c.Found = store.Written, r.head
}

// succeed makes a run that continues another one.
func (tx *transaction) succeed(i int, c *store.Change) error {
	if !c.Create || c.From == 0 || tx.isOld(i) {
		return nil
	}
	if err := tx.isNew(c); err != nil {
		return err
	}
	from := tx.data.runs[c.From]
	switch {
	case from == nil:
		return fmt.Errorf("run %d continues run %d, which is not there", c.Run, c.From)
	case from.continued:
		return fmt.Errorf("run %d continues run %d, which was continued", c.Run, c.From)
	case from.head.WorkflowID != c.Head.WorkflowID:
		return fmt.Errorf("run %d continues run %d, which has another workflow ID", c.Run, c.From)
	case tx.data.open(c.Head.WorkflowID) != nil:
		return fmt.Errorf("run %d continues run %d, but their workflow ID has an open run", c.Run,
			c.From)
	}
	tx.insert(c, from)
	return tx.entries(tx.data.runs[c.Run], c.Entries)
}

// append writes the entries of a change, and what has been told.
func (tx *transaction) append(i int, c *store.Change) error {
	for _, n := range c.Told {
		tx.told(n)
	}
	if c.Run == 0 || tx.isOld(i) || c.From != 0 || c.Create && c.Verdict != store.Written {
		return nil
	}
	r := tx.data.runs[c.Run]
	switch {
	case r != nil:
		return tx.entries(r, c.Entries)
	case c.Head != nil || len(c.Entries) > 0:
		return fmt.Errorf("there is no run %d", c.Run)
	}
	return nil
}

// entries appends to a journal, and does what follows from the entries.
func (tx *transaction) entries(r *run, entries []journal.Entry) error {
	tx.touch(r)
	for i := range entries {
		e := &entries[i]
		switch last := r.last(); {
		case e.Seq <= last:
			return fmt.Errorf("entry %d of run %d is there already", e.Seq, e.Run)
		case e.Seq != last+1:
			return fmt.Errorf("entry %d of run %d follows entry %d", e.Seq, e.Run, last)
		}
		row, err := tx.newRow(*e)
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
		r.setAttributes(e)
		if e.Detail == nil {
			continue
		}
		if err := tx.take(r, e); err != nil {
			return err
		}
		if e.Detail.Tell {
			tx.owe(r, e.Seq)
		}
	}
	return nil
}

// newRow gives the stored form of an entry, and keeps a large payload that it
// brings along.
func (tx *transaction) newRow(e journal.Entry) (row, error) {
	if d := tx.data; e.Spill != 0 && e.Data != nil {
		before, had := d.spilled[e.Spill]
		tx.undo = append(tx.undo, func() {
			if delete(d.spilled, e.Spill); had {
				d.spilled[e.Spill] = before
			}
		})
		d.spilled[e.Spill], e.Data = e.Data, nil
	}
	return newRow(e)
}

// take takes the message that an entry names out of the inbox. Its payload is
// in the entry from now on.
func (tx *transaction) take(r *run, e *journal.Entry) error {
	if e.Detail.Mail == 0 {
		return nil
	}
	m := r.message(e.Detail.Mail)
	if m == nil {
		return fmt.Errorf("entry %d of run %d takes message %d, which is not in the inbox", e.Seq,
			e.Run, e.Detail.Mail)
	}
	before := *m
	tx.undo = append(tx.undo, func() { *m = before })
	m.taker, m.row = r, row{}
	r.note(m)
	return nil
}

// head changes the head of a run that is there. One that is to be unloaded does so
// only if it has no message that its engine does not know of.
func (tx *transaction) head(i int, c *store.Change) error {
	if c.Create || c.Head == nil || tx.isOld(i) {
		return nil
	}
	r := tx.data.runs[c.Run]
	if c.Unload && r.head.Owner != tx.group.Engine {
		return nil // it was written before: only its engine lets a run go
	}
	tx.touch(r)
	h := storedHead(*c.Head)
	r.claimed = false
	r.head.Status, r.head.Ended, r.head.Last, r.head.Cause = h.Status, h.Ended, h.Last, h.Cause
	r.head.Keep, r.head.Retain, r.head.Pattern = h.Keep, h.Retain, h.Pattern
	if c.Unload && c.Head.Mail != r.head.Mail {
		c.Verdict, c.Found = store.Mail, r.head
		return nil
	}
	r.head.Owner, r.head.Wake = h.Owner, h.Wake
	return nil
}

// touch notes how a run is before the group changes it.
func (tx *transaction) touch(r *run) {
	if r.commit == tx.data.commits {
		return
	}
	before := *r
	tx.undo = append(tx.undo, func() { *r = before })
	tx.touched = append(tx.touched, touched{run: r, free: r.isFree(), wake: r.head.Wake})
	r.commit = tx.data.commits
}

func (tx *transaction) rollback() {
	for _, undo := range slices.Backward(tx.undo) {
		undo()
	}
}

// settle makes known which runs may be claimed now and which have mail, and says
// whether others may want to know.
func (tx *transaction) settle() bool {
	tell := false
	for _, t := range tx.touched {
		if !t.free || !t.wake.Equal(t.run.head.Wake) {
			tx.data.offer(t.run)
		}
		if t.run.hasMail() {
			tx.data.mail[t.run] = true
		}
		tell = tell || tx.concerns(t.run)
	}
	return tell
}

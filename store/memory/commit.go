package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Commit writes a group. It writes part by part and records how to undo each part, so that a
// refused group leaves no trace.
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
	if g.Grants = 0; tx.sending == done {
		g.Grants = 1
	}
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

// A sending is the known fate of the earlier sendings of a group.
type sending uint8

const (
	// first means that the group was not sent before, or was not written then.
	first sending = iota
	// unsure means that the group was sent before, and nothing of it proves whether it was written.
	unsure
	// done means that the group was written.
	done
)

// sending finds out whether the group was written before. One run or entry of it that is there
// proves that the whole group is there. An entry that is not there proves that nothing is. A
// message proves nothing, because an equal message may have come with another group.
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

// A transaction is a group that is being written.
type transaction struct {
	data    *data
	group   *store.Group
	sending sending
	old     []bool // marks the changes that are there already; nil if none is
	undo    []func()
	touched []touched
	limits  map[*limit]bool     // that the group changes
	unused  map[limitKey]*limit // those of them that nobody used when asks came
	news    bool                // the group has settings
}

// A touched is a run that the group changes, with its state before the group.
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

// write writes the group in the order that the contract of stores demands.
func (tx *transaction) write() error {
	for _, part := range []func(int, *store.Change) error{
		tx.create, tx.append, tx.set, tx.free, tx.adjust, tx.ask, tx.posts, tx.head, tx.succeed,
	} {
		for i := range tx.group.Changes {
			if err := part(i, &tx.group.Changes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// create judges a new run that continues no other run, and inserts it if it may be started.
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
	// If the group was written before, the start found a run then. That run may have ended since.
	if tx.sending == done {
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

// had returns the run that a start found when it was sent before. It knows the run by a message of
// the start that the run has got; it returns nil if there is none.
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

// recallChange sets the verdict that a change got when it was written, as far as that is still
// known.
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

// insert makes a new run. The run takes over the inbox of the run that it continues, if any, and
// gets the messages that waited for its workflow ID.
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
	tx.inherit(c.From, c.Run)
	return tx.entries(tx.data.runs[c.Run], c.Entries)
}

// append writes the entries of a change and removes the entries from the outbox that were told.
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

// entries appends entries to a journal and applies their effects: attributes, taken messages,
// entries of the outbox.
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
			tx.addToOutbox(r, e.Seq)
		}
	}
	return nil
}

// newRow returns the stored form of an entry. It stores a large payload that comes with the entry.
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

// take takes the message that an entry names out of the inbox. From then on the entry has its
// payload.
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

// head changes the head of a run that exists. It unloads the run only if the engine knows of all
// its messages.
func (tx *transaction) head(i int, c *store.Change) error {
	if c.Create || c.Head == nil || tx.isOld(i) {
		return nil
	}
	r := tx.data.runs[c.Run]
	if c.Unload && r.head.Owner != tx.group.Engine {
		// It was written before: only its own engine unloads a run.
		return nil
	}
	tx.touch(r)
	h := storedHead(*c.Head)
	r.claimed = false
	r.head.Status, r.head.Ended, r.head.Last, r.head.Cause = h.Status, h.Ended, h.Last, h.Cause
	r.head.Keep, r.head.Retain, r.head.Pattern = h.Keep, h.Retain, h.Pattern
	r.head.Error = h.Error
	if c.Unload && c.Head.Mail != r.head.Mail {
		c.Verdict, c.Found = store.Mail, r.head
		return nil
	}
	r.head.Owner, r.head.Wake = h.Owner, h.Wake
	if h.Owner == 0 {
		r.ordered = store.NoOrder
	}
	return nil
}

// touch records the state of a run before the group changes it.
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

// settle updates the lists of runs that may be claimed and of runs that have mail. It reports
// whether other handles may want to know of the group.
func (tx *transaction) settle() bool {
	tell := tx.news
	for _, t := range tx.touched {
		if !t.free || !t.wake.Equal(t.run.head.Wake) {
			tx.data.offer(t.run)
		}
		if t.run.hasMail() {
			tx.data.mail[t.run] = true
		}
		if t.run.ordered != store.NoOrder {
			tx.data.ordered[t.run] = true
		}
		tell = tell || tx.concerns(t.run)
	}
	return tell
}

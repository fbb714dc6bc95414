package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// writeAgain writes a group that was sent before. A group is there as a whole
// or not at all, so one new run or entry of it that is there proves that all of
// it is; what is not there then are starts that had found another run, and find
// it again. An entry that is not there proves that nothing is. Without either,
// the group is written again: its messages are known by their IDs.
func (tx *transaction) writeAgain() error {
	changes := tx.group.Changes
	there := make([]bool, len(changes))
	done, lost := false, false
	for i := range changes {
		c := &changes[i]
		var err error
		if there[i], err = tx.isThere(c); err != nil {
			return err
		}
		done = done || there[i]
		lost = lost || !there[i] && !c.Create && len(c.Entries) > 0
	}
	tx.resent = done || !lost
	if done {
		for i := range changes {
			there[i] = there[i] || !changes[i].Create
		}
		tx.there = there
	}
	return tx.write()
}

// isThere says whether a change is proved to be there.
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

// findAgain tells the run that a start of a group had found which was written. It
// may have ended since, in the same group too.
func (tx *transaction) findAgain(c *store.Change) error {
	if found, err := tx.findEnded(c, time.Unix(0, 1)); err != nil || found {
		return err
	}
	err := tx.findOpen(c)
	if err == nil && c.Verdict == store.Written {
		c.Verdict = store.Taken // by a run of another workflow, which has ended
	}
	return err
}

// recall gives the verdict of a change that was written before, as far as it can
// still be told: a run that was to rest has stayed if the engine owns it.
func (tx *transaction) recall(c *store.Change) error {
	c.Verdict, c.Found = store.Written, journal.Head{}
	if !c.Create && !c.Rest {
		return nil
	}
	return tx.query(func(row []driver.Value) error {
		h := tx.store.head(row)
		if c.Rest && h.Owner == tx.group.Engine {
			c.Verdict, c.Found = store.Mail, h
		}
		if c.Create {
			c.Found = h
		}
		return nil
	}, selectHead, int64(c.Run))
}

// tell gives the verdicts on the messages of a change that was written before.
func (tx *transaction) tell(c *store.Change) error {
	for i := range c.Posts {
		if err := tx.tellPost(&c.Posts[i]); err != nil {
			return err
		}
	}
	return nil
}

// tellPost tells what has become of a message: it is there, or else was judged
// by its receiver.
func (tx *transaction) tellPost(p *store.Post) error {
	p.Verdict, p.To, p.Number = store.Nobody, journal.Head{}, 0
	r, err := tx.receiver(p)
	if err != nil {
		return err
	}
	if d := p.Message.Detail; p.Unrouted == 0 && d != nil {
		if known, err := tx.known(p, r, orNull(d.Message)); err != nil || known {
			return err
		}
	}
	switch {
	case r.isOpen() || p.Unrouted != 0 && r.isThere():
		p.Verdict, p.To = store.Delivered, r.Head
	case p.Run != 0 && r.isThere():
		p.Verdict, p.To = store.Closed, r.Head
	case p.Run == 0 && !p.Until.IsZero():
		p.Verdict = store.Unrouted
	}
	return nil
}

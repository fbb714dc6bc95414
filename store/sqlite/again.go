package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// writeAgain writes a group that was sent before. A group was written as a whole or not at all. So
// one new run or entry of it that is there proves that the whole group is there. A start that is
// not there then had found another run, and finds it again. An entry that is not there proves that
// nothing was written. If the group has neither, it is written again, except for the messages that
// are there. Such messages prove nothing about the others, because an equal message may have come
// with another group.
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

// isThere reports whether a change is proved to be there.
func (tx *transaction) isThere(c *store.Change) (bool, error) {
	var row driver.Value
	var err error
	switch {
	case c.Create:
		row, err = tx.value("select 1 from perdure_heads where number = ?", int64(c.Run))
	case len(c.Entries) > 0:
		row, err = tx.value("select 1 from perdure_entries where run = ? and seq = ?", int64(c.Run),
			c.Entries[0].Seq)
	}
	return row != nil, err
}

// The messages that a post by workflow ID may have written when it was sent before: in a run that
// has or had the ID, or waiting for a run.
const (
	selectSent = sentTo + ` and h.ended is null union all ` + sentTo + ` and h.ended is not null`
	sentTo     = `select h.number, m.number from perdure_heads h cross join perdure_messages m on m.chain = iif(h.chain = 0, h.number, h.chain) and m.id = ?1 and m.at = ?2
    and m.holder = iif(m.taken is null, coalesce(h.inbox, h.number), h.number) where h.workflow_id = ?3`
	selectSentAway = `select 0, number from perdure_unrouted where id = ? and at = ? and workflow_id = ? order by number limit 1`
)

// own looks for the message that a post by workflow ID wrote. It finds the message by its sender's
// ID and its time. The run is 0 if the message waits for a run. The number is 0 if there is no
// message.
func (tx *transaction) own(p *store.Post) (run journal.Number, number int64, err error) {
	d := p.Message.Detail
	if p.Run != 0 || d == nil || d.Message == "" {
		return 0, 0, nil
	}
	read := func(row []driver.Value) error {
		// The newest run that has the message counts.
		if n := journal.Number(integer(row[0])); n >= run {
			run, number = n, integer(row[1])
		}
		return nil
	}
	at := nanos(p.Message.At)
	err = tx.query(read, selectSent, d.Message, at, p.WorkflowID)
	if err == nil && number == 0 {
		err = tx.query(read, selectSentAway, d.Message, at, p.WorkflowID)
	}
	return run, number, err
}

// postedAgain sets the verdict of a post by workflow ID whose message is there. It reports whether
// the message is there.
func (tx *transaction) postedAgain(p *store.Post) (bool, error) {
	run, number, err := tx.own(p)
	if err != nil || number == 0 {
		return false, err
	}
	p.Verdict, p.To, p.Number = store.Unrouted, journal.Head{}, number
	if run != 0 {
		r, err := tx.receiverOf(selectReceiver, int64(run))
		if err != nil {
			return false, err
		}
		p.Verdict, p.To = store.Delivered, r.Head
	}
	return true, nil
}

// had finds the run that a start found when it was sent before, if that run has got a message of
// the start.
func (tx *transaction) had(c *store.Change) (found bool, err error) {
	for _, posts := range [][]store.Post{c.Posts, c.Else} {
		for i := range posts {
			if posts[i].WorkflowID != c.Head.WorkflowID {
				continue
			}
			run, _, err := tx.own(&posts[i])
			if err != nil {
				return false, err
			}
			if run != 0 {
				return true, tx.foundAgain(c, run)
			}
		}
	}
	return false, nil
}

// findAgain finds the run that a start found, in a group that was written before. That run may have
// ended since, even in the same group.
func (tx *transaction) findAgain(c *store.Change) error {
	if found, err := tx.findEnded(c, time.Unix(0, 1)); err != nil || found {
		return err
	}
	err := tx.findOpen(c)
	if err == nil && c.Verdict == store.Written {
		// A run of another workflow had the ID, and has ended.
		c.Verdict = store.Taken
	}
	return err
}

// foundAgain sets the verdict of a start that found that run.
func (tx *transaction) foundAgain(c *store.Change, run journal.Number) error {
	return tx.query(func(row []driver.Value) error {
		c.Verdict, c.Found = store.Exists, tx.store.head(row)
		if c.Found.Workflow != c.Head.Workflow {
			c.Verdict = store.Taken
		}
		return nil
	}, selectHead, int64(run))
}

// recall sets the verdict of a change that was written before, as far as it is still known. A run
// that was to be unloaded has stayed loaded if the engine still owns it.
func (tx *transaction) recall(c *store.Change) error {
	c.Verdict, c.Found = store.Written, journal.Head{}
	if !c.Create && !c.Unload {
		return nil
	}
	return tx.query(func(row []driver.Value) error {
		h := tx.store.head(row)
		if c.Unload && h.Owner == tx.group.Engine {
			c.Verdict, c.Found = store.Mail, h
		}
		if c.Create {
			c.Found = h
		}
		return nil
	}, selectHead, int64(c.Run))
}

// tellPost sets the verdict of a message in a group that was written before. If the message is not
// there, its receiver decides.
func (tx *transaction) tellPost(p *store.Post) error {
	p.Verdict, p.To, p.Number = store.Nobody, journal.Head{}, 0
	if there, err := tx.postedAgain(p); err != nil || there {
		return err
	}
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

package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Claim carries out a request of an engine: to join, renew its lease, take runs or entries of the
// outbox, or leave. It also reserves the ID of an engine.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	switch c := c.(type) {
	case store.Join:
		return s.join(c)
	case store.ReserveID:
		return s.reserveID()
	case store.Renew: // there are no leases
		return take(s, c.Engine, func(t *taking) error {
			_, err := t.exec(updateEngine, nanos(c.Drain.Until), int64(c.Drain.Runs),
				int64(c.Drain.Steps), listText(c.Workflows), nanos(c.Now), listText(c.Loops),
				int64(c.Engine))
			return err
		})
	case store.Leave:
		return store.Claimed{Engine: c.Engine}, s.quit(c)
	case store.TakeRun:
		return take(s, c.Engine, func(t *taking) error { return t.one(c.Run) })
	case store.TakeDue:
		return take(s, c.Engine, func(t *taking) error {
			if err := t.revision(); err != nil {
				return err
			}
			if err := t.mail(); err != nil || c.Max <= 0 {
				return err
			}
			return t.due(c)
		})
	case store.TakeOutbox:
		return s.outbox(ctx, c)
	}
	return store.Claimed{}, store.InvalidClaim(c)
}

// take calls do in a transaction of an engine.
func take(s *Store, engine journal.EngineID, do func(*taking) error) (store.Claimed, error) {
	var out store.Claimed
	err := s.write(func(db *conn) error {
		out = store.Claimed{Engine: engine}
		if err := fence(db, engine); err != nil {
			return err
		}
		return do(&taking{conn: db, store: s, engine: engine, out: &out})
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

const (
	// selectOutbox sees all workflows at one moment, because it is one statement. Otherwise the
	// caller's cursor could pass a number that is committed between two statements.
	selectOutbox = `select o.number, o.run, o.seq from json_each(?1) w cross join perdure_owed o
where o.number in (select number from perdure_owed where workflow = w.value and number > ?2 order by number limit ?3 + 0)`

	selectOne = `select ` + entryColumns +
		`, (select s.data from perdure_spilled s where s.id = spill) from perdure_entries where run = ? and seq = ?`
)

// outbox returns entries of the outbox. It writes nothing, so it does not wait for the writer. It
// leaves out an entry that is not readable; readers of the journal get the reason.
func (s *Store) outbox(ctx context.Context, c store.TakeOutbox) (store.Claimed, error) {
	var out store.Claimed
	err := s.read(ctx, func(db *conn) error {
		out = store.Claimed{Engine: c.Engine}
		if err := fence(db, c.Engine); err != nil {
			return err
		}
		for out.More = true; out.More && len(out.Outbox) < c.Limit; {
			page, more, err := outboxAfter(db, c)
			if err != nil || len(page) == 0 {
				out.More = false
				return err
			}
			c.After, out.More = page[len(page)-1].Number, more
			for i := range page {
				o := &page[i]
				if len(out.Outbox) == c.Limit {
					out.More = true
					break
				}
				ok, err := s.fillOutboxEntry(db, o)
				if err != nil {
					return err
				}
				if ok {
					out.Outbox = append(out.Outbox, *o)
				}
			}
		}
		return nil
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

// outboxAfter returns the next numbers in the outbox of the named workflows. It reports whether
// there are more.
func outboxAfter(db *conn, c store.TakeOutbox) (page []store.OutboxEntry, more bool, err error) {
	workflows, err := json.Marshal(c.Workflows)
	if err != nil {
		return nil, false, err
	}
	err = db.query(func(row []driver.Value) error {
		o := store.OutboxEntry{Number: integer(row[0])}
		o.Entry.Run, o.Entry.Seq = journal.Number(integer(row[1])), integer(row[2])
		page = append(page, o)
		return nil
	}, selectOutbox, string(workflows), c.After, int64(c.Limit)+1)
	slices.SortFunc(page, func(a, b store.OutboxEntry) int {
		return cmp.Compare(a.Number, b.Number)
	})
	if len(page) > c.Limit {
		return page[:c.Limit], true, err
	}
	return page, false, err
}

// fillOutboxEntry reads the head and the entry of an entry of the outbox. They do not exist any
// more if somebody was told of the entry meanwhile and the run was purged.
func (s *Store) fillOutboxEntry(db *conn, o *store.OutboxEntry) (ok bool, err error) {
	err = db.query(func(row []driver.Value) error {
		o.Head = s.head(row)
		return nil
	}, selectHead, int64(o.Entry.Run))
	if err != nil {
		return false, err
	}
	err = db.query(func(row []driver.Value) (err error) {
		o.Entry, err = entry(o.Entry.Run, row)
		if err == nil && o.Entry.Spill != 0 {
			o.Entry.Data, err = spilled(&o.Entry, row[len(row)-1])
		}
		ok = err == nil
		return err
	}, selectOne, int64(o.Entry.Run), o.Entry.Seq)
	if isCorrupt(err) {
		err = nil
	}
	return ok, err
}

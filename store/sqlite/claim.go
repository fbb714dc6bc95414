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

// Claim joins an engine, gives it runs, or takes it off.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	switch {
	case c.Engine == 0 && c.Visit:
		return s.visit()
	case c.Engine == 0:
		return s.join(c)
	case c.Leave:
		return store.Claimed{Engine: c.Engine}, s.quit(c)
	case c.Run == 0 && c.Outbox > 0:
		return s.owed(ctx, c)
	}
	var out store.Claimed
	err := s.write(func(db *conn) error {
		out = store.Claimed{Engine: c.Engine}
		if err := fence(db, c.Engine); err != nil {
			return err
		}
		t := taking{conn: db, store: s, engine: c.Engine, out: &out}
		if c.Run != 0 {
			return t.one(c.Run)
		}
		if err := t.mail(); err != nil || c.Max <= 0 {
			return err
		}
		return t.due(c)
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

const (
	// selectOwed sees all workflows at one moment, since it is one statement. Otherwise the
	// cursor of the caller could pass a number that is committed between two.
	selectOwed = `select o.number, o.run, o.seq from json_each(?1) w cross join perdure_owed o
where o.number in (select number from perdure_owed where workflow = w.value and number > ?2 order by number limit ?3 + 0)`

	selectOne = `select ` + entryColumns + `, (select s.data from perdure_spilled s where s.id = spill) from perdure_entries where run = ? and seq = ?`
)

// owed gives entries that somebody is to be told of. It writes nothing, and so
// does not wait for who writes. One that cannot be read is left out: who reads
// the journal is told why.
func (s *Store) owed(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var out store.Claimed
	err := s.read(ctx, func(db *conn) error {
		out = store.Claimed{Engine: c.Engine}
		if err := fence(db, c.Engine); err != nil {
			return err
		}
		for out.More = true; out.More && len(out.Outbox) < c.Outbox; {
			page, more, err := owedAfter(db, c)
			if err != nil || len(page) == 0 {
				out.More = false
				return err
			}
			c.After, out.More = page[len(page)-1].Number, more
			for i := range page {
				o := &page[i]
				if len(out.Outbox) == c.Outbox {
					out.More = true
					break
				}
				ok, err := s.fillOwed(db, o)
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

// owedAfter returns the next numbers of the named workflows, and whether there are
// more.
func owedAfter(db *conn, c store.Claim) (page []store.OutboxEntry, more bool, err error) {
	workflows, err := json.Marshal(c.Workflows)
	if err != nil {
		return nil, false, err
	}
	err = db.query(func(row []driver.Value) error {
		o := store.OutboxEntry{Number: integer(row[0])}
		o.Entry.Run, o.Entry.Seq = journal.Number(integer(row[1])), integer(row[2])
		page = append(page, o)
		return nil
	}, selectOwed, string(workflows), c.After, int64(c.Outbox)+1)
	slices.SortFunc(page, func(a, b store.OutboxEntry) int { return cmp.Compare(a.Number, b.Number) })
	if len(page) > c.Outbox {
		return page[:c.Outbox], true, err
	}
	return page, false, err
}

// fillOwed reads the head and the entry of what is owed. It is not there any more
// if somebody was told meanwhile and the run purged.
func (s *Store) fillOwed(db *conn, o *store.OutboxEntry) (ok bool, err error) {
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

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// read calls f with a connection for reading.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.files.lost(); err != nil {
		return err
	}
	err := s.readers.use(f)
	if code(err) != 0 {
		err = fmt.Errorf("sqlite: %w", damaged(err))
	}
	return err
}

// Load returns entries of one journal in order, or messages of one inbox. If a row is not readable
// or is missing, it returns the rows before it and a CorruptError.
func (s *Store) Load(ctx context.Context, n journal.Number, r store.Range) (entries []journal.Entry,
	err error) {
	runs := r.Ends
	if len(runs) == 0 {
		runs = []journal.Number{n}
	}
	err = s.read(ctx, func(c *conn) error {
		entries = nil
		for _, n := range runs {
			sql, args := rangeOf(n, r)
			read := reader(n, r)
			err := c.query(func(row []driver.Value) error {
				e, err := read(n, row)
				if err == nil && r.Payloads && e.Spill != 0 {
					e.Data, err = spilled(&e, row[len(row)-1])
				}
				if err == nil {
					entries = append(entries, e)
				}
				return err
			}, sql, args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if whole, missing := r.Whole(n, entries); missing != nil {
		return whole, missing
	}
	return entries, err
}

const payloadColumn = ", (select s.data from perdure_spilled s where s.id = spill) as payload"

// isThere is true if the head of the run exists. Rows that a purge has left of a removed run belong
// to nobody.
const isThere = " and exists (select 1 from perdure_heads where number = ?1)"

// rangeOf returns a range as SQL. There are only few different texts.
func rangeOf(n journal.Number, r store.Range) (sql string, args []driver.Value) {
	columns, table, key := entryColumns, "perdure_entries where run = ?1"+isThere, "seq"
	args = []driver.Value{int64(n)}
	switch {
	case r.Inbox && n == 0:
		columns, table, key = messageColumns+", workflow_id, until", "perdure_unrouted where ? = 0",
			"number"
	case r.Inbox:
		columns, table, key = messageColumns,
			"perdure_messages where holder = (select coalesce(inbox, number) from perdure_heads "+
				"where number = ?1) and taken is null", "number"
	}
	if r.Payloads {
		columns += payloadColumn
	}
	if len(r.Ends) > 0 {
		return "select " + columns + " from perdure_entries where run = ? and seq = (select last " +
				"from perdure_heads where number = ? and ended is not null)",
			append(args, int64(n))
	}
	if r.Inbox && r.Name != "" {
		table += " and name = ?"
		args = append(args, r.Name)
	}
	limit := int64(-1)
	if r.Limit > 0 {
		limit = int64(r.Limit)
	}
	if r.Tail {
		sql = "select * from (select " + columns + " from " + table + " order by " + key +
			" desc limit ? + 0) order by 1"
		return sql, append(args, limit)
	}
	sql = "select " + columns + " from " + table + " and " + key + " >= ? order by " + key +
		" limit ? + 0"
	return sql, append(args, r.From, limit)
}

// reader returns the function that reads the rows of a range.
func reader(n journal.Number, r store.Range) func(journal.Number, []driver.Value) (journal.Entry,
	error) {
	switch {
	case r.Inbox && n == 0:
		return unroutedMessage
	case r.Inbox:
		return message
	}
	return entry
}

// unroutedMessage returns a message that found no run, with its workflow ID and the time when it
// expires.
func unroutedMessage(_ journal.Number, row []driver.Value) (journal.Entry, error) {
	e, err := message(0, row)
	if err != nil {
		return e, err
	}
	if e.Detail == nil {
		e.Detail = new(journal.Detail)
	}
	e.Detail.To, e.Detail.Due = str(row[13]), moment(row[14])
	return e, nil
}

func spilled(e *journal.Entry, v driver.Value) ([]byte, error) {
	if v == nil {
		return nil, &journal.CorruptError{
			Run: e.Run, Seq: e.Seq, Reason: "its payload is not there",
		}
	}
	return blob(v), nil
}

// Spill makes one large payload durable. The same payload may be sent again.
func (s *Store) Spill(_ context.Context, engine journal.EngineID, id journal.Number,
	data []byte) error {
	return s.write(func(c *conn) error {
		if err := fence(c, engine); err != nil {
			return err
		}
		if data == nil {
			data = []byte{}
		}
		_, err := c.exec(insertSpilled, int64(id), data)
		return err
	})
}

const selectEngines = `select id, host, pid, build, slots, since, drains, held_runs, held_steps, workflows, seen, loops,
    (select count(*) from perdure_heads where owner = perdure_engines.id and ended is null)
from perdure_engines order by id`

const selectEnginesAlone = `select id, host, pid, build, slots, since, drains, held_runs, held_steps, workflows, seen, loops, 0 from perdure_engines order by id`

// Info returns facts about the store and its engines.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info, err := s.info(ctx, selectEngines, map[string]func(*store.Info) *int64{
		"select count(*) from perdure_heads":    func(i *store.Info) *int64 { return &i.Runs },
		"select count(*) from perdure_unrouted": func(i *store.Info) *int64 { return &i.Unrouted },
		"select count(*) from perdure_owed":     func(i *store.Info) *int64 { return &i.Outbox },
	})
	if err == nil {
		info.Bytes, err = s.size()
	}
	return info, err
}

// Brief implements [store.Briefer].
func (s *Store) Brief(ctx context.Context) (store.Info, error) {
	return s.info(ctx, selectEnginesAlone, nil)
}

// info reads facts about the store, its engines with the statement, and the counts.
func (s *Store) info(ctx context.Context, engines string,
	counts map[string]func(*store.Info) *int64) (store.Info, error) {
	info := store.Info{
		Driver: "sqlite", Database: s.database, Schema: schemaVersion,
		Durability: "a commit survives the loss of power: WAL, synchronous=FULL",
	}
	err := s.read(ctx, func(c *conn) error {
		for sql, count := range counts {
			v, err := c.value(sql)
			if err != nil {
				return err
			}
			*count(&info) = integer(v)
		}
		var err error
		if info.Settings, err = settings(c); err != nil {
			return err
		}
		return c.query(func(row []driver.Value) error {
			e := store.Engine{
				ID: journal.EngineID(integer(row[0])), Host: str(row[1]), PID: int(integer(row[2])),
				Build: str(row[3]), Slots: int(integer(row[4])), Since: moment(row[5]),
				Drain: store.Drain{
					Until: moment(row[6]), Runs: int(integer(row[7])), Steps: int(integer(row[8])),
				},
				Seen: moment(row[10]), Runs: integer(row[12]),
			}
			err := errors.Join(readList(row[9], &e.Workflows), readList(row[11], &e.Loops))
			info.Engines = append(info.Engines, e)
			return err
		}, engines)
	})
	if err != nil {
		return store.Info{}, err
	}
	if len(info.Engines) > 0 {
		expired, err := s.isExpired()
		if err != nil {
			return store.Info{}, err
		}
		for i := range info.Engines {
			info.Engines[i].Expired = expired
		}
	}
	return info, nil
}

// size returns the size of the database on disk, including its log.
func (s *Store) size() (int64, error) {
	total := int64(0)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, err := os.Stat(s.path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += file.Size()
	}
	return total, nil
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"

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
	err := s.readers.use(f)
	if code(err) != 0 {
		err = fmt.Errorf("sqlite: %w", err)
	}
	return err
}

const (
	selectRange = `select ` + entryColumns + ` from entries where run = ? and seq >= ? order by seq limit ?`

	// selectFilled has a column more: the spilled payload.
	selectFilled = `select ` + entryColumns + `, (select s.data from spilled s where s.id = spill)
from entries where run = ? and seq >= ? order by seq limit ?`
)

// Load gives entries of one journal in order. Where a row cannot be read it
// gives those before it and a CorruptError.
func (s *Store) Load(ctx context.Context, n journal.Number, r store.Range) (entries []journal.Entry, err error) {
	sql, limit := selectRange, int64(-1)
	if r.Payloads {
		sql = selectFilled
	}
	if r.Limit > 0 {
		limit = int64(r.Limit)
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(func(row []driver.Value) error {
			e, err := entry(n, row)
			if err == nil && r.Payloads && e.Spill != 0 {
				e.Data, err = spilled(&e, row[len(row)-1])
			}
			if err == nil {
				entries = append(entries, e)
			}
			return err
		}, sql, int64(n), r.From, limit)
	})
	return entries, err
}

func spilled(e *journal.Entry, v driver.Value) ([]byte, error) {
	if v == nil {
		return nil, &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: "its payload is not there"}
	}
	return blob(v), nil
}

// Spill makes one large payload durable. It may be sent again.
func (s *Store) Spill(_ context.Context, engine journal.EngineID, id journal.Number, data []byte) error {
	return s.write(func(c *conn) error {
		if err := fence(c, engine); err != nil {
			return err
		}
		if data == nil {
			data = []byte{}
		}
		_, err := c.exec("insert or replace into spilled (id, data) values (?, ?)", int64(id), data)
		return err
	})
}

// Find gives heads by filter, newest first.
func (s *Store) Find(ctx context.Context, f store.Filter) (heads []journal.Head, next journal.Number, err error) {
	where, args := s.conditions(f)
	page := f.Page()
	sql := "select " + headColumns + " from heads" + where + " order by number desc limit ?"
	err = s.read(ctx, func(c *conn) error {
		heads, next = nil, 0
		return c.query(func(row []driver.Value) error {
			if len(heads) == page {
				next = heads[page-1].Number
				return nil
			}
			heads = append(heads, s.head(row))
			return nil
		}, sql, append(args, int64(page)+1)...)
	})
	return heads, next, err
}

// conditions gives what a filter means in SQL. The text depends only on which
// fields are set, so few statements are ever prepared.
func (s *Store) conditions(f store.Filter) (where string, args []driver.Value) {
	var terms []string
	add := func(term string, values ...driver.Value) {
		terms = append(terms, term)
		args = append(args, values...)
	}
	if f.Run != "" {
		n, _ := f.Run.Number(s.database) // zero where it is another database's
		add("number = ?", int64(n))
	}
	if f.After != 0 {
		add("number < ?", int64(f.After))
	}
	if f.WorkflowID != "" {
		// Each half has an index, and SQLite uses both.
		add("(workflow_id = ? and ended is null or workflow_id = ? and ended is not null)", f.WorkflowID, f.WorkflowID)
	}
	if f.Workflow != "" {
		add("workflow = ?", f.Workflow)
	}
	if f.Owner != 0 {
		add("owner = ? and ended is null", int64(f.Owner))
	}
	if len(f.Statuses) > 0 {
		var values []driver.Value
		for _, status := range f.Statuses {
			values = append(values, int64(status))
		}
		add("status in (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	if len(terms) == 0 {
		return "", nil
	}
	return " where " + strings.Join(terms, " and "), args
}

// Info tells what the store is and who uses it.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{
		Driver: "sqlite", Database: s.database, Schema: schemaVersion,
		Durability: "a commit survives the loss of power: WAL, synchronous=FULL",
	}
	err := s.read(ctx, func(c *conn) error {
		runs, err := c.value("select count(*) from heads")
		if err != nil {
			return err
		}
		info.Runs = integer(runs)
		return c.query(func(row []driver.Value) error {
			info.Engines = append(info.Engines, store.Engine{
				ID: journal.EngineID(integer(row[0])), Host: str(row[1]), PID: int(integer(row[2])),
				Build: str(row[3]), Since: moment(row[4]),
			})
			return nil
		}, "select id, host, pid, build, since from engines order by id")
	})
	if err != nil {
		return store.Info{}, err
	}
	info.Bytes, err = s.size()
	return info, err
}

// size is what the database takes on disk, with its log.
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

package sqlmemory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

// A Dialect is a kind of database. The zero value is none.
type Dialect int

// These are the databases.
const (
	SQLite Dialect = iota + 1
	PostgreSQL
)

// clocks are the present times of the databases, in microseconds since 1970.
var clocks = map[Dialect]string{
	SQLite:     `cast(unixepoch('subsec') * 1000000 as integer)`,
	PostgreSQL: `cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)`,
}

// DDL is the statement that makes the table, for both databases. The version is 0 as long as there
// is no state; then there is no parent either. Ends is when the lock of the token ends, in
// microseconds since 1970, and 0 after an unlock.
const DDL = `create table if not exists perdure_instances (
	subject bytea  not null primary key,
	parent  bytea,
	state   bytea,
	version bigint not null,
	token   bigint not null,
	ends    bigint not null,
	unique (parent, subject)
)`

// The statements. NOW is the clock. Arguments occur in their order for the first time, because some
// drivers for SQLite count names.
const (
	probe = `select subject, parent, state, version, token, ends from perdure_instances where 1 = 0`
	read  = `select state, version from perdure_instances where subject = $1 and version > 0`
	write = `update perdure_instances
		set state = $1, parent = coalesce($2, parent), version = version + 1
		where subject = $3 and token = $4 and version = $5 and ends > NOW`
	held = `select 1 from perdure_instances where subject = $1 and token = $2 and ends > NOW`
	lock = `insert into perdure_instances as i (subject, version, token, ends)
		values ($1, 0, 1, NOW + $2)
		on conflict (subject) do update set token = i.token + 1, ends = NOW + $2 where i.ends <= NOW
		returning token`
	unlock = `update perdure_instances set ends = 0
		where subject = $1 and token = $2 and ends > NOW`
	family = `select subject from perdure_instances where parent = $1 order by subject`
)

// A Memory is an [orchestrator.Memory] and an [orchestrator.Family] in a database. States are kept
// as JSON. It has no state of its own, and many processes may have one. [Open] makes it.
type Memory[T any] struct {
	db  *sql.DB
	now string
}

// Open returns the memory in a database. It makes the table if it does not exist, and fails if
// another table has its name. Many processes may call it at a time. A user without the right to
// make tables can call it, too, if the table exists. On SQLite it tries for a second or two. The
// caller closes db, after the last call.
func Open[T any](ctx context.Context, db *sql.DB, d Dialect) (*Memory[T], error) {
	now, known := clocks[d]
	if db == nil || !known {
		return nil, errors.New("sqlmemory: a database and its dialect are needed")
	}
	m := &Memory[T]{db, now}
	err := m.create(ctx)
	// SQLite waits for nobody who changes the journal mode, as the first process does.
	for pause := firstPause; err != nil && d == SQLite && pause <= lastPause; pause *= 2 {
		select {
		case <-time.After(pause):
			err = m.create(ctx)
		case <-ctx.Done():
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// The pauses of Open. They double.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// create makes the table if it does not exist.
func (m *Memory[T]) create(ctx context.Context) error {
	_, err := m.db.ExecContext(ctx, DDL)
	// On PostgreSQL it fails for one of two that call it at the same time, and for users without
	// the right to make tables. What counts is whether the table exists.
	if lacks := m.query(ctx, nothing, probe); lacks != nil {
		return fmt.Errorf("sqlmemory: create the table: %w", errors.Join(err, lacks))
	}
	return nil
}

// Read returns the state of a subject.
func (m *Memory[T]) Read(ctx context.Context, subject string, _ *orchestrator.Metadata) (
	*orchestrator.State[T], error) {
	var data []byte
	s := &orchestrator.State[T]{}
	err := m.query(ctx, func(row *sql.Rows) error {
		return row.Scan(&data, &s.Version)
	}, read, []byte(subject))
	if err == nil && s.Version > 0 {
		err = json.Unmarshal(data, &s.Value)
	}
	if err != nil || s.Version == 0 {
		return nil, failed("read", subject, err)
	}
	return s, nil
}

// Write stores a state. After an error other than the two of the contract, it is either stored
// completely or not at all.
func (m *Memory[T]) Write(ctx context.Context, subject string, c orchestrator.Change[T],
	meta *orchestrator.Metadata) error {
	data, err := json.Marshal(c.Next)
	if err != nil {
		return failed("write", subject, err)
	}
	var before int64
	if c.Prev != nil {
		before = c.Prev.Version
	}
	written, err := m.change(ctx, write, data, parentIn(meta), []byte(subject), int64(c.Lock),
		before)
	if err == nil && !written {
		err = m.refusal(ctx, subject, c.Lock)
	}
	return failed("write", subject, err)
}

// parentIn returns the parent that metadata know, or nil.
func parentIn(meta *orchestrator.Metadata) []byte {
	if meta == nil {
		return nil
	}
	if name, _ := meta.Parent.Name(); name != "" {
		return []byte(name)
	}
	return nil
}

// refusal returns why a write under a lock has changed nothing.
//
// It looks later than the write did. If the lock is not held now, the write is fenced, whatever it
// was before. If it is held, it was held during the write, too: a lock that has passed is not held
// again, unless the clock goes back. So it was the version, also if the version fits by now, since
// somebody has written under the same lock in between.
func (m *Memory[T]) refusal(ctx context.Context, subject string, t orchestrator.Token) error {
	err := orchestrator.ErrFenced
	failure := m.query(ctx, func(*sql.Rows) error {
		err = orchestrator.ErrConflict
		return nil
	}, held, []byte(subject), int64(t))
	if failure != nil {
		return failure
	}
	return err
}

// Lock takes the lock of a subject.
func (m *Memory[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *orchestrator.Metadata) (t orchestrator.Token, err error) {
	err = m.query(ctx, func(row *sql.Rows) error {
		return row.Scan(&t)
	}, lock, []byte(subject), ttl.Microseconds())
	if err != nil {
		return 0, failed("lock", subject, err)
	}
	return t, nil
}

// Unlock ends a lock.
func (m *Memory[T]) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	_ *orchestrator.Metadata) (bool, error) {
	freed, err := m.change(ctx, unlock, []byte(subject), int64(t))
	return freed, failed("unlock", subject, err)
}

// Children returns the subjects of the instances of a parent, in the order of their bytes.
func (m *Memory[T]) Children(ctx context.Context, parent string) (all []string, _ error) {
	err := m.query(ctx, func(row *sql.Rows) error {
		all = append(all, "")
		return row.Scan(&all[len(all)-1])
	}, family, []byte(parent))
	if err != nil {
		return nil, failed("children of", parent, err)
	}
	return all, nil
}

// failed returns an error of a call, or nil if there is none.
func failed(call, subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlmemory: %s %s: %w", call, subject, err)
}

// change executes a statement, and reports whether it has changed a row.
func (m *Memory[T]) change(ctx context.Context, statement string, args ...any) (bool, error) {
	done, err := m.db.ExecContext(ctx, m.with(statement), args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// query executes a statement and calls f with each row. It reads to the end: SQLite commits after
// the last row, so a commit that fails is an error there. A row alone proves nothing.
func (m *Memory[T]) query(ctx context.Context, f func(*sql.Rows) error, statement string,
	args ...any) error {
	rows, err := m.db.QueryContext(ctx, m.with(statement), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func nothing(*sql.Rows) error { return nil }

// with returns a statement with the clock of the database.
func (m *Memory[T]) with(statement string) string {
	return strings.ReplaceAll(statement, "NOW", m.now)
}

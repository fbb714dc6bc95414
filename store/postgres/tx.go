package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var _ store.Transactor = (*Store)(nil)

const (
	// checkDatabase fails if the transaction is on another database of this module.
	checkDatabase = `select 1 / count(*) from perdure.meta where key = 'database' and value = $1`

	// beDurable makes the commit of the transaction wait until it is durable.
	beDurable = `select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`

	// notify notifies other nodes. In a transaction of the user's it does so when that is
	// committed, which only the server knows. Commits of transactions that contain it wait
	// for each other.
	notify = `select pg_notify('` + channel + `', '')`

	isolation = `select current_setting('transaction_isolation')`

	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
)

// In takes part in a pgx.Tx, or in a *[sql.Tx] of any PostgreSQL driver that writes
// arguments as $1. Until the transaction ends, others cannot write the heads of runs to which
// it has sent messages, nor start runs or send messages with the workflow IDs that it has
// used. So it should end soon after.
func (s *Store) In(tx any) (store.Transaction, error) {
	switch t := tx.(type) {
	case pgx.Tx:
		return &part{s, func(ctx context.Context, b *batch) error { return b.send(ctx, t) }}, nil
	case *sql.Tx:
		if t != nil {
			return &part{
				s,
				func(ctx context.Context, b *batch) error { return b.oneByOne(ctx, t) },
			}, nil
		}
	}
	return nil, s.foreign(fmt.Sprintf("a %T", tx))
}

func (s *Store) foreign(got string) error {
	return &store.TransactionError{
		Driver: "postgres", Want: "a pgx.Tx or a *sql.Tx on the same database", Got: got,
	}
}

// A part is this store's part in a transaction of the user's.
type part struct {
	store *Store
	send  func(context.Context, *batch) error
}

// use executes statements, after a check that the transaction is on this database.
func (p *part) use(ctx context.Context, b *batch) error {
	s := p.store
	if s.life.Err() != nil {
		return store.ErrClosed
	}
	if s.options.ReadOnly {
		return errors.New("postgres: it was opened for reading only")
	}
	var check batch
	check.add(checkDatabase, s.database).or(s.foreign("one on another database"))
	b.queries = append(check.queries, b.queries...)
	err := p.send(ctx, b)
	var elsewhere *store.TransactionError
	switch {
	case errors.As(err, &elsewhere):
		return elsewhere
	case code(err) == undefinedTable, code(err) == undefinedSchema:
		return s.foreign("one on a database without the schema perdure")
	case isData(err):
		return &store.DataError{Err: err}
	}
	return s.finished(err)
}

// Commit is [store.Transaction].Commit.
func (p *part) Commit(ctx context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	forgetAnswers(g)
	t := transaction{store: p.store, group: g, inTx: true}
	if err := t.prepare(); err != nil {
		return err
	}
	if t.readsLatest() {
		if err := p.readsCommitted(ctx); err != nil {
			return err
		}
	}
	if g.Engine != 0 && !p.store.options.Unsafe {
		t.batch.add(beDurable)
	}
	if err := p.use(ctx, &t.batch); err != nil {
		return err
	}
	p.store.tick(ctx, g.Now)
	if p.store.options.Pooler || !concern(g) {
		return nil
	}
	var b batch
	b.add(notify)
	return p.store.finished(p.send(ctx, &b))
}

// tick writes the clock outside the user's transaction, which may be long.
func (s *Store) tick(ctx context.Context, now time.Time) {
	s.mu.Lock()
	due := !now.Before(s.clock.Add(clockEvery))
	s.mu.Unlock()
	if !due {
		return
	}
	if _, err := s.pool.Exec(ctx, tick, nanos(now)); err == nil { // else the next call does
		s.ticked(now)
	}
}

// readsLatest reports whether the statements of the group must see everything that others
// have committed since the transaction began, and no error would occur if they did not: a
// search for the run of a workflow ID must not miss a run.
func (t *transaction) readsLatest() bool {
	for i := range t.starts.workflowID {
		if !t.ownID(i) {
			return true
		}
	}
	return len(t.posts.byID) > 0
}

// readsCommitted refuses a transaction whose statements only see what was committed before it
// began.
func (p *part) readsCommitted(ctx context.Context) error {
	var b batch
	var level string
	b.add(isolation).each(func(rows pgx.Rows) error { return rows.Scan(&level) })
	if err := p.use(ctx, &b); err != nil {
		return err
	}
	if level != "read committed" {
		return p.store.foreign("one of isolation " + level +
			", which may not see the run of a workflow ID: use read committed, or a run ID")
	}
	return nil
}

// ReserveID is [store.Transaction].ReserveID.
func (p *part) ReserveID(ctx context.Context) (journal.EngineID, error) {
	var b batch
	var id int64
	b.add(nextEngine).each(func(rows pgx.Rows) error { return rows.Scan(&id) })
	err := p.use(ctx, &b)
	return journal.EngineID(id), err
}

// oneByOne executes the statements of a batch in a transaction of package database/sql.
func (b *batch) oneByOne(ctx context.Context, tx *sql.Tx) error {
	for i := range b.queries {
		if err := b.queries[i].in(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (q *query) in(ctx context.Context, tx *sql.Tx) (err error) {
	args := make([]any, len(q.args))
	for i, arg := range q.args {
		if args[i], err = plain(arg); err != nil {
			return err
		}
	}
	rows, err := tx.QueryContext(ctx, q.sql, args...)
	if err != nil {
		return q.explain(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if q.row == nil {
			continue
		}
		if err := q.row(sqlRows{rows: rows}); err != nil {
			return err
		}
	}
	return q.explain(rows.Err())
}

// sqlRows are rows of package database/sql in the form that a query reads. A query calls only
// their Scan.
type sqlRows struct {
	pgx.Rows
	rows *sql.Rows
}

// Scan is like Scan of pgx.Rows: a nil target skips a column.
func (r sqlRows) Scan(into ...any) error {
	all := append([]any(nil), into...)
	for i := range all {
		if all[i] == nil {
			all[i] = new(any)
		}
	}
	return r.rows.Scan(all...)
}

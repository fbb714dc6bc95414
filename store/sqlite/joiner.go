package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var _ store.Joiner = (*Store)(nil)

// Join takes part in a *[sql.Tx] of the user's own connection to the same file. From
// its first write to its end, such a transaction has the database's only lock for
// writing: everybody else waits. It waits for the lock itself where somebody has it, but
// SQLite gives it to none that has read what others have written since: such a transaction
// is refused with a [store.TransactionError], unless it has begun with the lock
// (_txlock=immediate in the address of the connection, or [Transactions]).
func (s *Store) Join(tx any) (store.Transaction, error) {
	if t, ok := tx.(*sql.Tx); ok && t != nil {
		return &joined{store: s, tx: t}, nil
	}
	return nil, s.foreign(fmt.Sprintf("a %T", tx))
}

func (s *Store) foreign(got string) error {
	return &store.TransactionError{Driver: "sqlite", Want: "a *sql.Tx on the same file", Got: got}
}

// A joined is a part in a transaction of the user's.
type joined struct {
	store *Store
	tx    *sql.Tx
}

// use calls f with the user's connection, where it is one to this database.
func (j *joined) use(ctx context.Context, f func(*conn) error) error {
	s := j.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.options.ReadOnly {
		return errors.New("sqlite: it was opened for reading only")
	}
	if err := s.files.lost(); err != nil {
		return err
	}
	c := &conn{raw: &foreignConn{context.WithoutCancel(ctx), j.tx}, stmts: map[string]*stmt{}}
	database, err := "", takeLockIn(ctx, c) // before anything is read, which might be too old then
	if err == nil {
		database, err = identity(c)
	}
	var stale *store.TransactionError
	switch {
	case errors.As(err, &stale):
		return err
	case errors.Is(err, store.ErrForeign), code(err) == sqlite3.SQLITE_ERROR:
		// there is no such table
		return s.foreign("one elsewhere")
	case err == nil && database != s.database:
		return s.foreign("one on database " + database)
	}
	if err == nil {
		err = f(c)
	}
	if isData(err) {
		err = &store.DataError{Err: err}
	}
	if err == nil || isRefusal(err) {
		return err
	}
	return fmt.Errorf("sqlite: %w", damaged(err))
}

// Commit is [store.Transaction].Commit.
func (j *joined) Commit(ctx context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	return j.use(ctx, func(c *conn) error {
		if g.Engine != 0 {
			if err := durable(c); err != nil {
				return err
			}
		}
		tx := transaction{conn: c, store: j.store, group: g}
		if err := tx.begin(); err != nil {
			return err
		}
		if _, err := c.exec(updateClock, nanos(g.Now)); err != nil {
			return err
		}
		if err := tx.each(tx.find, nil)(); err != nil {
			return err
		}
		return tx.write()
	})
}

// find refuses the first entry of a run that is not there, which a connection of the
// user's may not do by itself. What follows an entry is looked at in any case.
func (tx *transaction) find(c *store.Change) error {
	if c.Create || len(c.Entries) == 0 || c.Follows() > 0 {
		return nil
	}
	row, err := tx.value("select 1 from perdure_heads where number = ?", int64(c.Run))
	if err == nil && row == nil {
		err = &store.DataError{Err: fmt.Errorf("there is no run %d", c.Run)}
	}
	return err
}

// durable refuses a connection whose commits may be lost: what follows from an entry
// must not be there without it.
func durable(c *conn) error {
	level, err := c.value("pragma synchronous")
	if err == nil && integer(level) < 2 {
		err = &store.DataError{
			Err: fmt.Errorf("synchronous is %v on the connection of the transaction, and it "+
				"must be full", level),
		}
	}
	return err
}

// ReserveID is [store.Transaction].ReserveID.
func (j *joined) ReserveID(ctx context.Context) (id journal.EngineID, err error) {
	err = j.use(ctx, func(c *conn) error {
		id, err = newEngineID(c)
		return err
	})
	return id, err
}

// A foreignConn makes a transaction of package database/sql what this package writes
// through.
type foreignConn struct {
	ctx context.Context
	tx  *sql.Tx
}

var _ driver.ConnPrepareContext = (*foreignConn)(nil)

// PrepareContext gives a statement. SQLite sees it when it is executed.
func (c *foreignConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &foreignStmt{c, query}, nil
}

// Prepare is [driver.Conn].Prepare.
func (c *foreignConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(c.ctx, query)
}

// Close is [driver.Conn].Close: it is the user's to close.
func (c *foreignConn) Close() error { return nil }

// Begin is [driver.Conn].Begin, of which there is no need.
func (c *foreignConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

type foreignStmt struct {
	conn  *foreignConn
	query string
}

var (
	_ driver.StmtExecContext  = (*foreignStmt)(nil)
	_ driver.StmtQueryContext = (*foreignStmt)(nil)
)

// ExecContext is [driver.StmtExecContext].ExecContext.
func (s *foreignStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result,
	error) {
	return s.conn.tx.ExecContext(s.conn.ctx, s.query, values(args)...)
}

// QueryContext is [driver.StmtQueryContext].QueryContext.
func (s *foreignStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows,
	error) {
	rows, err := s.conn.tx.QueryContext(s.conn.ctx, s.query, values(args)...)
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return &foreignRows{rows, columns}, nil
}

func values(args []driver.NamedValue) []any {
	out := make([]any, len(args))
	for i := range args {
		out[i] = args[i].Value
	}
	return out
}

// Close is [driver.Stmt].Close.
func (s *foreignStmt) Close() error { return nil }

// NumInput is [driver.Stmt].NumInput: SQLite counts.
func (s *foreignStmt) NumInput() int { return -1 }

// Exec is [driver.Stmt].Exec, which is never used.
func (s *foreignStmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.ErrUnsupported
}

// Query is [driver.Stmt].Query, which is never used.
func (s *foreignStmt) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.ErrUnsupported
}

type foreignRows struct {
	rows    *sql.Rows
	columns []string
}

// Columns is [driver.Rows].Columns.
func (r *foreignRows) Columns() []string { return r.columns }

// Close is [driver.Rows].Close.
func (r *foreignRows) Close() error { return r.rows.Close() }

// Next is [driver.Rows].Next.
func (r *foreignRows) Next(row []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	into := make([]any, len(row))
	for i := range row {
		into[i] = (*any)(&row[i])
	}
	return r.rows.Scan(into...)
}

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

var _ store.Transactor = (*Store)(nil)

// In takes part in a transaction of the application, a *[sql.Tx] of its own connection to the
// same file. From its first write to its end, such a transaction has the only lock for writing of
// the database, and all other writers wait. It waits itself if another connection has the lock. But
// SQLite does not give the lock to a transaction that has read data which others have changed
// since. Such a transaction is refused with a [store.TransactionError], unless it has begun with
// the lock (_txlock=immediate in the address of the connection, or [Transactions]).
func (s *Store) In(tx any) (store.Transaction, error) {
	if t, ok := tx.(*sql.Tx); ok && t != nil {
		return &txPart{store: s, tx: t}, nil
	}
	return nil, foreign(fmt.Sprintf("a %T", tx))
}

// withoutStore refuses a transaction on a file that has no store.
func withoutStore() error { return foreign("one on a file without a store") }

func foreign(got string) error {
	return &store.TransactionError{Driver: "sqlite", Want: "a *sql.Tx on the same file", Got: got}
}

// A txPart is this store's part in a transaction of the application.
type txPart struct {
	store *Store
	tx    *sql.Tx
}

// use calls f with the application's connection, if that is a connection to this database.
func (p *txPart) use(ctx context.Context, f func(*conn) error) error {
	s := p.store
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
	c := &conn{raw: &foreignConn{context.WithoutCancel(ctx), p.tx}, stmts: map[string]*stmt{}}
	// The lock comes before the first read, which might be too old for it otherwise.
	database, err := "", takeLockIn(ctx, c)
	if err == nil {
		database, err = identity(c)
	}
	var stale *store.TransactionError
	switch {
	case errors.As(err, &stale):
		return err
	case errors.Is(err, store.ErrForeign), code(err) == sqlite3.SQLITE_ERROR:
		// there is no such table
		return withoutStore()
	case err == nil && database != s.database:
		return foreign("one on database " + database)
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

// Commit implements [store.Transaction].
func (p *txPart) Commit(ctx context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	return p.use(ctx, func(c *conn) error {
		if g.Engine != 0 {
			if err := durable(c); err != nil {
				return err
			}
		}
		tx := transaction{conn: c, store: p.store, group: g}
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

// find refuses the first entry of a run that does not exist. The application's connection may have
// foreign keys off, so it would not refuse such an entry by itself. For later entries, the entry
// before is looked for in any case.
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

// durable refuses a connection whose commits may be lost, because the effects of an entry must not
// exist without the entry.
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

// ReserveID implements [store.Transaction].
func (p *txPart) ReserveID(ctx context.Context) (id journal.EngineID, err error) {
	err = p.use(ctx, func(c *conn) error {
		id, err = newEngineID(c)
		return err
	})
	return id, err
}

// A foreignConn is a connection for this package that writes through a transaction of package
// database/sql.
type foreignConn struct {
	ctx context.Context
	tx  *sql.Tx
}

var _ driver.ConnPrepareContext = (*foreignConn)(nil)

// PrepareContext returns a statement. SQLite sees it only when it is executed.
func (c *foreignConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &foreignStmt{c, query}, nil
}

// Prepare implements [driver.Conn].
func (c *foreignConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(c.ctx, query)
}

// Close implements [driver.Conn]. It does nothing: the application closes the connection.
func (c *foreignConn) Close() error { return nil }

// Begin implements [driver.Conn]. It is never used.
func (c *foreignConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

type foreignStmt struct {
	conn  *foreignConn
	query string
}

var (
	_ driver.StmtExecContext  = (*foreignStmt)(nil)
	_ driver.StmtQueryContext = (*foreignStmt)(nil)
)

// ExecContext implements [driver.StmtExecContext].
func (s *foreignStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result,
	error) {
	return s.conn.tx.ExecContext(s.conn.ctx, s.query, values(args)...)
}

// QueryContext implements [driver.StmtQueryContext].
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

// Close implements [driver.Stmt].
func (s *foreignStmt) Close() error { return nil }

// NumInput implements [driver.Stmt]. It returns -1: SQLite counts the arguments.
func (s *foreignStmt) NumInput() int { return -1 }

// Exec implements [driver.Stmt]. It is never used.
func (s *foreignStmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.ErrUnsupported
}

// Query implements [driver.Stmt]. It is never used.
func (s *foreignStmt) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.ErrUnsupported
}

type foreignRows struct {
	rows    *sql.Rows
	columns []string
}

// Columns implements [driver.Rows].
func (r *foreignRows) Columns() []string { return r.columns }

// Close implements [driver.Rows].
func (r *foreignRows) Close() error { return r.rows.Close() }

// Next implements [driver.Rows].
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

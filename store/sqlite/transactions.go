package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/store"
)

// Transactions returns a source of transactions on db, the application's own handle on the file of
// a [Store]. Each transaction has the lock for writing from its beginning to its end. If db is on
// another file, the error is a [store.TransactionError], and a step that gets it fails without
// further attempts.
func Transactions(db *sql.DB) *SQLTransactions { return &SQLTransactions{db} }

// SQLTransactions is a source of transactions of a *[sql.DB]. A transaction ends when the context
// ends that it was begun with.
type SQLTransactions struct{ db *sql.DB }

// takeLock takes the lock and writes nothing.
const takeLock = `delete from perdure_meta where 0`

// Begin begins a transaction that has the lock. It waits at most 30 seconds for the lock. The error
// wraps a [store.TransactionError] if the file has no store.
func (t *SQLTransactions) Begin(ctx context.Context) (*sql.Tx, error) {
	for began := time.Now(); ; {
		tx, err := t.db.BeginTx(ctx, nil)
		if err == nil {
			if _, err = tx.ExecContext(ctx, takeLock); err == nil {
				return tx, nil
			}
			if code(err) == sqlite3.SQLITE_ERROR { // there is no such table
				err = withoutStore()
			}
			err = errors.Join(err, tx.Rollback())
		}
		if code(err) != sqlite3.SQLITE_BUSY || ctx.Err() != nil || time.Since(began) > busyFor {
			return nil, fmt.Errorf("sqlite: begin a transaction: %w", err)
		}
	}
}

// takeLockIn makes a transaction of the application take the lock for writing. It waits at most 30
// seconds for the lock. SQLite does not give the lock to a transaction that has read data which
// others have changed since.
func takeLockIn(ctx context.Context, c *conn) error {
	for began := time.Now(); ; {
		_, err := c.exec(takeLock)
		switch {
		case code(err) != sqlite3.SQLITE_BUSY:
			return err
		case isStale(err):
			return &store.TransactionError{
				Driver: "sqlite", Want: "one that writes before it reads, or that begins with " +
					"the lock for writing (_txlock=immediate, or sqlite.Transactions)",
				Got: "one that has read what others have written since", Stale: true,
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(began) > busyFor:
			return fmt.Errorf("another process has been writing for %v: %w", busyFor, err)
		}
		t := time.NewTimer(time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// Commit commits a transaction.
func (t *SQLTransactions) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// Rollback rolls a transaction back. For a transaction that has ended it does nothing.
func (t *SQLTransactions) Rollback(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

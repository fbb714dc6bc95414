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

// Transactions are transactions of the application's own database handle on the file
// of a [Store]: each has the lock for writing from its beginning to its end.
func Transactions(db *sql.DB) *SQLTransactions { return &SQLTransactions{db} }

// SQLTransactions are those of a *[sql.DB]. They end with the context that they were
// begun with.
type SQLTransactions struct{ db *sql.DB }

// takeLock writes nothing, and has the lock.
const takeLock = `delete from perdure_meta where 0`

// Begin begins a transaction when it has the lock, for which it waits at most 30
// seconds.
func (t *SQLTransactions) Begin(ctx context.Context) (*sql.Tx, error) {
	for began := time.Now(); ; {
		tx, err := t.db.BeginTx(ctx, nil)
		if err == nil {
			if _, err = tx.ExecContext(ctx, takeLock); err == nil {
				return tx, nil
			}
			err = errors.Join(err, tx.Rollback())
		}
		if code(err) != sqlite3.SQLITE_BUSY || ctx.Err() != nil || time.Since(began) > busyFor {
			return nil, fmt.Errorf("sqlite: begin a transaction: %w", err)
		}
	}
}

// takeLockIn has a transaction of the user's take the lock for writing, for which it waits at most
// 30 seconds. SQLite gives it to none that has read what others have written since.
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
				Got: "one that has read what others have written since",
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

// Rollback rolls a transaction back. One that has ended stays as it is.
func (t *SQLTransactions) Rollback(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

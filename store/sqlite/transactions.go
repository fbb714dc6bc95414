package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Transactions are transactions of the application's own database handle on the file
// of a [Store]: each has the lock for writing from its beginning to its end.
func Transactions(db *sql.DB) *SQLTransactions { return &SQLTransactions{db} }

// SQLTransactions are those of a *[sql.DB]. They end with the context that they were
// begun with.
type SQLTransactions struct{ db *sql.DB }

// takeLock writes nothing, and has the lock.
const takeLock = `delete from meta where 0`

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

// Commit commits a transaction.
func (t *SQLTransactions) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// Rollback rolls a transaction back. One that has ended stays as it is.
func (t *SQLTransactions) Rollback(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

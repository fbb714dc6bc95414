package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolTransactions begins, commits and rolls back transactions of the application's own pool.
type PoolTransactions struct {
	pool    *pgxpool.Pool
	options pgx.TxOptions
}

// Transactions returns the transactions of a pool, which must be on the database of a
// [Store].
func Transactions(pool *pgxpool.Pool, options pgx.TxOptions) *PoolTransactions {
	return &PoolTransactions{pool, options}
}

// Begin begins a transaction.
func (t *PoolTransactions) Begin(ctx context.Context) (pgx.Tx, error) {
	return t.pool.BeginTx(ctx, t.options)
}

// Commit commits a transaction.
func (t *PoolTransactions) Commit(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }

// Rollback rolls a transaction back. It does nothing if the transaction has ended.
func (t *PoolTransactions) Rollback(ctx context.Context, tx pgx.Tx) error {
	if err := tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// HandleTransactions begins, commits and rolls back transactions of a handle of package
// database/sql.
type HandleTransactions struct {
	db      *sql.DB
	options *sql.TxOptions
}

// SQLTransactions returns the transactions of a handle, which must be on the database of a
// [Store]. The handle may use any driver that writes arguments as $1. The options may be nil.
func SQLTransactions(db *sql.DB, options *sql.TxOptions) *HandleTransactions {
	return &HandleTransactions{db, options}
}

// Begin begins a transaction. It ends with the context at the latest.
func (t *HandleTransactions) Begin(ctx context.Context) (*sql.Tx, error) {
	return t.db.BeginTx(ctx, t.options)
}

// Commit commits a transaction.
func (t *HandleTransactions) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// Rollback rolls a transaction back. It does nothing if the transaction has ended.
func (t *HandleTransactions) Rollback(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

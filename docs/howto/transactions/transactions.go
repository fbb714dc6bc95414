// Package howto is the code of the page about the application's own transactions.
package howto

import (
	"context"
	"database/sql"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// Schema is the application's own table, in the database of the runs.
const Schema = `create table if not exists orders (id text primary key, state text not null)`

// Paid brings a payment to the run of an order.
var Paid = perdure.NewSignal[int]("paid")

// A Shop has its orders and its runs in one database.
type Shop struct {
	Engine *perdure.Engine
	DB     *sql.DB                       // a handle of the application's own
	Tx     perdure.Transactions[*sql.Tx] // of that handle
	Fulfil *perdure.Workflow[string, int]
}

// OpenSQLite opens a handle of the application's own. A write waits up to 5 s for the lock.
func OpenSQLite(path string) (*sql.DB, error) {
	return sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
}

// OnSQLite and OnPostgres make a shop without an engine.
func OnSQLite(db *sql.DB) *Shop {
	s := &Shop{DB: db, Tx: sqlite.Transactions(db)}
	s.define()
	return s
}

// OnPostgres is OnSQLite for PostgreSQL.
func OnPostgres(db *sql.DB) *Shop {
	s := &Shop{DB: db, Tx: postgres.SQLTransactions(db, nil)}
	s.define()
	return s
}

// Order writes the order and starts its run, both or neither: the outbox is the store.
func (s *Shop) Order(ctx context.Context, id string) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into orders values ($1, 'new')`, id)
		if err != nil {
			return err
		}
		_, err = s.Fulfil.Start(ctx, s.Engine.In(tx), id, perdure.ID(id))
		return err
	})
}

// Pay marks the order as paid and tells its run, both or neither.
func (s *Shop) Pay(ctx context.Context, id string, cents int) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `update orders set state = 'paid' where id = $1`, id)
		if err != nil {
			return err
		}
		_, err = Paid.Send(ctx, s.Engine.In(tx), id, cents)
		return err
	})
}

// define makes the workflow. Its step writes to the database exactly once: what it writes
// and its result are one commit.
func (s *Shop) define() {
	s.Fulfil = perdure.Define("fulfil", func(ctx context.Context, id string) (int, error) {
		paid, err := Paid.Wait(ctx)
		if err != nil {
			return 0, err
		}
		mark := func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, `update orders set state = 'sent' where id = $1`, id)
			return paid, err
		}
		return perdure.StepTx(ctx, "ship", s.Tx, mark)
	})
}

// inTx runs a function in a transaction that can write from its beginning.
func (s *Shop) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.Tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		_ = s.Tx.Rollback(ctx, tx)
		return err
	}
	return s.Tx.Commit(ctx, tx)
}

// Package bank is a bank whose accounts are in a database of its own.
package bank

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
)

// A Transfer is money on its way.
type Transfer struct {
	From, To int
	Cents    int64
}

// From is the account that the money comes from.
func From(t Transfer) int { return t.From }

// To is the account that gets it.
func To(t Transfer) int { return t.To }

// Accounts is how many there are, from 0.
const Accounts = 20

// What is done to an account, $2, with money, $1.
const (
	Hold     = `update account set cents = cents - $1, held = held + $1 where id = $2 and cents >= $1`
	Take     = `update account set held = held - $1 where id = $2`
	Release  = `update account set cents = cents + $1, held = held - $1 where id = $2`
	Announce = `update account set cents = cents + 0 * $1 where id = $2`
	Book     = `update account set cents = cents + $1 where id = $2`
	Unbook   = `update account set cents = cents - $1 where id = $2`

	schema = `create table if not exists account (id integer primary key, cents integer not null, held integer not null default 0);
with recursive n (id) as (select 0 union all select id + 1 from n where id < 19) insert or ignore into account (id, cents) select id, 100000 from n`
)

// A Bank is such a database. Each operation is a transaction with a barrier in it:
// it takes effect once, however often it is delivered, and in whatever order.
type Bank struct{ db *sql.DB }

// Open opens the bank in a directory, and makes it where it is not there.
func Open(dir string) (*Bank, error) {
	at := "file:" + filepath.ToSlash(filepath.Join(dir, "bank.db"))
	db, err := sql.Open("sqlite", at+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(30000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(schema)
	return &Bank{db}, errors.Join(err, barrier.Create(context.Background(), db))
}

// Sum gives all the money, and what of it is set aside.
func (b *Bank) Sum() (cents, held int64, err error) {
	err = b.db.QueryRow(`select sum(cents) + sum(held), sum(held) from account`).Scan(&cents, &held)
	return cents, held, err
}

var errRefused = errors.New("there is no such account, or it has too little")

// An Account is which of the two is meant.
type Account = func(Transfer) int

// Try makes a try of a statement: it changes one account, or refuses for good.
func (b *Bank) Try(statement string, of Account) func(context.Context, Transfer) (bool, error) {
	return func(ctx context.Context, t Transfer) (bool, error) {
		return b.change(ctx, t, of, statement, statement)
	}
}

// Confirm makes a confirm of a statement.
func (b *Bank) Confirm(statement string, of Account) func(context.Context, Transfer, bool) error {
	return b.Cancel(statement, statement, of)
}

// Cancel makes a cancel of two statements: one undoes the try, and the other one the try
// and the confirm.
func (b *Bank) Cancel(tried, confirmed string, of Account) func(context.Context, Transfer, bool) error {
	return func(ctx context.Context, t Transfer, _ bool) error {
		_, err := b.change(ctx, t, of, tried, confirmed)
		return err
	}
}

func (b *Bank) change(ctx context.Context, t Transfer, of Account, statement, confirmed string) (bool, error) {
	return barrier.In(ctx, b.db, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		if barrier.Confirmed(ctx) {
			statement = confirmed
		}
		r, err := tx.ExecContext(ctx, statement, t.Cents, of(t))
		if err != nil {
			return false, err
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return false, errors.Join(err, perdure.Permanent(errRefused))
		}
		return true, nil
	})
}

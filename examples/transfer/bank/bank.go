// Package bank is a bank whose accounts are in a database of its own.
package bank

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/examples/transfer/money"
)

// Accounts is the number of accounts. Their names are the numbers from 0.
const Accounts = 20

const schema = `create table if not exists account (id text primary key, cents integer not null, held integer not null default 0);
with recursive n (id) as (select 0 union all select id + 1 from n where id < 19) insert or ignore into account (id, cents) select id, 100000 from n`

// Statements for an account, $2, and money, $1.
const (
	hold    = `update account set cents = cents - $1, held = held + $1 where id = $2 and cents >= $1`
	take    = `update account set held = held - $1 where id = $2`
	release = `update account set cents = cents + $1, held = held - $1 where id = $2`
	touch   = `update account set cents = cents + 0 * $1 where id = $2`
	book    = `update account set cents = cents + $1 where id = $2`
	unbook  = `update account set cents = cents - $1 where id = $2`
)

// statements has two statements for each action: the second is for a cancel after the confirm.
var statements = map[money.Action][2]string{
	money.Hold: {hold}, money.Take: {take}, money.Return: {release, book},
	money.Announce: {touch}, money.Book: {book}, money.Recall: {touch, unbook},
}

// A Bank is a bank in a database. Each action is a transaction with a barrier in it: it
// takes effect once, in whatever order and however often it is delivered.
type Bank struct{ db *sql.DB }

// Open opens the bank in a directory. It makes a bank if there is none.
func Open(dir string) (*Bank, error) {
	at := "file:" + filepath.ToSlash(filepath.Join(dir, "bank.db"))
	db, err := sql.Open("sqlite", at+
		"?_pragma=journal_mode(wal)&_pragma=busy_timeout(30000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(schema)
	return &Bank{db}, errors.Join(err, barrier.Create(context.Background(), db))
}

// Sum returns all the money, and the part of it that is set aside.
func (b *Bank) Sum() (cents, held int64, err error) {
	err = b.db.QueryRow(`select sum(cents) + sum(held), sum(held) from account`).Scan(&cents, &held)
	return cents, held, err
}

var errRefused = errors.New("there is no such account, or it has too little")

// Do does an action with an account, or refuses it for good.
func (b *Bank) Do(ctx context.Context, do money.Action, account string, cents int64) error {
	_, err := barrier.In(ctx, b.db, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		statement := statements[do][0]
		if barrier.Confirmed(ctx) {
			statement = statements[do][1]
		}
		r, err := tx.ExecContext(ctx, statement, cents, account)
		if err != nil {
			return false, err
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return false, errors.Join(err, perdure.Permanent(errRefused))
		}
		return true, nil
	})
	return err
}

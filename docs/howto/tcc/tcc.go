// Package howto is the code of the page about TCC.
package howto

import (
	"context"
	"database/sql"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/tcc"
)

// A Transfer moves money between two accounts. Money is in cents.
type Transfer struct {
	From, To string
	Cents    int
}

// Schema is the application's own table. A check keeps an account from being overdrawn.
const Schema = `create table if not exists accounts (
	id   text primary key,
	free bigint not null check (free >= 0),
	held bigint not null
)`

// Accounts are in the application's own database.
type Accounts struct{ DB *sql.DB }

// hold is the try of the payer: the money is neither his nor the payee's.
func (a Accounts) hold(ctx context.Context, t Transfer) (bool, error) {
	return a.update(ctx, `update accounts set free = free - $1, held = held + $1 where id = $2`,
		t.Cents, t.From)
}

// take is the confirm of the payer: the money is gone.
func (a Accounts) take(ctx context.Context, t Transfer, _ bool) error {
	_, err := a.update(ctx, `update accounts set held = held - $1 where id = $2`, t.Cents, t.From)
	return err
}

// release is the cancel of the payer. It undoes the try, and the confirm where there was one.
func (a Accounts) release(ctx context.Context, t Transfer, _ bool) error {
	_, err := barrier.In(ctx, a.DB, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		held := t.Cents
		if barrier.Confirmed(ctx) {
			held = 0
		}
		_, err := tx.ExecContext(ctx, `
			update accounts set free = free + $1, held = held - $2 where id = $3`,
			t.Cents, held, t.From)
		return true, err
	})
	return err
}

// update runs a statement once for a participant and phase, however often it is executed.
func (a Accounts) update(ctx context.Context, statement string, args ...any) (bool, error) {
	return barrier.In(ctx, a.DB, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err == nil, err
	})
}

// Move declares the TCC: both accounts try, and then both confirm, or both cancel.
func Move(a Accounts) *tcc.TCC[Transfer] {
	t := tcc.New[Transfer]("move", perdure.Timeout(time.Minute)).
		AttemptTimeout(5 * time.Second)
	tcc.Add(t, "debit", a.hold).Confirm(a.take).Cancel(a.release)
	tcc.Add(t, "credit", a.announce).Confirm(a.book).Cancel(a.unbook)
	return t
}

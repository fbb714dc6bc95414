package howto

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
)

// ErrClosed is of a payee whose account is not there.
var ErrClosed = errors.New("the account is closed")

func init() {
	if err := perdure.RegisterError("bank.closed", ErrClosed); err != nil {
		log.Fatal(err)
	}
}

// announce is the try of the payee: it makes sure that the account is there.
func (a Accounts) announce(ctx context.Context, t Transfer) (bool, error) {
	return barrier.In(ctx, a.DB, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		var id string
		err := tx.QueryRowContext(ctx, `select id from accounts where id = $1`, t.To).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return false, perdure.Permanent(ErrClosed)
		}
		return err == nil, err
	})
}

// book is the confirm of the payee.
func (a Accounts) book(ctx context.Context, t Transfer, _ bool) error {
	_, err := a.update(ctx, `update accounts set free = free + $1 where id = $2`, t.Cents, t.To)
	return err
}

// unbook is the cancel of the payee: only a confirm has changed anything.
func (a Accounts) unbook(ctx context.Context, t Transfer, _ bool) error {
	_, err := barrier.In(ctx, a.DB, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		if !barrier.Confirmed(ctx) {
			return false, nil
		}
		_, err := tx.ExecContext(ctx, `update accounts set free = free - $1 where id = $2`,
			t.Cents, t.To)
		return true, err
	})
	return err
}

package play

import (
	"context"
	"database/sql"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/internal/torture/program"
)

// hold returns the try of a participant that holds money: a row, in a transaction of its own.
func (e *Env) hold(i int) func(context.Context, Deeds) (int64, error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		n, err := e.do(i)(ctx, in)
		if err != nil {
			return 0, err
		}
		return e.book(ctx, program.Label(in.Instance, i, in.Round, "held"), n,
			func(context.Context) int { return 1 })
	}
}

// Confirmed is the sum that a participant books by one try and one confirm. A try books 1,
// and a confirm books the rest, so two tries add up to something else.
const Confirmed = 11

// settle returns the confirm or cancel of the held money: it books the rest, or takes back what was
// booked so far.
func (e *Env) settle(i int, what string) func(context.Context, Deeds, int64) error {
	return func(ctx context.Context, in Deeds, n int64) error {
		if err := e.then(i, what)(ctx, in, n); err != nil {
			return err
		}
		_, err := e.book(ctx, program.Label(in.Instance, i, in.Round, "held"), n,
			func(ctx context.Context) int {
				switch {
				case what == "confirm":
					return Confirmed - 1
				case barrier.Confirmed(ctx):
					return -Confirmed
				}
				return -1
			})
		return err
	}
}

// book writes the booking of a participant's phase, behind a barrier.
func (e *Env) book(ctx context.Context, label string, n int64,
	amount func(context.Context) int) (int64, error) {
	if e.db == nil {
		return 0, perdure.Permanent(ErrBroken)
	}
	return barrier.In(ctx, e.db, func(ctx context.Context, tx *sql.Tx) (int64, error) {
		_, err := tx.ExecContext(
			ctx, `insert into torture_money (label, number, amount) values ($1, $2, $3)`, label, n,
			amount(ctx))
		return n, err
	})
}

package demo

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tcc"
)

// A Transfer is money on its way from one account to another one.
type Transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// transfer is a TCC between two accounts: the first holds the money, the second says
// that it would take it; then one gives it up and the other gets it, or, where one of
// them has refused, the first has it again. Who does not answer then is looked after by
// an operator.
func transfer(w *client) *tcc.TCC[Transfer] {
	t := tcc.New[Transfer]("transfer", perdure.Timeout(time.Hour)).Retry(patience).Park()

	tcc.Add(t, "from", func(ctx context.Context, t Transfer) (string, error) {
		return w.Hold(ctx, perdure.IdempotencyKey(ctx), t.From, t.Cents)
	}).Confirm(func(ctx context.Context, t Transfer, _ string) error {
		_, err := w.Take(ctx, perdure.IdempotencyKey(ctx), t.From, t.Cents)
		return err
	}).Cancel(func(ctx context.Context, t Transfer, _ string) error {
		_, err := w.GiveBack(ctx, perdure.IdempotencyKey(ctx), t.From, t.Cents)
		return err
	})

	tcc.Add(t, "to", func(ctx context.Context, t Transfer) (string, error) {
		return w.Announce(ctx, perdure.IdempotencyKey(ctx), t.To, t.Cents)
	}).Confirm(func(ctx context.Context, t Transfer, _ string) error {
		_, err := w.Give(ctx, perdure.IdempotencyKey(ctx), t.To, t.Cents)
		return err
	}).Cancel(func(context.Context, Transfer, string) error { return nil }) // an announcement is no promise
	return t
}

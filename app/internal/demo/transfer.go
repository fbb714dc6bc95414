package demo

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
)

// A Transfer is money on its way from one account to another one.
type Transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// transfer takes the money from one account and gives it to the other one. Where
// that one refuses it, the first gets it back. Any other failure of "give" leaves
// open who has the money: then nothing is given back, and the run fails for
// somebody to look at.
func transfer(w *client) *perdure.Workflow[Transfer, string] {
	return perdure.Define("transfer", func(ctx context.Context, t Transfer) (string, error) {
		_, err := perdure.Step(ctx, "take", func(ctx context.Context) (string, error) {
			return w.Take(ctx, perdure.IdempotencyKey(ctx), t.From, t.Cents)
		})
		if err != nil {
			return "", err
		}

		receipt, err := perdure.Step(ctx, "give", func(ctx context.Context) (string, error) {
			return w.Give(ctx, perdure.IdempotencyKey(ctx), t.To, t.Cents)
		})
		if errors.Is(err, errRefused) {
			_, failed := perdure.Step(ctx, "give-back", func(ctx context.Context) (string, error) {
				return w.GiveBack(ctx, perdure.IdempotencyKey(ctx), t.From, t.Cents)
			})
			err = errors.Join(err, failed)
		}
		return receipt, err
	}, patience)
}

package demo

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
)

// An Order is what a customer wants.
type Order struct {
	Quantity int64 `json:"quantity"`
	Cents    int64 `json:"cents"`
}

// A Receipt is what the customer gets.
type Receipt struct {
	Payment  string `json:"payment"`
	Tracking string `json:"tracking"`
}

// fulfilment is the workflow of a shop that deals with w: it reserves the goods,
// charges the card, and ships. When something fails for good, what was done
// before is undone by further steps, and the order fails.
//
// This is the whole of it: an ordinary function. Wherever the process dies, the
// next one goes on with the step that was not finished. That step's call may
// have reached the world already, so each carries its idempotency key.
func fulfilment(w *client) *perdure.Workflow[Order, Receipt] {
	return perdure.Define("order-fulfilment", func(ctx context.Context, o Order) (Receipt, error) {
		_, err := perdure.Step(ctx, "reserve", func(ctx context.Context) (string, error) {
			return w.Reserve(ctx, perdure.IdempotencyKey(ctx), o.Quantity)
		})
		if err != nil {
			return Receipt{}, err
		}

		payment, err := perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return w.Charge(ctx, perdure.IdempotencyKey(ctx), o.Cents)
		})
		if err != nil {
			return Receipt{}, errors.Join(err, release(ctx, w, o))
		}

		tracking, err := perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			return w.Ship(ctx, perdure.IdempotencyKey(ctx))
		})
		if err != nil {
			return Receipt{}, errors.Join(err, refund(ctx, w, o), release(ctx, w, o))
		}
		return Receipt{Payment: payment, Tracking: tracking}, nil
	}, patience)
}

// refund gives the money back.
func refund(ctx context.Context, w *client, o Order) error {
	_, err := perdure.Step(ctx, "refund", func(ctx context.Context) (string, error) {
		return w.Refund(ctx, perdure.IdempotencyKey(ctx), o.Cents)
	})
	return err
}

// release puts the goods back into stock.
func release(ctx context.Context, w *client, o Order) error {
	_, err := perdure.Step(ctx, "release", func(ctx context.Context) (string, error) {
		return w.Release(ctx, perdure.IdempotencyKey(ctx), o.Quantity)
	})
	return err
}

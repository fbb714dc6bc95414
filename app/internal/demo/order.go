package demo

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/saga"
)

// An Order is what a customer wants.
type Order struct {
	Quantity int64 `json:"quantity"`
	Cents    int64 `json:"cents"`
}

// fulfilment is the saga of a shop that deals with w: it reserves the goods, charges
// the card, and ships. When something fails for good, what was done before is undone,
// and the order fails.
//
// This is the whole of it. Wherever the process dies, the next one goes on with the step
// that was not finished, also in the middle of undoing. That step's call may have
// reached the world already, so each carries its idempotency key.
func fulfilment(w *client) *saga.Saga[Order] {
	s := saga.New[Order]("order-fulfilment", perdure.Timeout(time.Hour)).Policy(saga.RetryWithBackoff)

	reserve := saga.Add(s, "reserve", func(ctx context.Context, o Order) (string, error) {
		return w.Reserve(ctx, perdure.IdempotencyKey(ctx), o.Quantity)
	}).Undo(func(ctx context.Context, o Order, _ string) error {
		_, err := w.Release(ctx, perdure.IdempotencyKey(ctx), o.Quantity)
		return err
	}).Retry(patience)

	charge := saga.Add(s, "charge", func(ctx context.Context, o Order) (string, error) {
		return w.Charge(ctx, perdure.IdempotencyKey(ctx), o.Cents)
	}).Undo(func(ctx context.Context, o Order, _ string) error {
		_, err := w.Refund(ctx, perdure.IdempotencyKey(ctx), o.Cents)
		return err
	}).Retry(patience).After(reserve)

	saga.Add(s, "ship", func(ctx context.Context, _ Order) (string, error) {
		return w.Ship(ctx, perdure.IdempotencyKey(ctx))
	}).Retry(patience).After(charge)
	return s
}

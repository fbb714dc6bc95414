// Package howto is the code of the page about testing.
package howto

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
)

// An Order is the order of a customer. Money is in cents.
type Order struct {
	ID    string
	Cents int
}

// Paid brings a payment to the run of an order.
var Paid = perdure.NewSignal[int]("paid")

// A Shop is the outside world of the workflow.
type Shop interface {
	Reserve(ctx context.Context, key, order string) error
	Ship(ctx context.Context, key, order string) (tracking string, err error)
}

// ErrNotPaid is of an order that nobody has paid in time.
var ErrNotPaid = errors.New("it was not paid in time")

// Fulfil reserves, waits for the payment, and ships.
func Fulfil(shop Shop) *perdure.Workflow[Order, string] {
	return perdure.Define("fulfil", func(ctx context.Context, o Order) (string, error) {
		err := perdure.Do(ctx, "reserve", func(ctx context.Context) error {
			return shop.Reserve(ctx, perdure.IdempotencyKey(ctx), o.ID)
		}, perdure.Retry{Attempts: 5})
		if err != nil {
			return "", err
		}
		_, err = Paid.Wait(ctx, perdure.Within(72*time.Hour))
		if errors.Is(err, context.DeadlineExceeded) {
			return "", ErrNotPaid
		}
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			return shop.Ship(ctx, perdure.IdempotencyKey(ctx), o.ID)
		}, perdure.Retry{Attempts: 5}, perdure.Timeout(time.Minute))
	})
}

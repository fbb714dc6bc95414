// Package order has the workflow of an order: a saga that reserves, charges and ships. When
// the carrier refuses, it returns the money and the goods.
package order

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/saga"
)

// An Order is an order of a customer. Money is in cents.
type Order struct {
	ID      string `json:"id"`
	Item    string `json:"item"`
	Card    string `json:"card"`
	Country string `json:"country"`
	Cents   int    `json:"cents"`
}

// A Receipt is the result for the customer.
type Receipt struct {
	Hold     string `json:"hold"`
	Charge   string `json:"charge"`
	Tracking string `json:"tracking"`
}

// A Shop does one thing for an order: reserve, charge, ship, release or refund. The key of
// a step is the same in every attempt and after every crash. A shop that gets a key a
// second time does nothing, and answers as before.
type Shop func(ctx context.Context, key, action string, o Order) (string, error)

// Fulfil returns the saga of an order in that shop.
func Fulfil(shop Shop) *saga.Saga[Order] {
	s := saga.New[Order]("order-fulfilment", perdure.Timeout(24*time.Hour),
		perdure.About{Description: "Reserves, charges and ships an order, or undoes these steps."})
	retry := perdure.Retry{Attempts: 4, First: 200 * time.Millisecond}
	hold := saga.Add(s, "reserve", shop.step("reserve")).Retry(retry).Undo(shop.undo("release"))
	charge := saga.Add(s, "charge", shop.step("charge")).Retry(retry).Undo(shop.undo("refund")).
		After(hold)
	ship := saga.Add(s, "ship", shop.step("ship")).Retry(retry).After(charge)
	receipt := saga.Add(s, "receipt", write).After(ship)
	// An undo is tried as often as its step. If it still fails, the run waits for an operator.
	return s.Output(receipt).Policy(saga.RetryWithBackoff).ParkOnUndoError()
}

// step returns the body of a step, which calls the shop for an order.
func (shop Shop) step(action string) func(context.Context, Order) (string, error) {
	return func(ctx context.Context, o Order) (string, error) {
		return shop(ctx, perdure.IdempotencyKey(ctx), action, o)
	}
}

// undo returns a compensation. It gets the input and the result of its step.
func (shop Shop) undo(action string) func(context.Context, Order, string) error {
	return func(ctx context.Context, o Order, _ string) error {
		_, err := shop(ctx, perdure.IdempotencyKey(ctx), action, o)
		return err
	}
}

// results are the results of the steps before the receipt.
type results struct {
	Hold     string `perdure:"step=reserve,required"`
	Charge   string `perdure:"step=charge,required"`
	Tracking string `perdure:"step=ship,required"`
}

func write(_ context.Context, r results) (Receipt, error) { return Receipt(r), nil }

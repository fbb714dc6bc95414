// Command orders fulfils orders by a saga: it reserves, charges and ships, and when the
// carrier refuses, it gives the money and the goods back.
package main

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/saga"
)

// An Order is what a customer wants. Money is in cents.
type Order struct {
	ID      string `json:"id"`
	Item    string `json:"item"`
	Card    string `json:"card"`
	Country string `json:"country"`
	Cents   int    `json:"cents"`
}

// A Receipt is what the customer gets.
type Receipt struct {
	Hold     string `json:"hold"`
	Charge   string `json:"charge"`
	Tracking string `json:"tracking"`
}

// Fulfil is the saga.
var Fulfil = fulfil()

func main() { app.Main(Fulfil) }

func fulfil() *saga.Saga[Order] {
	s := saga.New[Order]("order-fulfilment", perdure.Timeout(24*time.Hour),
		perdure.About{Description: "Reserves, charges and ships an order, or undoes what it did."})
	retry := perdure.Retry{Attempts: 4, First: 200 * time.Millisecond}
	hold := saga.Add(s, "reserve", does("reserve")).Retry(retry).Undo(undoes("release"))
	charge := saga.Add(s, "charge", does("charge")).Retry(retry).After(hold).Undo(undoes("refund"))
	ship := saga.Add(s, "ship", does("ship")).Retry(retry).After(charge)
	receipt := saga.Add(s, "receipt", write).After(ship)
	// What cannot be undone waits for an operator, when it was tried as often as its step.
	return s.Output(receipt).Policy(saga.RetryWithBackoff).ParkOnUndoError()
}

// does is a step that has the world outside do something for an order. The key
// is the same in every attempt and after every crash: who gets it a second time
// does nothing, and answers as before.
func does(what string) func(context.Context, Order) (string, error) {
	return func(ctx context.Context, o Order) (string, error) {
		return do(perdure.IdempotencyKey(ctx), what, o)
	}
}

// undoes is a compensation: it gets what its step got, and what that gave.
func undoes(what string) func(context.Context, Order, string) error {
	return func(ctx context.Context, o Order, _ string) error {
		_, err := do(perdure.IdempotencyKey(ctx), what, o)
		return err
	}
}

// given is what the receipt is made of: results of steps before it.
type given struct {
	Hold     string `perdure:"step=reserve,required"`
	Charge   string `perdure:"step=charge,required"`
	Tracking string `perdure:"step=ship,required"`
}

func write(_ context.Context, g given) (Receipt, error) { return Receipt(g), nil }

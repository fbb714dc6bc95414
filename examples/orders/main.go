// Command orders fulfils orders: it reserves, charges and ships, and when the
// carrier refuses, it gives the money and the goods back.
package main

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/journal"
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

// Fulfil is the workflow. Its steps have four attempts each.
var Fulfil = perdure.Define("order-fulfilment", fulfil,
	perdure.Retry{Attempts: 4, First: 200 * time.Millisecond},
	perdure.About{Description: "Reserves, charges and ships an order, or undoes what it did."})

func main() { app.Main(Fulfil) }

func fulfil(ctx context.Context, o Order) (r Receipt, err error) {
	if r.Hold, err = effect(ctx, "reserve", o); err != nil {
		return r, err
	}
	if r.Charge, err = effect(ctx, "charge", o); err != nil {
		return r, undo(ctx, o, err, "release")
	}
	if r.Tracking, err = effect(ctx, "ship", o); err != nil {
		return r, undo(ctx, o, err, "refund", "release")
	}
	return r, nil
}

// effect is a step that has the world outside do something for an order. The key
// is the same in every attempt and after every crash: who gets it a second time
// does nothing, and answers as before.
func effect(ctx context.Context, name string, o Order) (string, error) {
	return perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
		return do(perdure.IdempotencyKey(ctx), name, o)
	})
}

// undo takes back what was done before it failed, and ends the run as COMPENSATED
// with why.
func undo(ctx context.Context, o Order, why error, names ...string) error {
	for _, name := range names {
		if _, err := perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
			done, err := do(perdure.IdempotencyKey(ctx), name, o)
			if _, last, _ := perdure.Attempt(ctx); last {
				err = perdure.Parking(err) // an operator mends it and resumes the run
			}
			return done, err
		}); err != nil {
			return err
		}
	}
	return perdure.End(ctx, journal.Compensated, nil, why)
}

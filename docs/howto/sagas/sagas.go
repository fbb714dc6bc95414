// Package howto is the code of the page about sagas.
package howto

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/saga"
)

// An Order is the order of a customer. Money is in cents.
type Order struct {
	ID    string
	Cents int
}

// A Charge is a payment that the bank has taken.
type Charge struct{ Number string }

// A Shop is the outside world of the workflow. Each call has an idempotency key.
type Shop interface {
	Reserve(ctx context.Context, key string, o Order) (string, error)
	Release(ctx context.Context, key, hold string) error
	Charge(ctx context.Context, key string, o Order) (Charge, error)
	Refund(ctx context.Context, key string, c Charge) error
	Ship(ctx context.Context, key string, o Order) (string, error)
}

// ErrRefused is the answer of a carrier that does not ship to this country.
var ErrRefused = errors.New("the carrier does not ship there")

func init() {
	if err := perdure.RegisterError("shop.refused", ErrRefused); err != nil {
		log.Fatal(err)
	}
}

// Fulfil declares the saga: what each step comes after, and what undoes it.
func Fulfil(shop Shop) *saga.Saga[Order] {
	s := saga.New[Order]("fulfil", perdure.Timeout(24*time.Hour))
	retry := perdure.Retry{Attempts: 4, First: time.Second}

	reserve := saga.Add(s, "reserve", func(ctx context.Context, o Order) (string, error) {
		return shop.Reserve(ctx, perdure.IdempotencyKey(ctx), o)
	}).Retry(retry).Undo(func(ctx context.Context, _ Order, hold string) error {
		return shop.Release(ctx, perdure.IdempotencyKey(ctx), hold)
	})
	charge := saga.Add(s, "charge", func(ctx context.Context, o Order) (Charge, error) {
		return shop.Charge(ctx, perdure.IdempotencyKey(ctx), o)
	}).Retry(retry).After(reserve).Undo(func(ctx context.Context, _ Order, c Charge) error {
		return shop.Refund(ctx, perdure.IdempotencyKey(ctx), c)
	})
	ship := saga.Add(s, "ship", func(ctx context.Context, o Order) (string, error) {
		return shop.Ship(ctx, perdure.IdempotencyKey(ctx), o)
	}).Retry(retry).After(charge)

	return s.Output(ship).Policy(saga.RetryWithBackoff).ParkOnUndoError()
}

// Small is a workflow whose first step has an Undo. It needs no saga.
func Small(shop Shop) *perdure.Workflow[Order, string] {
	return perdure.Define("small", func(ctx context.Context, o Order) (string, error) {
		_, err := perdure.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
			return shop.Charge(ctx, perdure.IdempotencyKey(ctx), o)
		}, effect.Undo(func(ctx context.Context, c Charge) error {
			return shop.Refund(ctx, perdure.IdempotencyKey(ctx), c)
		}, perdure.Retry{Attempts: 5}, effect.Parks))
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			return shop.Ship(ctx, perdure.IdempotencyKey(ctx), o)
		})
	})
}

// Paid brings the payment of an order.
var Paid = perdure.NewSignal[int]("paid")

// Hold is a saga of one step, to be a part of a workflow.
func Hold(shop Shop) *saga.Saga[Order] {
	s := saga.New[Order]("hold")
	saga.Add(s, "reserve", func(ctx context.Context, o Order) (string, error) {
		return shop.Reserve(ctx, perdure.IdempotencyKey(ctx), o)
	}).Undo(func(ctx context.Context, _ Order, hold string) error {
		return shop.Release(ctx, perdure.IdempotencyKey(ctx), hold)
	})
	return s
}

// Sell reserves by the saga, waits for the payment, and undoes the saga if none comes
// or the parcel does not go.
func Sell(shop Shop) *perdure.Workflow[Order, string] {
	hold := Hold(shop)
	return perdure.Define("sell", func(ctx context.Context, o Order) (string, error) {
		held, err := hold.Inline(ctx, "hold", o)
		if err != nil {
			return "", err
		}
		if err := held.Err(); err != nil {
			return "", err // it has undone itself
		}
		if _, err := Paid.Wait(ctx, perdure.Within(3*24*time.Hour)); err != nil {
			return "", errors.Join(err, held.Undo(ctx))
		}
		tracking, err := perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			return shop.Ship(ctx, perdure.IdempotencyKey(ctx), o)
		})
		if err != nil {
			return "", errors.Join(err, held.Undo(ctx))
		}
		return tracking, nil
	})
}

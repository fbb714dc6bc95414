// Package howto is the code of the page about idempotency.
package howto

import (
	"context"
	"errors"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
)

// An Order is the order of a customer. Money is in cents.
type Order struct {
	ID    string
	Items []string
	Cents int
}

// A Shop is the outside world of the workflow.
type Shop struct {
	Client *http.Client
	Bank   string                                            // the address of the bank's API
	Pack   func(ctx context.Context, key, item string) error // the warehouse
	Label  func() (string, error)                            // draws the next number of a label
	Print  func(number string) error
	Ring   func(order string) error // rings a bell
}

// charge calls the bank under the key of the step, in the header that many APIs know.
func (s Shop) charge(ctx context.Context, o Order) (string, error) {
	return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Bank, nil)
		if err != nil {
			return "", err
		}
		r.Header.Set("Idempotency-Key", perdure.IdempotencyKey(ctx))
		answer, err := s.Client.Do(r)
		if err != nil {
			return "", err
		}
		return answer.Status, answer.Body.Close()
	})
}

// pack does one step for each item. The key of each is the item, not its place in the list.
func (s Shop) pack(ctx context.Context, o Order) error {
	for _, item := range o.Items {
		err := perdure.Do(ctx, "pack", func(ctx context.Context) error {
			return s.Pack(ctx, perdure.IdempotencyKey(ctx), item)
		}, perdure.Key(item))
		if err != nil {
			return err
		}
	}
	return nil
}

// label draws a number once, and prints it at least once: a label that is printed again has
// the same number.
func (s Shop) label(ctx context.Context) (string, error) {
	return perdure.Step(ctx, "label", func(ctx context.Context) (string, error) {
		number, err := perdure.Once(ctx, "number", s.Label)
		if err != nil {
			return "", err
		}
		return number, s.Print(number)
	})
}

// ring rings a bell once at most. If a crash came meanwhile, an operator has to know.
func (s Shop) ring(ctx context.Context, o Order) error {
	err := perdure.Do(ctx, "ring", func(context.Context) error {
		return s.Ring(o.ID)
	}, effect.AtMostOnce)
	if !errors.Is(err, effect.ErrInterrupted) {
		return err
	}
	_, err = perdure.Park(ctx, "ring", "did the bell ring for "+o.ID+"?", "yes")
	return err
}

// Fulfil is the workflow of an order.
func Fulfil(s Shop) *perdure.Workflow[Order, string] {
	return perdure.Define("fulfil", func(ctx context.Context, o Order) (string, error) {
		if _, err := s.charge(ctx, o); err != nil {
			return "", err
		}
		if err := s.pack(ctx, o); err != nil {
			return "", err
		}
		return s.label(ctx)
	})
}

// Announce is the workflow that rings for an order.
func Announce(s Shop) *perdure.Workflow[Order, bool] {
	return perdure.Define("announce", func(ctx context.Context, o Order) (bool, error) {
		err := s.ring(ctx, o)
		return err == nil, err
	})
}

// Begin starts the run of an order, or finds it: the order's ID is the run's workflow ID.
func Begin(ctx context.Context, engine *perdure.Engine, fulfil *perdure.Workflow[Order, string],
	o Order,
) (isNew bool, err error) {
	run, err := fulfil.Start(ctx, engine, o, perdure.ID(o.ID))
	if err != nil {
		return false, err
	}
	return run.New(), nil
}

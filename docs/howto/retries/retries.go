// Package howto is the code of the page about retries and timeouts.
package howto

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
)

// A Payment is the answer of the bank. Money is in cents.
type Payment struct {
	Number string
	Cents  int
}

// A Bank is a service that may fail.
type Bank interface {
	Charge(ctx context.Context, key string, cents int) (Payment, error)
}

var (
	// ErrBusy is the answer of a bank that may accept the same request later.
	ErrBusy = errors.New("the bank is busy")
	// ErrDeclined is final: another attempt gets the same answer.
	ErrDeclined = errors.New("the card was declined")
)

func init() {
	if err := errors.Join(
		perdure.RegisterError("shop.busy", ErrBusy),
		perdure.RegisterError("shop.declined", ErrDeclined),
	); err != nil {
		log.Fatal(err)
	}
}

// pay charges a card. Its one step has a policy and a timeout of its own.
func pay(bank Bank) func(context.Context, int) (Payment, error) {
	return func(ctx context.Context, cents int) (Payment, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
			return bank.Charge(ctx, perdure.IdempotencyKey(ctx), cents)
		}, perdure.Retry{Attempts: 5, First: time.Second, Factor: 2, Cap: time.Minute},
			perdure.Timeout(10*time.Second))
	}
}

// Pay is the workflow: its policy is that of the steps that have none, its timeout that of
// the whole run.
func Pay(bank Bank) *perdure.Workflow[int, Payment] {
	return perdure.Define("pay", pay(bank),
		perdure.Retry{Attempts: 3, First: 5 * time.Second}, perdure.Timeout(time.Hour))
}

// payPatiently retries only what may succeed later.
func payPatiently(bank Bank) func(context.Context, int) (Payment, error) {
	return func(ctx context.Context, cents int) (Payment, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
			return bank.Charge(ctx, perdure.IdempotencyKey(ctx), cents)
		}, perdure.Retry{Attempts: 5, First: time.Second, On: []error{ErrBusy}})
	}
}

// payAsTold decides by the error itself.
func payAsTold(bank Bank) func(context.Context, int) (Payment, error) {
	return func(ctx context.Context, cents int) (Payment, error) {
		paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
			paid, err := bank.Charge(ctx, perdure.IdempotencyKey(ctx), cents)
			switch {
			case errors.Is(err, ErrDeclined):
				return paid, perdure.Permanent(err) // no further attempt
			case errors.Is(err, ErrBusy):
				return paid, perdure.RetryAfter(time.Minute, err) // the bank said when
			}
			return paid, err // as the policy says
		})
		if errors.Is(err, ErrDeclined) {
			return Payment{}, fmt.Errorf("ask for another card: %w", err)
		}
		return paid, err
	}
}

// payOrAsk has a person decide when the attempts are used up.
func payOrAsk(bank Bank) func(context.Context, int) (Payment, error) {
	return func(ctx context.Context, cents int) (Payment, error) {
		for {
			paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
				return bank.Charge(ctx, perdure.IdempotencyKey(ctx), cents)
			}, perdure.Retry{Attempts: 2})
			if err == nil || !errors.Is(err, ErrBusy) {
				return paid, err
			}
			answer, parked := perdure.Park(ctx, "bank", err.Error(), "again", "give-up")
			if parked != nil {
				return Payment{}, parked
			}
			if answer.Choice == "give-up" {
				return Payment{}, err
			}
		}
	}
}

// Package billing has the workflow of a subscription: thirty days are free, then there is a
// charge on the same day of each month, as long as the customer pays.
package billing

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
)

// A Subscription is the input of a run, and of the run that continues it.
type Subscription struct {
	Customer string    `json:"customer"`
	Plan     string    `json:"plan"`
	Card     string    `json:"card"`
	First    time.Time `json:"first,omitzero"`  // time of the first charge, at the end of the trial
	Months   int       `json:"months,omitzero"` // number of months charged
	Ended    string    `json:"ended,omitzero"`  // reason of the end
}

// A Change is a change that a customer asks for. An empty field changes nothing.
type Change struct {
	Plan string `json:"plan"`
	Card string `json:"card"`
	Stop bool   `json:"stop"`
}

// Changed is the signal with a change of a subscription.
var Changed = perdure.NewSignal[Change]("change")

// Trial is the time for which a subscription is free.
const Trial = 30 * 24 * time.Hour

// A Bank charges the card of a subscription for one month, once for each key. It reports
// whether the card was good.
type Bank func(ctx context.Context, key string, s Subscription) (paid bool, err error)

// Subscribe returns the workflow of a subscription.
func Subscribe(bank Bank) *perdure.Workflow[Subscription, Subscription] {
	return perdure.Define("subscription", bank.year,
		perdure.Retry{Attempts: 10, First: 200 * time.Millisecond})
}

// year charges twelve times, and then continues as new for the next year.
func (bank Bank) year(ctx context.Context, s Subscription) (Subscription, error) {
	if s.First.IsZero() {
		now, err := perdure.Now(ctx)
		if err != nil {
			return s, err
		}
		s.First = now.UTC().Add(Trial)
	}
	for range 12 {
		if err := bank.renew(ctx, &s); err != nil || s.Ended != "" {
			return s, err
		}
	}
	return s, perdure.ContinueAsNew(ctx, s) // one year is enough for one journal
}

// renew waits for the day of the next charge, and charges. If the card is refused, it tries
// again after one week and after two weeks. The customer may send another card meanwhile.
func (bank Bank) renew(ctx context.Context, s *Subscription) error {
	due := s.Due()
	for week := range 3 {
		if err := listen(ctx, s, due.AddDate(0, 0, 7*week)); err != nil || s.Ended != "" {
			return err
		}
		paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (bool, error) {
			return bank(ctx, perdure.IdempotencyKey(ctx), *s)
		}, perdure.Key(due.Format(time.DateOnly)))
		if err != nil {
			return err
		}
		if paid {
			s.Months++
			return nil
		}
	}
	s.Ended = "the card was refused"
	return nil
}

// Due returns the day of the next charge: the day of the first charge, Months months later.
// In a shorter month it is the last day.
func (s Subscription) Due() time.Time {
	due := s.First.AddDate(0, s.Months, 0)
	if due.Day() != s.First.Day() { // the month is shorter: due is in the next one
		due = due.AddDate(0, 0, -due.Day())
	}
	return due
}

// listen applies changes until a time, or until a change ends the subscription.
func listen(ctx context.Context, s *Subscription, until time.Time) error {
	for s.Ended == "" {
		if err := perdure.SetPayload(ctx, s); err != nil { // others can read it
			return err
		}
		change, err := Changed.Wait(ctx, perdure.Until(until))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
		s.Plan, s.Card = cmp.Or(change.Plan, s.Plan), cmp.Or(change.Card, s.Card)
		if change.Stop {
			s.Ended = "the customer left"
		}
	}
	return nil
}

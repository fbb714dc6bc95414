// Command subscription runs subscriptions: thirty days for nothing, then a charge
// on the same day of each month, for as long as the customer pays.
package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
)

// A Subscription is all that a run knows of itself, and hands on to the run that
// continues it. Money is in cents.
type Subscription struct {
	Customer string    `json:"customer"`
	Plan     string    `json:"plan"`
	Card     string    `json:"card"`
	First    time.Time `json:"first,omitzero"`  // charge, at the end of the trial
	Months   int       `json:"months,omitzero"` // charged so far
	Ended    string    `json:"ended,omitzero"`  // why
}

// A Change is what a customer asks for; what is empty stays as it is.
type Change struct {
	Plan string `json:"plan"`
	Card string `json:"card"`
	Stop bool   `json:"stop"`
}

// Changed brings a change to a subscription.
var Changed = perdure.NewSignal[Change]("change")

const trial = 30 * 24 * time.Hour

// Subscribe is the workflow of a subscription.
var Subscribe = perdure.Define("subscription", subscribe, perdure.Retry{Attempts: 10, First: 200 * time.Millisecond})

func main() { app.Main(Subscribe) }

func subscribe(ctx context.Context, s Subscription) (Subscription, error) {
	if s.First.IsZero() {
		now, err := perdure.Now(ctx)
		if err != nil {
			return s, err
		}
		s.First = now.UTC().Add(trial)
	}
	for range 12 {
		if err := renew(ctx, &s); err != nil || s.Ended != "" {
			return s, err
		}
	}
	return s, perdure.ContinueAsNew(ctx, s) // the journal of a year is long enough
}

// renew waits for the day of the next charge and charges. A card that is refused
// is tried again after a week and after two, and in between there may come another.
func renew(ctx context.Context, s *Subscription) error {
	due := monthly(s.First, s.Months)
	for week := range 3 {
		if err := listen(ctx, s, due.AddDate(0, 0, 7*week)); err != nil || s.Ended != "" {
			return err
		}
		paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (bool, error) {
			return charge(perdure.IdempotencyKey(ctx), *s)
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

// monthly is the same day some months later, or the last one of a shorter month.
func monthly(first time.Time, months int) time.Time {
	due := first.AddDate(0, months, 0)
	if due.Day() != first.Day() { // one of the month after
		due = due.AddDate(0, 0, -due.Day())
	}
	return due
}

// listen makes the changes that come until a time, or until one ends it all.
func listen(ctx context.Context, s *Subscription, until time.Time) error {
	for s.Ended == "" {
		if err := perdure.SetPayload(ctx, s); err != nil { // is seen from outside
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

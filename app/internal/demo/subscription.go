package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Subscription is what somebody pays for month by month.
type Subscription struct {
	Mail  string `json:"mail"`
	Cents int64  `json:"cents"`
	Month int    `json:"month"` // 0 is the trial, which is free
}

const month = 30 * 24 * time.Hour

// subscription is one month: the trial begins with a mail, every other month
// with the bill. It sleeps until the month is over, and continues as new for the
// next one, so that its journal stays short however long it lasts.
func subscription(w *client) *perdure.Workflow[Subscription, Subscription] {
	return perdure.Define("subscription", func(ctx context.Context, s Subscription) (Subscription, error) {
		begin, timer := bill, "month"
		if s.Month == 0 {
			begin, timer = welcome, "trial"
		}
		if err := begin(ctx, w, s); err != nil {
			return s, err
		}
		if err := pass(ctx, timer, month); err != nil {
			return s, err
		}
		s.Month++
		return s, perdure.ContinueAsNew(ctx, s)
	}, patience)
}

func welcome(ctx context.Context, w *client, s Subscription) error {
	return mail(ctx, w, s.Mail, "Your trial has begun. It is free for 30 days.")
}

func bill(ctx context.Context, w *client, s Subscription) error {
	of := fmt.Sprint("month-", s.Month)
	_, err := perdure.Step(ctx, "bill", func(ctx context.Context) (string, error) {
		return w.Bill(ctx, perdure.IdempotencyKey(ctx), of, s.Cents)
	}, perdure.Key(of))
	return err
}

// pass waits until a time has passed. A timer that somebody cancels from outside
// has come to its time: that is fast-forward.
func pass(ctx context.Context, timer string, d time.Duration) error {
	_, err := perdure.Timer(ctx, timer, d).Await(ctx)
	if errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}) && ctx.Err() == nil {
		return nil
	}
	return err
}

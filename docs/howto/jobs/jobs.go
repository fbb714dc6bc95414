// Package howto has the code of the page about jobs.
package howto

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/job"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/schedule"
)

// A Mail is the input of a job.
type Mail struct {
	To     string `json:"to"`
	Urgent int    `json:"urgent,omitempty"`
}

// A Mailer sends mails.
type Mailer interface {
	Send(ctx context.Context, key, to string) (receipt string, err error)
}

// ErrBusy and ErrNoAddress are errors of a Mailer.
var (
	ErrBusy      = errors.New("busy")
	ErrNoAddress = errors.New("no such address")
)

// Mails is a queue of ten workers.
var Mails = job.Queue{Name: "mails", Workers: 10}

// Welcome returns jobs that send a mail each.
func Welcome(mailer Mailer) *perdure.Workflow[Mail, string] {
	return job.Define("welcome", func(ctx context.Context, m Mail) (string, error) {
		return mailer.Send(ctx, perdure.IdempotencyKey(ctx), m.To)
	}, job.Spec{
		Queue:   Mails,
		Rank:    limit.RankBy(func(m Mail) int { return m.Urgent }),
		Timeout: time.Minute,
	}, perdure.Retry{Attempts: 5})
}

// SignUp adds a customer, and inserts a job in the same transaction.
func SignUp(ctx context.Context, engine *perdure.Engine, tx *sql.Tx,
	welcome *perdure.Workflow[Mail, string], address string) error {
	if _, err := tx.ExecContext(ctx, "insert into customers values (?)", address); err != nil {
		return err
	}
	_, err := welcome.Start(ctx, engine.In(tx), Mail{To: address}, perdure.ID("welcome-"+address))
	return err
}

// Newsletter inserts a job for each address, which begin at eight.
func Newsletter(ctx context.Context, engine *perdure.Engine,
	mail *perdure.Workflow[Mail, string], to []Mail, eight time.Time) error {
	_, errs := mail.StartAll(ctx, engine, to, func(i int) []perdure.StartOption {
		return []perdure.StartOption{
			perdure.ID("news-" + eight.Format(time.DateOnly) + "-" + to[i].To), schedule.At(eight),
		}
	})
	return errors.Join(errs...)
}

// Gentle is a Mailer that waits if its server asks for that, and gives up if nobody is there.
type Gentle struct{ Mailer }

// Send sends a mail.
func (g Gentle) Send(ctx context.Context, key, to string) (string, error) {
	receipt, err := g.Mailer.Send(ctx, key, to)
	switch {
	case errors.Is(err, ErrBusy):
		return "", perdure.RetryAfter(10*time.Minute, err) // it counts as an attempt
	case errors.Is(err, ErrNoAddress):
		return "", perdure.Permanent(err) // no further attempt
	}
	return receipt, err
}

// Cleanup runs at three every night.
var Cleanup = job.Define("cleanup", func(context.Context, struct{}) (int, error) {
	return 0, nil
}, job.Spec{}, schedule.Declare("cleanup-nightly", schedule.Spec{
	Cron: "0 3 * * *", Zone: "Europe/Berlin",
}))

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// An Expense is what somebody wants to be paid for.
type Expense struct {
	By    string `json:"by"`
	For   string `json:"for"`
	Cents int64  `json:"cents"`
}

// A Decision is what the manager says to that.
type Decision struct {
	By string `json:"by"`
	OK bool   `json:"ok"`
}

// approve is the signal that brings the decision. Anybody may send it:
//
//	perdure runs signal exp-9 approve -i '{"by":"you","ok":true}'
var approve = perdure.NewSignal[Decision]("approve")

// timeToDecide is how long the manager has.
const timeToDecide = 14 * 24 * time.Hour

// approval asks the manager by mail, waits for the decision, and tells it to who
// asked. While it waits, the run is a row in the database and nothing else. No
// answer in time is a no.
func approval(w *client) *perdure.Workflow[Expense, Decision] {
	return perdure.Define("expense-approval", func(ctx context.Context, e Expense) (Decision, error) {
		err := mail(ctx, w, "manager", fmt.Sprintf("May %s have %s for %s?", e.By, money(e.Cents), e.For))
		if err != nil {
			return Decision{}, err
		}

		d, err := approve.Wait(ctx, perdure.Within(timeToDecide))
		if errors.Is(err, context.DeadlineExceeded) {
			d, err = Decision{By: "nobody"}, nil
		}
		if err != nil {
			return Decision{}, err
		}
		return d, mail(ctx, w, e.By, fmt.Sprintf("%s said %t to %s", d.By, d.OK, e.For))
	}, patience)
}

// mail sends one mail. The key tells apart the mails of a run.
func mail(ctx context.Context, w *client, to, text string) error {
	_, err := perdure.Step(ctx, "mail", func(ctx context.Context) (string, error) {
		return w.Mail(ctx, perdure.IdempotencyKey(ctx), to, text)
	}, perdure.Key(to))
	return err
}

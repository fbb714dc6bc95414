// Command approval has people approve expenses: it asks, reminds, asks the next
// one up, and pays what was approved.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
)

// An Expense is what somebody has spent. Money is in cents.
type Expense struct {
	By    string `json:"by"`
	For   string `json:"for"`
	Cents int    `json:"cents"`
}

// An Answer is what somebody decides about it.
type Answer struct {
	By       string `json:"by"`
	Approved bool   `json:"approved"`
	Why      string `json:"why,omitempty"`
}

// Answered brings an answer to the run of an expense.
var Answered = perdure.NewSignal[Answer]("answer")

const day = 24 * time.Hour

// asking says who is asked, in which words, and for how long an answer is awaited
// before the next one is.
var asking = []struct {
	whom, words string
	wait        time.Duration
}{
	{"manager", "please decide", day},
	{"manager", "a reminder: please decide", 2 * day},
	{"director", "the manager does not answer: please decide", 4 * day},
}

// Approve is the workflow of an expense.
var Approve = perdure.Define("expense-approval", approve,
	perdure.Retry{Attempts: 5, First: 200 * time.Millisecond},
	perdure.About{Description: "Has an expense approved, and pays it."})

func main() { app.Main(Approve) }

func approve(ctx context.Context, e Expense) (string, error) {
	answer, err := ask(ctx, e)
	switch {
	case err != nil:
		return "", err
	case !answer.Approved:
		return fmt.Sprintf("refused by %s: %s", answer.By, answer.Why), mail(ctx, "result", e.By, "refused: "+answer.Why)
	}
	if _, err := perdure.Step(ctx, "pay", func(ctx context.Context) (bool, error) {
		return true, outside.pay(perdure.IdempotencyKey(ctx), e)
	}); err != nil {
		return "", err
	}
	return "approved by " + answer.By, mail(ctx, "result", e.By, "paid")
}

// ask asks one after the other until somebody who may decide does. What anybody
// else sends stays in the inbox, and so does a second answer.
func ask(ctx context.Context, e Expense) (Answer, error) {
	var asked []string
	for _, a := range asking {
		asked = append(asked, a.whom)
		if err := perdure.Publish(ctx, "waiting-for", a.whom); err != nil {
			return Answer{}, err
		}
		if err := mail(ctx, "ask", a.whom, fmt.Sprintf("%s: %s spent %d cents for %s", a.words, e.By, e.Cents, e.For)); err != nil {
			return Answer{}, err
		}
		answer, err := Answered.Wait(ctx, perdure.Within(a.wait), perdure.Where(func(got Answer) bool {
			return slices.Contains(asked, got.By)
		}))
		if !errors.Is(err, context.DeadlineExceeded) {
			return answer, err
		}
	}
	return Answer{By: "nobody", Why: "no answer in a week"}, nil
}

// mail is a step that sends a mail.
func mail(ctx context.Context, name, to, text string) error {
	_, err := perdure.Step(ctx, name, func(ctx context.Context) (bool, error) {
		return true, outside.mail(perdure.IdempotencyKey(ctx), to, text)
	})
	return err
}

// Package expense has the workflow of an expense: it asks a manager to approve the expense,
// reminds the manager, asks the director, and pays.
package expense

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// An Expense is money that somebody has paid and wants back. Money is in cents.
type Expense struct {
	By    string `json:"by"`
	For   string `json:"for"`
	Cents int    `json:"cents"`
}

// An Answer approves or refuses an expense.
type Answer struct {
	By       string `json:"by"`
	Approved bool   `json:"approved"`
	Why      string `json:"why,omitempty"`
}

// Answered is the signal with an answer to an expense.
var Answered = perdure.NewSignal[Answer]("answer")

// An Office has the mail and the bank. It does each thing once for each key.
type Office interface {
	Mail(ctx context.Context, key, to, text string) error
	Pay(ctx context.Context, key string, e Expense) error
}

// Day is the time until the first reminder.
const Day = 24 * time.Hour

// asking lists the people who are asked, the words, and the time to wait for an answer
// before the next entry.
var asking = []struct {
	whom, words string
	wait        time.Duration
}{
	{"manager", "please decide", Day},
	{"manager", "a reminder: please decide", 2 * Day},
	{"director", "the manager does not answer: please decide", 4 * Day},
}

// Approve returns the workflow of an expense. Its result names the person who decided, and
// the decision.
func Approve(office Office) *perdure.Workflow[Expense, string] {
	a := approval{office}
	return perdure.Define("expense-approval", a.run,
		perdure.Retry{Attempts: 5, First: 200 * time.Millisecond},
		perdure.About{Description: "Asks for the approval of an expense, and pays it."})
}

type approval struct{ office Office }

func (a approval) run(ctx context.Context, e Expense) (string, error) {
	answer, err := a.ask(ctx, e)
	if err != nil {
		return "", err
	}
	if !answer.Approved {
		refused := fmt.Sprintf("refused by %s: %s", answer.By, answer.Why)
		return refused, a.mail(ctx, "result", e.By, "refused: "+answer.Why)
	}
	if err := perdure.Do(ctx, "pay", func(ctx context.Context) error {
		return a.office.Pay(ctx, perdure.IdempotencyKey(ctx), e)
	}); err != nil {
		return "", err
	}
	return "approved by " + answer.By, a.mail(ctx, "result", e.By, "paid")
}

// ask asks one person after the other until one of them answers. Answers of other people
// stay in the inbox, and so does a second answer.
func (a approval) ask(ctx context.Context, e Expense) (Answer, error) {
	var asked []string
	for _, next := range asking {
		asked = append(asked, next.whom)
		if err := perdure.Publish(ctx, "waiting-for", next.whom); err != nil {
			return Answer{}, err
		}
		text := fmt.Sprintf("%s: %s spent %d cents for %s", next.words, e.By, e.Cents, e.For)
		if err := a.mail(ctx, "ask", next.whom, text); err != nil {
			return Answer{}, err
		}
		counts := perdure.Where(func(got Answer) bool { return slices.Contains(asked, got.By) })
		answer, err := Answered.Wait(ctx, perdure.Within(next.wait), counts)
		if !errors.Is(err, context.DeadlineExceeded) {
			return answer, err
		}
	}
	return Answer{By: "nobody", Why: "no answer in a week"}, nil
}

// mail is a step that sends a mail.
func (a approval) mail(ctx context.Context, name, to, text string) error {
	return perdure.Do(ctx, name, func(ctx context.Context) error {
		return a.office.Mail(ctx, perdure.IdempotencyKey(ctx), to, text)
	})
}

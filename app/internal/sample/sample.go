// Package sample has workflows of every pattern to try. They need nothing outside: each step only
// takes a moment.
package sample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/approval/form"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
	"github.com/perdure/perdure/tcc"
)

// Workflows returns the samples: at least one of each pattern.
func Workflows() []perdure.Definition {
	return []perdure.Definition{
		greet(), expense(), report(), order(), transfer(), ticket(), counter(), poem(),
		statements(), invoice(),
	}
}

// moment is how long a step takes, so that people can see it run.
const moment = 400 * time.Millisecond

// work takes a moment.
func work(ctx context.Context) error { return workFor(ctx, moment) }

func workFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// greet is a workflow in plain code: a step, a nap, another step.
func greet() perdure.Definition {
	return perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		words, err := perdure.Step(ctx, "find-words", func(ctx context.Context) (string, error) {
			return "Hello", work(ctx)
		})
		if err == nil {
			err = perdure.Sleep(ctx, time.Second)
		}
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "write", func(ctx context.Context) (string, error) {
			return words + ", " + name, work(ctx)
		})
	}, taking(nameInput, "Greets somebody. The input is a name."))
}

// An Expense is money that somebody wants back. Money is in cents.
type Expense struct {
	By    string `json:"by"`
	Cents int    `json:"cents"`
}

// booking is the form of a decision about an expense.
var booking = form.Of(`{"type": "object", "properties": {
	"account": {"type": "string", "title": "Book it on", "enum": ["travel", "office", "training"],
		"default": "travel"}}}`)

// expense waits for the decision of a manager, who fills in a form.
func expense() perdure.Definition {
	return perdure.Define("expense", func(ctx context.Context, e Expense) (string, error) {
		out, err := approval.Wait(ctx, approval.Ask{
			Key: "manager", Role: "manager", Within: 24 * time.Hour, Form: booking,
			Title: fmt.Sprintf("%s wants back %d.%02d", e.By, e.Cents/100, e.Cents%100),
		})
		if err != nil || !out.IsApproved() {
			return "refused", err
		}
		return perdure.Step(ctx, "pay", func(ctx context.Context) (string, error) {
			return "paid", work(ctx)
		})
	}, taking(expenseInput, "Pays an expense when a manager has approved it."))
}

// A Day is the input of a report.
type Day struct {
	Date string `json:"date"`
}

// report is a graph: two steps at once, and one that needs both.
func report() perdure.Definition {
	g := dag.New[Day]("report", taking(dayInput, "Makes a report of a day: a graph."))
	read := func(what string) func(context.Context, Day) (string, error) {
		return func(ctx context.Context, d Day) (string, error) {
			return what + " of " + d.Date, work(ctx)
		}
	}
	sales := dag.Add(g, "sales", read("sales"))
	stock := dag.Add(g, "stock", read("stock"))
	dag.Add(g, "publish", read("report")).After(sales, stock)
	return g
}

// An Order is the input of the saga.
type Order struct {
	ID      string `json:"id"`
	Country string `json:"country" doc:"the carrier does not go to XX"`
}

// order is a saga. To the country XX nothing is shipped: then all is undone.
func order() perdure.Definition {
	s := saga.New[Order]("order", taking(orderInput, "Reserves, charges and ships. For the "+
		"country XX it fails, and undoes what it has done: a saga."))
	do := func(what string) func(context.Context, Order) (string, error) {
		return func(ctx context.Context, o Order) (string, error) {
			if err := work(ctx); err != nil {
				return "", err
			}
			if what == "shipped" && o.Country == "XX" {
				return "", perdure.Permanent(errors.New("the carrier does not go there"))
			}
			return what, nil
		}
	}
	undo := func(ctx context.Context, _ Order, _ string) error { return work(ctx) }
	hold := saga.Add(s, "reserve", do("reserved")).Undo(undo)
	paid := saga.Add(s, "charge", do("charged")).Undo(undo).After(hold)
	saga.Add(s, "ship", do("shipped")).After(paid)
	return s
}

// A Transfer moves money. Money is in cents.
type Transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// transfer is a TCC: both accounts confirm, or neither.
func transfer() perdure.Definition {
	t := tcc.New[Transfer]("transfer", taking(transferInput, "Moves money: both accounts, or "+
		"neither. More than 1000.00 is refused: a TCC."))
	end := func(ctx context.Context, _ Transfer, _ string) error { return work(ctx) }
	for _, account := range []string{"debit", "credit"} {
		tcc.Add(t, account, func(ctx context.Context, in Transfer) (string, error) {
			if account == "credit" && in.Cents > 1000_00 {
				return "", perdure.Permanent(errors.New("the account takes at most 1000.00"))
			}
			return account, work(ctx)
		}).Confirm(end).Cancel(end)
	}
	return t
}

// A Ticket is the input of the machine.
type Ticket struct {
	Text string `json:"text"`
}

// answered is the signal that a ticket waits for.
var answered = perdure.NewSignal[string]("answer")

// ticket is a step machine: it waits for the signal answer, and closes.
func ticket() perdure.Definition {
	m := machine.New[Ticket]("ticket", "triage", taking(ticketInput, "Waits for the signal "+
		"answer, whose payload is a text: a step machine."))
	machine.Add(m, "triage", machine.Do(func(ctx context.Context, t Ticket) (Ticket, error) {
		return t, work(ctx)
	})).To("open")
	machine.Add(m, "open", func(ctx context.Context, t Ticket) (machine.Action, error) {
		text, found, err := answered.Latest(ctx)
		if err != nil || found {
			return machine.Complete(text).To("close"), err
		}
		return machine.Suspend(), nil
	}).To("close")
	machine.Add(m, "close", machine.Do(func(ctx context.Context, text string) (string, error) {
		return "answered: " + text, work(ctx)
	}))
	return m
}

// lines is the stream of the poem.
var lines = stream.New[string]("lines")

// poem is a workflow whose step says its lines in a stream, and keeps its log lines.
func poem() perdure.Definition {
	return perdure.Define("poem", func(ctx context.Context, theme string) (int, error) {
		return perdure.Step(ctx, "write", func(ctx context.Context) (int, error) {
			for i, line := range []string{"a run begins", "a run may wait", "a run goes on"} {
				steplog.Logger(ctx).Info("a line", "number", i+1)
				if err := lines.Append(ctx, line+" ("+theme+")\n"); err != nil {
					return i, err
				}
				if err := work(ctx); err != nil {
					return i, err
				}
			}
			return 3, nil
		})
	}, steplog.Keep{}, taking(themeInput, "Says its lines in the stream lines. The input is a "+
		"theme."))
}

// counter is an event-driven orchestrator: it counts the events of a subject.
func counter() perdure.Definition {
	return orchestrator.Define(orchestrator.Orchestrator{
		Source: "counter",
		Versions: []orchestrator.Version{{
			Initial: []string{"count.begin"},
			Accepts: map[string]orchestrator.Schema{
				"count.begin": nil, "count.one": nil, "count.end": nil,
			},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				var n int
				if _, err := t.State(&n); err != nil {
					return err
				}
				if t.Event.Type == "count.end" {
					t.Finish()
				}
				return t.Become(n + 1)
			},
		}},
	}, perdure.About{Description: "Counts the events of a subject: an orchestrator."})
}

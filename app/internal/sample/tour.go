package sample

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/schedule"
)

// A Tour starts some runs of each sample, so that the dashboard opens on data. It is a workflow
// itself: if its process is killed in the middle, the next one starts the rest.
type Tour struct {
	engine *perdure.Engine
	known  chan struct{} // closed when the engine is known
}

// NewTour returns a tour that waits for its engine: see [Tour.Begin].
func NewTour() *Tour { return &Tour{known: make(chan struct{})} }

// tourName is the name of the workflow and the ID of its run.
const tourName = "tour"

// A stop is a run that the tour starts.
type stop struct {
	workflow, id string
	input        any
}

// stops are the runs of the tour. Those at the end are to be seen first.
var stops = []stop{
	{"greet", "hello-ada", "Ada"},
	{"greet", "hello-grace", "Grace"},
	{"poem", "poem-sea", "the sea"},
	{"report", "report-2026-11-27", Day{"2026-11-27"}},
	{"report", "report-2026-11-28", Day{"2026-11-28"}},
	{"order", "order-1001", Order{"order-1001", "DE"}},
	{"order", "order-1002", Order{"order-1002", "FR"}},
	{"order", "order-1003", Order{"order-1003", "XX"}}, // is undone
	{"order", "order-1004", Order{"order-1004", "DE"}},
	{"transfer", "transfer-501", Transfer{"ada", "bob", 120_00}},
	{"transfer", "transfer-502", Transfer{"bob", "eve", 75_50}},
	{"transfer", "transfer-503", Transfer{"eve", "ada", 2500_00}}, // is refused
	{"invoice", "invoice-88", Invoice{"grace@example.com", 99_00}},
	{"invoice", "invoice-89", Invoice{"nowhere", 49_00}}, // becomes a dead letter
	{"ticket", "ticket-16", Ticket{"Where is my order?"}},
	{"ticket", "ticket-17", Ticket{"Does it work on Windows?"}}, // waits for its answer
	{"statements", "statements-2026-10", Statements{"2026-10", 4, 250}},
	{"expense", "expense-ada", Expense{"Ada", 42_00}},
	{"expense", "expense-grace", Expense{"Grace", 18_90}},
	{"statements", "statements-2026-11", Statements{"2026-11", 180, 1000}}, // goes on for 3 minutes
}

// Workflow returns the workflow that starts the runs. They have the IDs of their business, so a
// start that is repeated starts nothing again.
func (t *Tour) Workflow() perdure.Definition {
	return perdure.Define(tourName, func(ctx context.Context, _ struct{}) (int, error) {
		for _, s := range stops {
			err := t.do(ctx, s.id, func(ctx context.Context) error { return t.start(ctx, s) })
			if err != nil {
				return 0, err
			}
		}
		return len(stops), errors.Join(
			t.do(ctx, "answer-a-ticket", t.answer("ticket-16", "It comes tomorrow.")),
			// no run has this ID, so the signal is kept
			t.do(ctx, "answer-nobody", t.answer("ticket-99", "Thank you.")),
			t.do(ctx, "set-a-schedule", t.everyMinute))
	}, perdure.About{
		Description: "Starts some runs of the other samples, once, on a new database.",
	})
}

// do is a step that has the engine.
func (t *Tour) do(ctx context.Context, name string, f func(context.Context) error) error {
	return perdure.Do(ctx, name, func(ctx context.Context) error {
		select {
		case <-t.known:
			return f(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (t *Tour) start(ctx context.Context, s stop) error {
	input, err := json.Marshal(s.input)
	if err == nil {
		_, err = t.engine.Start(ctx, s.workflow, input, perdure.ID(s.id), pattern.ModeSync) // any
	}
	return err
}

func (t *Tour) answer(id, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := answered.Send(ctx, t.engine, id, text, perdure.SendKey("tour"))
		return err
	}
}

func (t *Tour) everyMinute(ctx context.Context) error {
	return schedule.Set(ctx, t.engine, "greet-every-minute", schedule.Spec{
		Workflow: "greet", Cron: "* * * * *", Input: json.RawMessage(`"the new minute"`),
		Description: "Starts a run each minute.",
	}, schedule.Note{By: tourName, Why: "it is a sample"})
}

// Begin starts the tour with an engine, if its database has no run of a sample.
func (t *Tour) Begin(ctx context.Context, e *perdure.Engine) error {
	t.engine = e
	close(t.known)
	all := []string{tourName}
	for _, s := range stops {
		all = append(all, s.workflow)
	}
	runs, _, err := e.List(ctx, perdure.Query{Workflows: all, Limit: 1})
	if err == nil && len(runs) == 0 {
		_, err = e.Start(ctx, tourName, []byte(`{}`), perdure.ID(tourName))
	}
	return err
}

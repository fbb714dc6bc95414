package admin_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
)

// orderOf returns a workflow whose step charge fails.
func orderOf(name string) *perdure.Workflow[int, string] {
	return perdure.Define(name, func(ctx context.Context, cents int) (string, error) {
		if err := perdure.Do(ctx, "reserve", func(context.Context) error {
			return nil
		}); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			return "", errors.New("the bank is closed")
		}, perdure.NoRetry)
	}, deadletter.Automatic(true))
}

// A step that failed is skipped: somebody has done its work by hand.
func ExampleClient_Act() {
	order := orderOf("paid-by-hand")
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	startRun(engine, order, 5, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Failed)

	acted, err := admin.New(engine).Act(ctx, "ord-1", admin.Order{
		Action: journal.ActionSkip, Step: "charge", Output: []byte(`"receipt 7"`),
		By: "ada@desk", Reason: "paid by hand",
	})
	untilStatus(engine.Client, "ord-1", journal.Completed)
	d, _ := engine.Describe(ctx, acted.RunID)
	fmt.Println(acted.New, err, d.State.Steps[1].Status, d.State.Origin.By)
	// Output: true <nil> SKIPPED ada@desk
}

// An order of an operator is checked before anything is done.
func ExampleOrder() {
	fmt.Println(admin.Order{Action: journal.ActionFork}.Validate())
	fmt.Println(admin.Order{Action: journal.ActionFork, Step: "charge"}.Validate())
	// Output:
	// perdure: act: a fork needs a step
	// <nil>
}

// The preview of a rollback has the steps that would be undone.
func ExampleClient_Preview() {
	order := dag.New[int]("previewed")
	dag.Add(order, "reserve", func(context.Context, int) (string, error) {
		return "r-1", nil
	}).Undo(func(context.Context, int, string) error { return nil })
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	if _, err := order.Execute(ctx, engine, 5, perdure.ID("ord-2")); err != nil {
		fmt.Println(err)
	}

	p, err := admin.New(engine).Preview(ctx, "ord-2", admin.Order{
		Action: journal.ActionCompensate,
	})
	fmt.Println(p.Inherited, err)
	// Output: [reserve] <nil>
}

// The dead letter counts the retry, and the journal of the new run has the operator.
func ExampleClient_ActOnDeadLetter() {
	order := orderOf("closed-bank")
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	startRun(engine, order, 5, perdure.ID("ord-3"))
	untilStatus(engine.Client, "ord-3", journal.Failed)

	a := admin.New(engine)
	letters, _, err := a.DeadLetters(ctx, admin.DeadLetterQuery{})
	if err != nil || len(letters) != 1 {
		fmt.Println(letters, err)
		return
	}
	acted, err := a.ActOnDeadLetter(ctx, letters[0].ID, admin.Order{
		Action: journal.ActionRetry, By: "ada@desk",
	})
	fmt.Println(acted.WorkflowID, acted.New, err)
	// Output: ord-3 true <nil>
}

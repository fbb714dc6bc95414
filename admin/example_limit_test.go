package admin_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// waiting returns a workflow that waits for a signal.
func waiting(name string) *perdure.Workflow[int, int] {
	return perdure.Define(name, func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
}

// startUntilHeld starts runs until one of them is held back, because the engine knows the limit. It
// returns the workflow ID of that run.
func startUntilHeld(engine *perdure.Engine, order *perdure.Workflow[int, int]) string {
	for i := 1; ; i++ {
		id := fmt.Sprint("ord-", i)
		startRun(engine, order, 0, perdure.ID(id))
		d := untilStatus(engine.Client, id, journal.Waiting, journal.Pending)
		if d.Head.Status == journal.Pending {
			return id
		}
	}
}

// An operator limits a workflow whose code knows no limits.
func ExampleClient_SetLimit() {
	order := waiting("limited")
	engine, stop := newEngine(order)
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	one := 1
	err := op.SetLimit(ctx, "limited", limit.Bounds{Concurrency: &one}, admin.Note{By: "ada"})
	startUntilHeld(engine, order)
	fmt.Println(err)
	// Output: <nil>
}

// Workflows that have no limit of their own may all have one. A limit of 0 is none.
func ExampleDefaultLimit() {
	engine, stop := newEngine(waiting("any"))
	defer stop()
	op, ctx := admin.New(engine), context.Background()
	hundred, none := 100, 0
	fmt.Println(op.SetLimit(ctx, admin.DefaultLimit, limit.Bounds{Concurrency: &hundred},
		admin.Note{By: "ada"}))
	fmt.Println(op.SetLimit(ctx, "any", limit.Bounds{Concurrency: &none}, admin.Note{By: "ada"}))
	// Output:
	// <nil>
	// <nil>
}

// Without a limit the runs that wait go on.
func ExampleClient_ResetLimit() {
	order := waiting("reset")
	engine, stop := newEngine(order)
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	one := 1
	op.SetLimit(ctx, "reset", limit.Bounds{Concurrency: &one}, admin.Note{})
	held := startUntilHeld(engine, order)
	err := op.ResetLimit(ctx, "reset", admin.Note{By: "ada", Reason: "the bank has more servers"})
	untilStatus(engine.Client, held, journal.Waiting)
	fmt.Println(err)
	// Output: <nil>
}

// The list has the limits that are set, and what runs hold of them.
func ExampleClient_Limits() {
	order := waiting("listed")
	engine, stop := newEngine(order)
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	two := 2
	op.SetLimit(ctx, "listed", limit.Bounds{Concurrency: &two}, admin.Note{By: "ada"})
	startRun(engine, order, 0, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Waiting)
	limits, err := op.Limits(ctx)
	for err == nil && len(limits[0].Uses) == 0 { // until the engine has learned of the limit
		limits, err = op.Limits(ctx)
	}
	for _, l := range limits {
		fmt.Println(l.Name, *l.Set.Concurrency, l.Note.By)
		for _, u := range l.Uses {
			u := admin.LimitUse(u)
			fmt.Println(u.Of, u.Used, "of", u.Slots, "and", u.Waiting, "in line")
		}
	}
	fmt.Println(err)
	// Output:
	// listed 2 ada
	// runs 1 of 2 and 0 in line
	// <nil>
}

// Who has the slots of a limit, and who waits for one.
func ExampleClient_LimitRuns() {
	order := waiting("shown")
	engine, stop := newEngine(order)
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	one := 1
	op.SetLimit(ctx, "shown", limit.Bounds{Concurrency: &one}, admin.Note{})
	startUntilHeld(engine, order)
	runs, err := op.LimitRuns(ctx, "shown", "runs", 100)
	for _, r := range runs {
		r := admin.LimitRun(r)
		if !r.Held {
			fmt.Println(r.Run.Workflow, "is number", r.Place, "in line")
		}
	}
	fmt.Println(err)
	// Output:
	// shown is number 1 in line
	// <nil>
}

// The runs of a workflow that is paused begin no steps.
func ExampleClient_PauseWorkflow() {
	order := orderOf("paused")
	engine, stop := newEngine(order)
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	op.PauseWorkflow(ctx, admin.AllWorkflows, admin.Note{By: "ada"})
	op.ResumeWorkflow(ctx, admin.AllWorkflows, admin.Note{By: "ada"})
	op.PauseWorkflow(ctx, "paused", admin.Note{By: "ada", Reason: "the bank is closed"})
	startRun(engine, order, 5, perdure.ID("ord-1"))
	pauses, _ := op.Pauses(ctx)
	for _, p := range pauses {
		fmt.Println(p.Workflow, "is paused by", p.Note.By, "because", p.Note.Reason)
	}
	op.ResumeWorkflow(ctx, "paused", admin.Note{By: "ada"})
	untilStatus(engine.Client, "ord-1", journal.Failed)
	// Output: paused is paused by ada because the bank is closed
}

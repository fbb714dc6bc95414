package admin_test

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
)

// A program for operators shows what is not in order, and what mends it.
func ExampleClient_Doctor() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		d, err := perdure.Park(ctx, "bank", "the bank is closed", "retry")
		return len(d.Choice), err
	})
	engine, stop := newEngine(order)
	defer stop()
	startRun(engine, order, 0, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Suspended)
	checks, err := admin.New(engine).Doctor(context.Background(), admin.DoctorOptions{
		Overdue: 5 * time.Minute,
	})
	for _, c := range checks {
		switch c.Health {
		case admin.Healthy:
		case admin.Warned:
			fmt.Println("look at", c.Name, c.IDs, c.Mend)
		case admin.Failing:
			fmt.Println("mend", c.Name)
		}
	}
	fmt.Println(err)
	// Output:
	// mend settings
	// look at parked [ord-1] [why ord-1]
	// <nil>
}

// A program for operators shows the loops that do not go on.
func ExampleClient_Loops() {
	engine, stop := newEngine()
	defer stop()
	all, err := admin.New(engine).Loops(context.Background())
	for _, l := range all {
		if l.Stopped || l.Hangs {
			fmt.Println("engine", l.Engine, "loop", l.Name, "may start:", l.MayStart, l.Reason)
		}
	}
	fmt.Println(err)
	// Output: <nil>
}

// The check loops has the loops that have stopped. An order lets one begin again.
func ExampleClient_StartLoop() {
	engine, stop := newEngine()
	defer stop()
	err := admin.New(engine).StartLoop(context.Background(), 1, "retention",
		admin.Note{By: "ada", Reason: "the disk is back"})
	fmt.Println(journal.CodeOf(err))
	// Output: not_found
}

// A page of the program shows which steps it still waits for while it stops.
func ExampleClient_Held() {
	inside, release := make(chan struct{}), make(chan struct{})
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "pay", func(context.Context) (int, error) {
			close(inside)
			<-release
			return 0, nil
		})
	})
	engine, stop := newEngine(order)
	defer stop()
	startRun(engine, order, 0, perdure.ID("ord-1"))
	<-inside
	held, err := admin.New(engine).Held()
	show := func(s admin.StepInFlight) { fmt.Println(s.WorkflowID, s.Step, s.Attempt) }
	fmt.Println(held.Draining, held.Steps, err)
	show(held.InFlight[0])
	close(release)
	// Output:
	// false 1 <nil>
	// ord-1 pay 1
}

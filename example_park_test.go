package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A run may ask an operator, and waits however long that takes.
func ExamplePark() {
	refund := perdure.Define("refund", func(ctx context.Context, cents int) (string, error) {
		d, err := perdure.Park(ctx, "large-refund", "more than we refund by ourselves", "refund", "refuse")
		return d.Choice + ": " + d.Reason, err
	})
	engine, stop := newEngine(refund)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, refund, 99900, perdure.ID("refund-1"))
	untilStatus(engine.Client, "refund-1", journal.Suspended)

	parked, _, err := engine.Parked(ctx, 0, 0)
	for _, p := range parked {
		for _, w := range p.Decisions {
			fmt.Println(p.Head.WorkflowID, w.Path, w.Choices, p.Why)
		}
	}
	fmt.Println(err)

	fmt.Println(engine.Decide(ctx, "refund-1", "large-refund", perdure.Decision{Choice: "refund", Reason: "an old customer"}))
	fmt.Println(run.Result(ctx))
	// Output:
	// refund-1 large-refund [refund refuse] more than we refund by ourselves
	// <nil>
	// <nil>
	// refund: an old customer <nil>
}

// A step that returns a Parking error parks its run until an operator has mended
// what is wrong and resumes it; then it is tried again.
func ExampleParking() {
	broken := true
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "print", func(context.Context) (string, error) {
			if broken {
				return "", perdure.Parking(errors.New("no paper"))
			}
			return "printed", nil
		})
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("w"))
	fmt.Println(untilStatus(engine.Client, "w", journal.Suspended).Head.Cause)
	broken = false
	fmt.Println(engine.Resume(ctx, "w"))
	fmt.Println(run.Result(ctx))
	// Output:
	// no paper
	// <nil>
	// printed <nil>
}

// An operator may hold a run and let it go on.
func ExampleClient_Suspend() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return "done", perdure.Sleep(ctx, 20*time.Millisecond)
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("w"))
	fmt.Println(engine.Suspend(ctx, "w", "the auditors are here"))
	parked, _, err := engine.Parked(ctx, 0, 0)
	for _, p := range parked {
		fmt.Println(p.Head.WorkflowID, p.Why)
	}
	fmt.Println(err)
	fmt.Println(engine.Resume(ctx, "w"))
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// w the auditors are here
	// <nil>
	// <nil>
	// done <nil>
}

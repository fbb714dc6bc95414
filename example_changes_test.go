package perdure_test

import (
	"context"
	"fmt"
	"runtime"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// deployed starts a run under a build whose workflow is before, and says how it ends
// under the next one, whose workflow is after.
func deployed(before, after *perdure.Workflow[string, string]) {
	ctx := context.Background()
	db := memory.New()
	engine, stop := newEngineOn(db, perdure.Options{Build: "1"}, before)
	if _, err := before.Start(ctx, engine, "ord-42", perdure.ID("ord-42")); err != nil {
		panic(err)
	}
	untilItWaits(engine, "ord-42")
	stop()
	engine, stop = newEngineOn(db, perdure.Options{Build: "2"}, after)
	defer stop()
	if _, err := approved.Send(ctx, engine, "ord-42", true); err != nil {
		panic(err)
	}
	run, err := after.Get(ctx, engine, "ord-42")
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
}

// untilItWaits returns when a run has done what comes before its wait.
func untilItWaits(engine *perdure.Engine, id string) {
	for {
		d, err := engine.Describe(context.Background(), id)
		if err != nil {
			panic(err)
		}
		if len(d.State.Waits) > 0 {
			return
		}
		runtime.Gosched()
	}
}

var approved = perdure.NewSignal[bool]("approved")

// says is a step that prints its name.
func says(ctx context.Context, name string, opts ...perdure.StepOption) (string, error) {
	return perdure.Step(ctx, name, func(context.Context) (string, error) {
		fmt.Println(name)
		return name, nil
	}, opts...)
}

// A step is added in front of one that runs have behind them, and is to be done all the same.
func ExampleAdded() {
	order := func(checks bool) *perdure.Workflow[string, string] {
		return perdure.Define("order", func(ctx context.Context, id string) (string, error) {
			if checks {
				if _, err := says(ctx, "check-address", perdure.Added); err != nil {
					return "", err
				}
			}
			if _, err := says(ctx, "reserve"); err != nil {
				return "", err
			}
			_, err := approved.Wait(ctx)
			return id + " is shipped", err
		})
	}
	deployed(order(false), order(true))
	// Output:
	// reserve
	// check-address
	// ord-42 is shipped <nil>
}

// Of a workflow whose steps may well be done twice, runs go on whatever changes.
func ExampleByName() {
	report := func(step string) *perdure.Workflow[string, string] {
		return perdure.Define("report", func(ctx context.Context, id string) (string, error) {
			if _, err := says(ctx, step); err != nil {
				return "", err
			}
			_, err := approved.Wait(ctx)
			return id + " is reported", err
		}, perdure.ByName)
	}
	deployed(report("count"), report("sum"))
	// Output:
	// count
	// sum
	// ord-42 is reported <nil>
}

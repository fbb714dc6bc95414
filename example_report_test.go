package perdure_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store/memory"
)

// A report describes a run: long after its end, and, in the body of a step, its progress so far.
func ExampleRun_Report() {
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		if _, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) {
			return "hold-1", nil
		}); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			r, err := report.Of(ctx)
			fmt.Println("so far", len(r.Steps), "step:", r.Steps[0].ID, r.Steps[0].Status)
			return "paid", err
		})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{}, order)
	defer stop()
	ctx := context.Background()
	run, err := order.Start(ctx, engine, Order{ID: "ord-1"}, perdure.TriggeredBy("the shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Outcome(ctx); err != nil {
		fmt.Println(err)
		return
	}
	r, err := run.Report(ctx)
	fmt.Println(r.Success(), r.TriggeredBy, r.DryRun, len(r.Completed()), err)
	// Output:
	// so far 1 step: reserve DONE
	// true the shop false 2 <nil>
}

// Every run in the store has a report, which is found by its workflow ID.
func ExampleClient_Report() {
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return "hello " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	if _, err := startRun(engine, greet, "Ada", perdure.ID("ada")).
		Result(context.Background()); err != nil {
		log.Fatal(err)
	}
	r, err := engine.Report(context.Background(), "ada")
	fmt.Println(r.Name, r.Status, r.Success(), err)
	// Output: greet COMPLETED true <nil>
}

// A listener reads the report of the run that has ended.
func ExampleEnded_Report() {
	told := make(chan string)
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return "hello " + name, nil
	}, perdure.Listener{Call: func(_ context.Context, e perdure.Ended) error {
		r, err := e.Report()
		told <- fmt.Sprint(r.Name, " ", r.Status)
		return err
	}})
	engine, stop := newEngine(greet)
	defer stop()
	startRun(engine, greet, "Ada")
	fmt.Println(<-told)
	// Output: greet COMPLETED
}

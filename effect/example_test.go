package effect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/store/memory"
)

// run runs a workflow on an engine of its own, and prints its result or its error.
func run(w *perdure.Workflow[string, string]) {
	e, err := perdure.New(memory.New(), perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = e.Register(w)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	r, err := w.Start(ctx, e, "ord-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Result(ctx))
	stop()
	<-done
}

// The carrier has no car, so the bank gets its money back.
func ExampleUndo() {
	run(perdure.Define("order", func(ctx context.Context, order string) (string, error) {
		_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
			fmt.Println("charge", order)
			return 4711, nil
		}, effect.Undo(func(_ context.Context, payment int) error {
			fmt.Println("refund", payment)
			return nil
		}))
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "ship", func(context.Context) (string, error) {
			return "", errors.New("no car")
		}, perdure.NoRetry)
	}))
	// Output:
	// charge ord-1
	// refund 4711
	//  step ship: no car
}

// The bell rings once at most. Only a crash at the wrong moment needs a person.
func ExampleAtMostOnce() {
	run(perdure.Define("announce", func(ctx context.Context, order string) (string, error) {
		err := perdure.Do(ctx, "ring", func(context.Context) error {
			fmt.Println("ring for", order)
			return nil
		}, effect.AtMostOnce)
		if errors.Is(err, effect.ErrInterrupted) {
			_, err = perdure.Park(ctx, "ring", "did the bell ring?", "yes")
		}
		return "done", err
	}))
	// Output:
	// ring for ord-1
	// done <nil>
}

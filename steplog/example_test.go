package steplog_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/store/memory"
)

// What a step logs is kept with its run.
func Example() {
	logger := slog.New(steplog.Handler(slog.DiscardHandler))
	order := perdure.Define("order", func(ctx context.Context, cents int) (int, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			logger.InfoContext(ctx, "charging", "cents", cents)
			return cents, nil
		})
	}, steplog.Keep{})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(order)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	run, err := order.Start(ctx, engine, 4200)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := run.Result(ctx); err != nil {
		log.Fatal(err)
	}
	lines, err := steplog.Read(ctx, engine, run.RunID(), steplog.Query{Step: "charge"})
	for _, l := range lines {
		fmt.Println(l.Step, l.Attempt, l.Level, l.Message, string(l.Attrs))
	}
	fmt.Println(err)
	stop()
	<-done
	// Output:
	// charge 1 INFO charging {"cents":4200}
	// <nil>
}

package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A run that sleeps is in the store and nowhere else: thirty days are as good as a
// millisecond.
func ExampleSleep() {
	remind := perdure.Define("remind", func(ctx context.Context, whom string) (string, error) {
		if err := perdure.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "mail", func(context.Context) (string, error) { return "reminded " + whom, nil })
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(remind)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := remind.Start(ctx, engine, "Ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: reminded Ada <nil>
}

// The time is workflow code's by [Now]; an instant that has passed is not waited
// for.
func ExampleUntil() {
	w := perdure.Define("w", func(ctx context.Context, launch time.Time) (bool, error) {
		if err := perdure.Until(ctx, launch); err != nil {
			return false, err
		}
		now, err := perdure.Now(ctx)
		return !now.Before(launch), err
	})
	printResult(w, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	// Output: true
}

// A timer runs beside the workflow: what comes first is taken.
func ExampleTimer() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		deadline := perdure.Timer(ctx, "deadline", time.Hour)
		if _, err := perdure.Step(ctx, "work", func(context.Context) (bool, error) { return true, nil }); err != nil {
			return "", err
		}
		if intime, err := deadline.Cancel(ctx, "the work is done"); err != nil || !intime {
			return "too late", err
		}
		return "in time", nil
	})
	printResult(w, 0)
	// Output: in time
}

// A timer for an instant tells that instant.
func ExampleTimerAt() {
	w := perdure.Define("w", func(ctx context.Context, at time.Time) (string, error) {
		fired, err := perdure.TimerAt(ctx, "midnight", at).Await(ctx)
		return fired.Format(time.DateTime), err
	})
	printResult(w, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	// Output: 2020-01-01 00:00:00
}

// Somebody outside may end a timer before its time.
func ExampleClient_CancelTimer() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		_, err := perdure.Timer(ctx, "cool-down", 24*time.Hour).Await(ctx)
		if errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}) {
			return "somebody was in a hurry", nil
		}
		return "a day later", err
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("launch"))
	untilStatus(engine.Client, "launch", journal.Waiting)
	fmt.Println(engine.CancelTimer(ctx, "launch", "cool-down", "it is cool"))
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// somebody was in a hurry <nil>
}

package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// Errors of this module have a code, by which programs tell them apart, a message,
// and often a hint for people.
func ExampleError() {
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register()
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	_, err = engine.Get(ctx, "ord-1")
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}))
	fmt.Println(err)
	// Output:
	// true
	// perdure: find ord-1: no run has this run ID or workflow ID
}

// No further attempt mends a permanent error.
func ExamplePermanent() {
	w := perdure.Define("w", func(ctx context.Context, card string) (string, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			n, _, _ := perdure.Attempt(ctx)
			fmt.Println("attempt", n)
			return "", perdure.Permanent(errors.New("the card was stolen"))
		}, perdure.Retry{Attempts: 5})
	})
	printResult(w, "tok_1")
	// Output:
	// attempt 1
	// error: the card was stolen
}

// Whom a service told when to come again need not guess.
func ExampleRetryAfter() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "ask", func(ctx context.Context) (string, error) {
			if n, _, _ := perdure.Attempt(ctx); n == 1 {
				return "", perdure.RetryAfter(time.Millisecond, errors.New("too many requests"))
			}
			return "an answer", nil
		}, perdure.Retry{First: time.Hour})
	})
	printResult(w, 0)
	// Output: an answer
}

// A benign error is an error like others, and observers need not wake anybody.
func ExampleBenign() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "look", func(context.Context) (string, error) {
			return "", perdure.Benign(errors.New("the shop is shut on Sundays"))
		}, perdure.NoRetry)
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Observers: []observe.Observer{{
		Kinds: []observe.Kind{observe.StepFailed},
		See:   func(n observe.Notice) { fmt.Println(n.Step, "failed, benign:", n.Benign) },
	}}}, w)
	defer stop()
	_, err := startRun(engine, w, 0).Result(context.Background())
	fmt.Println(err)
	// Output:
	// look failed, benign: true
	// the shop is shut on Sundays
}

// A Retryable error that the function returns does not end the run: its code is
// replayed, as after a panic.
func ExampleRetryable() {
	tries := 0
	w := perdure.Define("w", func(context.Context, int) (string, error) {
		if tries++; tries == 1 {
			return "", perdure.Retryable(errors.New("not yet"))
		}
		return "now", nil
	}, perdure.Replays{First: time.Millisecond})
	printResult(w, 0)
	// Output: now
}

// A panic in a step is a failed attempt, and its stack is kept.
func ExampleStack() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		_, err := perdure.Step(ctx, "divide", func(context.Context) (int, error) {
			zero := 0
			return 1 / zero, nil
		}, perdure.NoRetry)
		fmt.Println(err)
		fmt.Println("has the function:", strings.Contains(perdure.Stack(err), "ExampleStack"))
		return "went on", nil
	})
	printResult(w, 0)
	// Output:
	// step divide panicked: runtime error: integer divide by zero
	// has the function: true
	// went on
}

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

// A run that goes on for ever begins anew now and then, so that its journal stays
// short. Who waits for its result gets that of the last one.
func ExampleContinueAsNew() {
	type count struct{ Done, Total int }
	w := perdure.Define("count", func(ctx context.Context, c count) (count, error) {
		for range 100 {
			if c.Done == c.Total {
				return c, nil
			}
			c.Done++ // and a step or two
		}
		return c, perdure.ContinueAsNew(ctx, c)
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(w)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := w.Start(ctx, engine, count{Total: 250}, perdure.ID("count"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	chain, _, err := engine.Find(ctx, perdure.Query{WorkflowID: "count"})
	fmt.Println(len(chain), "runs", err)
	// Output:
	// {250 250} <nil>
	// 3 runs <nil>
}

// Fail ends the run from wherever its code is: what the function returns no longer
// counts.
func ExampleFail() {
	check := func(ctx context.Context, cents int) error {
		if cents < 0 {
			return perdure.Fail(ctx, errors.New("a negative amount"))
		}
		return nil
	}
	pay := perdure.Define("pay", func(ctx context.Context, cents int) (string, error) {
		if err := check(ctx, cents); err != nil {
			return "", err
		}
		return "paid", nil
	})
	printResult(pay, 4200)
	printResult(pay, -1)
	// Output:
	// paid
	// error: a negative amount
}

// A run may cancel itself.
func ExampleCancel() {
	trip := perdure.Define("trip", func(ctx context.Context, weather string) (string, error) {
		if weather == "rain" {
			return "", perdure.Cancel(ctx, "it rains")
		}
		return "a fine day", nil
	})
	engine, stop := newEngine(trip)
	defer stop()
	run := startRun(engine, trip, "rain")
	_, err := run.Result(context.Background())
	fmt.Println(journal.CodeOf(err))
	d, err := engine.Describe(context.Background(), run.ID())
	fmt.Println(d.Head.Status, d.State.Reason, err)
	// Output:
	// cancelled
	// CANCELLED it rains <nil>
}

// A pattern ends its runs with statuses of its own.
func ExampleEnd() {
	saga := perdure.Define("saga", func(ctx context.Context, _ int) (string, error) {
		return "", perdure.End(ctx, journal.Compensated, "everything is undone", errors.New("the hotel is full"))
	})
	engine, stop := newEngine(saga)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, saga, 0)
	_, err := run.Result(ctx)
	fmt.Println(err)
	all, err := engine.Statuses(ctx, run.ID())
	fmt.Printf("%v %s %v\n", all[0].Head.Status, all[0].Output, err)
	// Output:
	// the hotel is full
	// COMPENSATED "everything is undone" <nil>
}

// What is planned by OnCancel is done when the run is cancelled or times out.
func ExampleOnCancel() {
	rent := perdure.Define("rent", func(ctx context.Context, car string) (string, error) {
		if err := perdure.OnCancel(ctx, "give-back", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "give-back", func(context.Context) (bool, error) {
				fmt.Println("gave back", car)
				return true, nil
			})
			return err
		}); err != nil {
			return "", err
		}
		_, err := Paid.Wait(ctx)
		return car, err
	})
	engine, stop := newEngine(rent)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, rent, "a tandem", perdure.ID("rent-1"))
	untilStatus(engine.Client, "rent-1", journal.Waiting)
	if err := engine.Cancel(ctx, "rent-1", "changed my mind"); err != nil {
		log.Fatal(err)
	}
	_, err := run.Result(ctx)
	fmt.Println(journal.CodeOf(err))
	// Output:
	// gave back a tandem
	// cancelled
}

// What is planned by Finally is done however the run ends, the last first.
func ExampleFinally() {
	say := func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "say", func(context.Context) (bool, error) {
				fmt.Println(text)
				return true, nil
			})
			return err
		}
	}
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if err := perdure.Finally(ctx, "lights", say("lights out")); err != nil {
			return "", err
		}
		if err := perdure.Finally(ctx, "windows", say("windows shut")); err != nil {
			return "", err
		}
		return "", errors.New("there is no tea")
	})
	printResult(w, 0)
	// Output:
	// windows shut
	// lights out
	// error: there is no tea
}

// A deferred function also runs when the run only leaves memory, with [ErrUnloaded]
// as the cause of its context: it frees memory and locks, and does nothing else.
func ExampleLeaving() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		defer func() {
			fmt.Println("leaving:", perdure.Leaving(ctx), errors.Is(context.Cause(ctx), perdure.ErrUnloaded))
		}()
		err := perdure.Sleep(ctx, time.Hour)
		return "", err
	})
	engine, stop := newEngine(w)
	startRun(engine, w, 0, perdure.ID("w"))
	untilStatus(engine.Client, "w", journal.Waiting)
	stop() // the run is in the store, for the next engine
	// Output: leaving: true true
}

// The code of a run whose function panics, or returns a Retryable error, is
// replayed, with what its steps gave before; after the last replay it is parked.
func ExampleReplays() {
	tries := 0
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := perdure.Step(ctx, "once", func(context.Context) (bool, error) {
			fmt.Println("the step is executed")
			return true, nil
		}); err != nil {
			return "", err
		}
		if tries++; tries < 3 {
			return "", perdure.Retryable(errors.New("the moon is wrong"))
		}
		return fmt.Sprint("it worked at replay ", tries-1), nil
	}, perdure.Replays{Attempts: 5, First: time.Millisecond})
	printResult(w, 0)
	// Output:
	// the step is executed
	// it worked at replay 2
}

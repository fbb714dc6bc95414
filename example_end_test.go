package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// A run without an end continues as new regularly, so that its journal stays short. A caller that
// waits for its result gets the result of the last run.
func ExampleContinueAsNew() {
	type count struct{ Done, Total int }
	w := perdure.Define("count", func(ctx context.Context, c count) (count, error) {
		for range 100 {
			if c.Done == c.Total {
				return c, nil
			}
			c.Done++ // and one or two steps
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
	chain, _, err := engine.List(ctx, perdure.Query{WorkflowID: "count"})
	fmt.Println(len(chain), "runs", err)
	// Output:
	// {250 250} <nil>
	// 3 runs <nil>
}

// Fail ends the run from any place in its code. The result of the function no longer counts.
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

// A clean-up of OnCancel runs when the run is cancelled or times out. It cannot be withdrawn, so it
// looks at a variable that the code sets when there is nothing to give back any more.
func ExampleOnCancel() {
	rent := perdure.Define("rent", func(ctx context.Context, car string) (string, error) {
		sold := false
		if err := perdure.OnCancel(ctx, "give-back", func(ctx context.Context) error {
			if sold {
				return nil
			}
			_, err := perdure.Step(ctx, "give-back", func(context.Context) (bool, error) {
				fmt.Println("gave back", car)
				return true, nil
			})
			return err
		}); err != nil {
			return "", err
		}
		if _, err := Paid.Wait(ctx); err != nil {
			return "", err
		}
		sold = true
		return car, perdure.Sleep(ctx, 14*24*time.Hour) // a run that is cancelled now keeps the car
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

// Clean-ups of Finally run however the run ends, the last registered first.
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

// The code of a run whose function panics, or returns a RetryAfter error, is replayed with the
// recorded results of its steps. After the last replay the run is parked.
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
			return "", perdure.RetryAfter(0, errors.New("the moon is wrong"))
		}
		return fmt.Sprint("it worked at replay ", tries-1), nil
	}, perdure.Replays{Attempts: 5, First: time.Millisecond})
	printResult(w, 0)
	// Output:
	// the step is executed
	// it worked at replay 2
}

// The steps of a participant are its phases. One function serves all of them, and finds out its
// phase.
func ExamplePhase() {
	debit := func(ctx context.Context) (string, error) {
		s, _ := perdure.StepOf(ctx)
		fmt.Println(s.Step, "is the phase", s.Phase, "of", s.Of)
		return "hold-1", nil
	}
	w := perdure.Define("w", func(ctx context.Context, confirmed bool) (string, error) {
		hold, err := perdure.Step(ctx, "debit", debit, perdure.PhaseTry)
		if err != nil {
			return "", err
		}
		next := perdure.PhaseConfirm
		if !confirmed {
			next = perdure.PhaseCancel
		}
		return perdure.Step(ctx, "debit", func(ctx context.Context) (string, error) {
			_, err := debit(ctx)
			return string(next) + " of " + hold, err
		}, next)
	})
	printResult(w, true)
	printResult(w, false)
	// Output:
	// try:debit is the phase TRY of debit
	// confirm:debit is the phase CONFIRM of debit
	// CONFIRM of hold-1
	// try:debit is the phase TRY of debit
	// cancel:debit is the phase CANCEL of debit
	// CANCEL of hold-1
}

// StepOf returns the step whose body is running.
func ExampleStepOf() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, inStep := perdure.StepOf(ctx)
		fmt.Println("in workflow code:", inStep)
		return perdure.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			s, inStep := perdure.StepOf(ctx)
			fmt.Println("in a body:", inStep, s.Step, "attempt", s.Attempt, "of workflow",
				s.Run.Workflow)
			return 0, nil
		})
	})
	printResult(w, 0)
	// Output:
	// in workflow code: false
	// in a body: true charge attempt 1 of workflow w
	// 0
}

// The step that undoes another one has its name, in a phase of its own. The journal records the
// outcome, for reports and observers.
func ExampleRecord_compensation() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		charge := func(context.Context) (int, error) { return 42, nil }
		if _, err := perdure.Step(ctx, "charge", charge); err != nil {
			return 0, err
		}
		broken := errors.New("the van has broken down")
		var failed error
		note := func(f pattern.Fact) {
			if failed == nil {
				failed = pattern.Record(ctx, f)
			}
		}
		note(pattern.Fact{
			Kind: pattern.StepSkipped, Name: "thank", Reason: pattern.ReasonDuplicate,
		})
		if err := pattern.SetStatus(ctx, perdure.StatusCompensating); err != nil {
			return 0, err
		}
		note(pattern.Fact{Kind: pattern.CompensationStarted, Name: "charge"})
		undo := func(context.Context) (int, error) { return -42, nil }
		if _, err := perdure.Step(ctx, "charge", undo, perdure.PhaseUndo); err != nil {
			note(pattern.Fact{Kind: pattern.StepCompensationFailed, Name: "charge", Err: err})
		} else {
			note(pattern.Fact{Kind: pattern.StepCompensated, Name: "charge"})
		}
		if failed != nil {
			return 0, failed
		}
		return 0, pattern.End(ctx, perdure.StatusCompensated, 0, broken)
	}, pattern.Saga)
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0)
	_, err := run.Result(ctx)
	fmt.Println(err)
	d, err := engine.Describe(ctx, run.ID())
	fmt.Println(d.Head.Status, d.Head.Pattern, err)
	// Output:
	// the van has broken down
	// COMPENSATED SAGA <nil>
}

// A TCC records its phases in the journal.
func ExampleRecord_phase() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for _, f := range []pattern.Fact{
			{Kind: pattern.PhaseStarted, Name: "try"},
			{Kind: pattern.PhaseFailed, Name: "try", Err: errors.New("no funds")},
			{Kind: pattern.PhaseStarted, Name: "cancel"},
			{Kind: pattern.PhaseCompleted, Name: "cancel"},
		} {
			if err := pattern.Record(ctx, f); err != nil {
				return 0, err
			}
		}
		return 0, pattern.End(ctx, perdure.StatusCanceled, 0, nil)
	}, pattern.TCC)
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0)
	_, err := run.Result(ctx)
	fmt.Println(err)
	d, err := engine.Describe(ctx, run.ID())
	fmt.Println(d.Head.Status, err)
	// Output:
	// <nil>
	// CANCELED <nil>
}

// These are the statuses that patterns set, and the statuses that they end with.
func ExampleRunStatus() {
	for _, s := range []perdure.RunStatus{
		perdure.StatusRunning, perdure.StatusTrying, perdure.StatusConfirming,
		perdure.StatusCanceling, perdure.StatusCompensating,
	} {
		fmt.Println(s, "goes on")
	}
	for _, s := range []perdure.RunStatus{
		perdure.StatusCompleted, perdure.StatusConfirmed, perdure.StatusFailed,
		perdure.StatusCancelled,
		perdure.StatusTimedOut, perdure.StatusCanceled, perdure.StatusCompensated,
	} {
		fmt.Println(s, "ends; a success:", s.IsSuccess())
	}
	// Output:
	// RUNNING goes on
	// TRYING goes on
	// CONFIRMING goes on
	// CANCELING goes on
	// COMPENSATING goes on
	// COMPLETED ends; a success: true
	// CONFIRMED ends; a success: true
	// FAILED ends; a success: false
	// CANCELLED ends; a success: false
	// TIMED_OUT ends; a success: false
	// CANCELED ends; a success: false
	// COMPENSATED ends; a success: false
}

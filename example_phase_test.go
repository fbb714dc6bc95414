package perdure_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// The steps of a participant are its phases: one function serves all of them, and asks
// which it is.
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

// StepOf tells a body what it is the body of.
func ExampleStepOf() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, inStep := perdure.StepOf(ctx)
		fmt.Println("in workflow code:", inStep)
		return perdure.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			s, inStep := perdure.StepOf(ctx)
			fmt.Println("in a body:", inStep, s.Step, "attempt", s.Attempt, "of workflow", s.Run.Workflow)
			return 0, nil
		})
	})
	printResult(w, 0)
	// Output:
	// in workflow code: false
	// in a body: true charge attempt 1 of workflow w
	// 0
}

// What undoes a step has its name, in a phase of its own; and the journal is told how
// it went, for reports and observers.
func ExampleRecord_compensation() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		charge := func(context.Context) (int, error) { return 42, nil }
		if _, err := perdure.Step(ctx, "charge", charge); err != nil {
			return 0, err
		}
		broken := errors.New("the van has broken down")
		var failed error
		note := func(f perdure.Fact) {
			if failed == nil {
				failed = perdure.Record(ctx, f)
			}
		}
		note(perdure.Fact{Kind: perdure.StepSkipped, Name: "thank", Reason: perdure.Duplicate})
		if err := perdure.SetStatus(ctx, perdure.StatusCompensating); err != nil {
			return 0, err
		}
		note(perdure.Fact{Kind: perdure.CompensationStarted, Name: "charge"})
		undo := func(context.Context) (int, error) { return -42, nil }
		if _, err := perdure.Step(ctx, "charge", undo, perdure.PhaseUndo); err != nil {
			note(perdure.Fact{Kind: perdure.CompensationFailed, Name: "charge", Err: err})
		} else {
			note(perdure.Fact{Kind: perdure.StepCompensated, Name: "charge"})
		}
		if failed != nil {
			return 0, failed
		}
		return 0, perdure.End(ctx, perdure.StatusCompensated, 0, broken)
	}, perdure.PatternSaga)
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

// A TCC tells the journal of its phases.
func ExampleRecord_phase() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for _, f := range []perdure.Fact{
			{Kind: perdure.PhaseStarted, Name: "try"},
			{Kind: perdure.PhaseFailed, Name: "try", Err: errors.New("no funds")},
			{Kind: perdure.PhaseStarted, Name: "cancel"},
			{Kind: perdure.PhaseCompleted, Name: "cancel"},
		} {
			if err := perdure.Record(ctx, f); err != nil {
				return 0, err
			}
		}
		return 0, perdure.End(ctx, perdure.StatusCanceled, 0, nil)
	}, perdure.PatternTCC)
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

// The statuses that patterns set, and those that they end with.
func ExampleRunStatus() {
	for _, s := range []perdure.RunStatus{
		perdure.StatusRunning, perdure.StatusTrying, perdure.StatusConfirming, perdure.StatusCanceling, perdure.StatusCompensating,
	} {
		fmt.Println(s, "goes on")
	}
	for _, s := range []perdure.RunStatus{
		perdure.StatusCompleted, perdure.StatusConfirmed, perdure.StatusFailed, perdure.StatusCancelled,
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

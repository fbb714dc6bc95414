package perdure_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// A report tells how a run went, also long after its end, and in the body of a step how
// far it has come.
func ExampleReport() {
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		if _, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) { return "hold-1", nil }); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			r, err := perdure.ReportOf(ctx)
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
	_, err = order.Start(ctx, engine, Order{ID: "ord-2"}, perdure.DryRun) // which graphs are for
	fmt.Println(err)
	// Output:
	// so far 1 step: reserve DONE
	// true the shop false 2 <nil>
	// perdure: start order: only a graph can be walked through without doing anything (start it without DryRun, or try it in a test)
}

// Errors of declared patterns say what has failed, also when they come from a journal.
func ExampleStepError() {
	err := perdure.FailedStep("charge", errors.New("declined"))
	var step *perdure.StepError
	var undo *perdure.CompensationError
	fmt.Println(errors.As(err, &step), step.Step, errors.As(err, &undo))
	fmt.Println(perdure.CodeTopology, perdure.CodeWrongState, perdure.StepIsSkipped)
	// Output:
	// true charge false
	// topology wrong_state SKIPPED
}

// The parts of a report that only declared patterns have.
func ExampleUndoReport() {
	r := perdure.Report{Undo: &perdure.UndoReport{Policy: "STRICT_SEQUENTIAL", Steps: []perdure.UndoneStep{{ID: "charge", Undone: true}}, All: true}}
	fmt.Println(r.Undo.Policy, r.Undo.Steps[0].ID, r.Undo.All)
	p := perdure.PhaseReport{Phase: perdure.PhaseConfirm, Attempts: 2}
	fmt.Println(p.Phase, p.Attempts)
	_, inTask := perdure.GivenOf(context.Background())
	fmt.Println(inTask)
	// Output:
	// STRICT_SEQUENTIAL charge true
	// CONFIRM 2
	// false
}

// An event may say more than its type and what it tells.
func ExampleEmitEvent() {
	events := make(chan perdure.Event, 1)
	publisher := perdure.PublisherFunc(func(_ context.Context, e perdure.Event) error {
		events <- e
		return nil
	})
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		return "", perdure.EmitEvent(ctx, perdure.Event{Type: "order.seen", Topic: "orders", Key: o.ID, Tells: perdure.StepCompleted, Data: []byte("1")})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Publisher: publisher}, order)
	defer stop()
	startRun(engine, order, Order{ID: "ord-1"}, perdure.ID("ord-1"))
	e := <-events
	fmt.Println(e.Type, e.Topic, e.Key, e.Tells)
	fmt.Println(perdure.ExecutionStarted, perdure.ExecutionCompleted, perdure.StepFailed)
	// Output:
	// order.seen orders ord-1 STEP_COMPLETED
	// EXECUTION_STARTED EXECUTION_COMPLETED STEP_FAILED
}

// Callbacks for the success of a whole run become listeners.
func ExampleCallbacks_Listeners() {
	calls := perdure.Callbacks{{Complete: func(_ context.Context, r perdure.Report) error { return nil }}}
	fmt.Println(len(calls.Listeners()), len(calls.Check(func(string) bool { return true })))
	// Output: 1 0
}

// A function is a publisher.
func ExamplePublisherFunc_Publish() {
	publisher := perdure.PublisherFunc(func(_ context.Context, e perdure.Event) error {
		_, err := fmt.Println("told of", e.Type)
		return err
	})
	fmt.Println(publisher.Publish(context.Background(), perdure.Event{Type: "order.seen"}))
	// Output:
	// told of order.seen
	// <nil>
}

// A clean-up learns how the run will end.
func ExampleEndingAs() {
	order := perdure.Define("order", func(ctx context.Context, _ Order) (string, error) {
		err := perdure.Finally(ctx, "tell", func(ctx context.Context) error {
			status, err := perdure.EndingAs(ctx)
			fmt.Println("it ends", status)
			return err
		})
		if err != nil {
			return "", err
		}
		return "", errors.New("no stock")
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{}, order)
	defer stop()
	run, err := order.Start(context.Background(), engine, Order{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Result(context.Background())
	fmt.Println(err)
	// Output:
	// it ends FAILED
	// no stock
}

package report_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store/memory"
)

// The parts of a report that only declared patterns have.
func ExampleUndo() {
	r := report.Run{Undo: &report.Undo{
		Policy: "STRICT_SEQUENTIAL", All: true,
		Steps: []report.Undone{{ID: "charge", Undone: true}},
	}}
	fmt.Println(r.Undo.Policy, r.Undo.Steps[0].ID, r.Undo.All)
	p := report.Phase{Phase: "CONFIRM", Attempts: 2}
	fmt.Println(p.Phase, p.Attempts)
	// Output:
	// STRICT_SEQUENTIAL charge true
	// CONFIRM 2
}

// A panic in a step is a failed attempt, and its stack is kept.
func ExampleStack() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		err := perdure.Do(ctx, "divide", func(context.Context) error { panic("by zero") },
			perdure.NoRetry)
		fmt.Println(err)
		return fmt.Sprint(strings.Contains(report.Stack(err), "ExampleStack")), nil
	})
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(w)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go engine.Run(ctx)
	run, err := w.Start(ctx, engine, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// step divide panicked: by zero
	// true <nil>
}

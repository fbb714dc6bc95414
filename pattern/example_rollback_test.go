package pattern_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// A run undoes what it has done, the last first. What cannot be undone is passed over.
func ExampleRollback() {
	undo := func(name string) pattern.Undo {
		return pattern.Undo{Name: name, Call: func(ctx context.Context,
			_ pattern.Sources) (json.RawMessage, error) {
			if fmt.Println("undo", name); name == "charge" {
				return nil, errors.New("the bank does not answer")
			}
			return nil, nil
		}}
	}
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		var back pattern.Rollback
		for _, name := range []string{"reserve", "charge", "ship"} {
			if err := perdure.Do(ctx, name, func(context.Context) error {
				fmt.Println(name)
				return nil
			}); err != nil {
				return 0, err
			}
			back.Done(undo(name))
		}
		if err := back.Run(ctx); err != nil {
			return 0, err
		}
		fmt.Println("open:", back.Open())
		return 0, back.Failed()
	})
	printResult(w, 0)
	// Output:
	// reserve
	// charge
	// ship
	// undo ship
	// undo charge
	// undo reserve
	// open: 1
	// error: step charge could not be undone: the bank does not answer
}

// An operator decides for each item of a list.
func ExamplePark() {
	w := perdure.Define("w", func(ctx context.Context, items []string) (string, error) {
		for _, item := range items {
			d, err := pattern.Park(ctx, "check", item, "is it in order?", "yes", "no")
			if err != nil || d.Choice == "no" {
				return item, err
			}
		}
		return "", nil
	})
	e, stop := newEngine(w)
	defer stop()
	run := startRun(e, w, []string{"bolt"}, perdure.ID("order"))
	untilStatus(e.Client, "order", journal.Suspended)
	if err := e.Decide(context.Background(), "order", "check[bolt]",
		perdure.Decision{Choice: "no"}); err != nil {
		panic(err)
	}
	fmt.Println(run.Result(context.Background()))
	// Output: bolt <nil>
}

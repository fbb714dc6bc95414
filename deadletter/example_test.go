package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/store/memory"
)

// A pattern that is written in code says itself which step an operator is to look at.
// Somebody else may take the letters: here they are printed.
func ExampleAdd() {
	taken := make(chan deadletter.Letter, 1)
	nightly := perdure.Define("nightly", func(ctx context.Context, files []string) (int, error) {
		for _, file := range files {
			_, err := perdure.Step(ctx, "import", func(context.Context) (int, error) {
				return 0, fmt.Errorf("%s is empty", file)
			},
				perdure.Key(file), perdure.NoRetry)
			if err != nil {
				return 0, errors.Join(err, deadletter.Add(ctx, "import", err, perdure.Key(file)))
			}
		}
		return len(files), nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{
		DeadLetters: func(_ context.Context, l deadletter.Letter) error {
			taken <- l
			return nil
		},
	})
	if err == nil {
		err = engine.Register(nightly)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	if _, err := nightly.Start(ctx, engine, []string{"prices.csv"}); err != nil {
		log.Fatal(err)
	}
	l := <-taken
	fmt.Println(l.Workflow, l.Step, l.Error)
	// Output: nightly import[prices.csv] prices.csv is empty
}

// With this option a run that fails writes a dead letter by itself: see package admin.
func ExampleAutomatic() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			return "", errors.New("the card is stolen")
		}, perdure.NoRetry)
	}, deadletter.Automatic(true))
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
	defer func() { stop(); <-done }()
	run, err := order.Start(ctx, engine, 0)
	if err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	fmt.Println("error:", err)
	letters, _, err := admin.New(engine).DeadLetters(ctx, admin.DeadLetterQuery{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("dead letter:", letters[0].Step)
	// Output:
	// error: step charge: the card is stolen
	// dead letter: charge
}

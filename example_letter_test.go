package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A run that failed is retried from the failed step: what it had done before is not done
// again.
func ExampleClient_Retry() {
	var bankIsOpen atomic.Bool
	order := perdure.Define("order", func(ctx context.Context, item string) (string, error) {
		hold, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) {
			fmt.Println("reserving a", item)
			return "hold-1", nil
		})
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			if !bankIsOpen.Load() {
				return "", errors.New("the bank is closed")
			}
			return "charged, with " + hold, nil
		}, perdure.NoRetry)
	})

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

	run, err := order.Start(ctx, engine, "teapot", perdure.ID("ord-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	bankIsOpen.Store(true)
	again, err := engine.Retry(ctx, "ord-1")
	if err != nil {
		log.Fatal(err)
	}
	out, err := again.Result(ctx)
	fmt.Println(string(out), err)
	// Output:
	// reserving a teapot
	//  the bank is closed
	// "charged, with hold-1" <nil>
}

// A workflow with DeadLetters writes a letter when a run of it fails. An operator lists
// the letters, and retries or deletes them.
func ExampleClient_DeadLetters() {
	var bankIsOpen atomic.Bool
	order := perdure.Define("order", func(ctx context.Context, cents int) (string, error) {
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			if !bankIsOpen.Load() {
				return "", errors.New("the bank is closed")
			}
			return "charged", nil
		}, perdure.NoRetry)
	}, perdure.DeadLetters(true))

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

	for _, id := range []perdure.ID{"ord-1", "ord-2"} {
		run, err := order.Start(ctx, engine, 4200, id)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = run.Result(ctx)
	}
	n, err := engine.CountDeadLetters(ctx, perdure.DeadLetterQuery{Workflow: "order"})
	fmt.Println(n, "letters", err)
	letters, _, err := engine.DeadLetters(ctx, perdure.DeadLetterQuery{})
	for _, l := range letters {
		fmt.Printf("%s: %s: %s, input %s\n", l.WorkflowID, l.Step, l.Error, l.Input)
	}
	if err != nil {
		log.Fatal(err)
	}

	bankIsOpen.Store(true)
	run, err := engine.RetryDeadLetter(ctx, letters[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(ctx)
	fmt.Println(string(out), err)
	_, err = engine.DeadLetter(ctx, letters[0].ID)
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}), engine.DeleteDeadLetter(ctx, letters[1].ID))
	letters, _, err = engine.DeadLetters(ctx, perdure.DeadLetterQuery{})
	fmt.Println(len(letters), "letters", err)
	// Output:
	// 2 letters <nil>
	// ord-2: charge: the bank is closed, input 4200
	// ord-1: charge: the bank is closed, input 4200
	// "charged" <nil>
	// true <nil>
	// 0 letters <nil>
}

// A pattern that is written in code says itself which step an operator is to look at.
// Somebody else may take the letters: here they are printed.
func ExampleDeadLetter() {
	taken := make(chan perdure.Letter, 1)
	nightly := perdure.Define("nightly", func(ctx context.Context, files []string) (int, error) {
		for _, file := range files {
			_, err := perdure.Step(ctx, "import", func(context.Context) (int, error) { return 0, fmt.Errorf("%s is empty", file) },
				perdure.Key(file), perdure.NoRetry)
			if err != nil {
				return 0, errors.Join(err, perdure.DeadLetter(ctx, "import", err, perdure.Key(file)))
			}
		}
		return len(files), nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{
		DeadLetters: func(_ context.Context, l perdure.Letter) error {
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

package perdure_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// A published value is visible outside, while the run goes on and afterwards.
func ExamplePublish() {
	type progress struct{ Done, Of int }
	copying := perdure.Define("copy", func(ctx context.Context, files []string) (int, error) {
		for i, f := range files {
			if _, err := perdure.Step(ctx, "copy", func(context.Context) (string, error) {
				return f, nil
			}, perdure.Key(f)); err != nil {
				return i, err
			}
			if err := perdure.Publish(ctx, "progress", progress{i + 1, len(files)}); err != nil {
				return i, err
			}
		}
		return len(files), nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(copying)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := copying.Start(ctx, engine, []string{"a", "b"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	d, err := engine.Describe(ctx, run.ID())
	fmt.Printf("%s %v\n", d.State.Published["progress"].Data, err)
	// Output:
	// 2 <nil>
	// {"Done":2,"Of":2} <nil>
}

// The payload is the input, until the run replaces it.
func ExampleSetPayload() {
	w := perdure.Define("w", func(ctx context.Context, o Order) (int, error) {
		o.Cents += 500 // for the gift wrap
		if err := perdure.SetPayload(ctx, o); err != nil {
			return 0, err
		}
		now, err := perdure.Payload[Order](ctx)
		return now.Cents, err
	})
	printResult(w, Order{ID: "ord-1", Cents: 4200})
	// Output: 4700
}

// Runs are found by their search attributes.
func ExampleSetAttribute() {
	order := perdure.Define("order", func(ctx context.Context, customer string) (string, error) {
		if err := perdure.SetAttribute(ctx, "customer", customer); err != nil {
			return "", err
		}
		return "thanks", nil
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	for _, customer := range []string{"ada", "bob"} {
		run := startRun(engine, order, customer, perdure.ID("order-of-"+customer),
			perdure.Attributes{"shop": "york"})
		if _, err := run.Result(ctx); err != nil {
			log.Fatal(err)
		}
	}
	heads, _, err := engine.List(ctx, perdure.Query{
		Attributes: map[string]string{"customer": "ada", "shop": "york"},
	})
	for _, h := range heads {
		fmt.Println(h.WorkflowID, h.Status)
	}
	fmt.Println(err)
	// Output:
	// order-of-ada COMPLETED
	// <nil>
}

// A value that is read from outside between steps, and may differ on replay, is a side effect.
// Time and random numbers have functions of their own.
func ExampleSideEffect() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		rate, err := perdure.SideEffect(ctx, "rate", func() (float64, error) { return 1.25, nil })
		if err != nil {
			return "", err
		}
		now, err := perdure.Now(ctx)
		if err != nil {
			return "", err
		}
		random, err := perdure.Random(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(rate, !now.IsZero(), 1+random.IntN(6) <= 6), nil
	})
	printResult(w, 0)
	// Output: 1.25 true true
}

// Workflow code and the bodies of steps can read the data of their run.
func ExampleInfoOf() {
	w := perdure.Define("greet", func(ctx context.Context, _ int) (string, error) {
		i, err := perdure.InfoOf(ctx)
		return fmt.Sprintln(i.Workflow, i.WorkflowID, i.Status, i.Headers["tenant"],
			i.Attributes["city"]), err
	})
	engine, stop := newEngine(w)
	defer stop()
	run := startRun(engine, w, 0, perdure.ID("g-1"), perdure.Headers{"tenant": "acme"},
		perdure.Attributes{"city": "Rome"})
	out, err := run.Result(context.Background())
	fmt.Print(out)
	fmt.Println(err)
	// Output:
	// greet g-1 RUNNING acme Rome
	// <nil>
}

// Variables are values that the steps of a run share. A value that a step sets counts when the
// step's result is recorded. Workflow code sets variables too.
func ExampleSetVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if err := perdure.SetVariable(ctx, "country", "IT"); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "rate", func(ctx context.Context) (int, error) {
			return 22, perdure.SetVariable(ctx, "vat", 22)
		}); err != nil {
			return "", err
		}
		vat, found, err := perdure.Variable[int](ctx, "vat")
		return fmt.Sprint(vat, found), err
	})
	printResult(w, 0)
	// Output: 22 true
}

// A variable that nobody has set is not found. That is not an error.
func ExampleVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		vat, found, err := perdure.Variable[int](ctx, "vat")
		return fmt.Sprint(vat, found), err
	})
	printResult(w, 0)
	// Output: 0 false
}

func ExampleRemoveVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (bool, error) {
		if err := perdure.SetVariable(ctx, "coupon", "SPRING"); err != nil {
			return false, err
		}
		if err := perdure.RemoveVariable(ctx, "coupon"); err != nil {
			return false, err
		}
		_, found, err := perdure.Variable[string](ctx, "coupon")
		return found, err
	})
	printResult(w, 0)
	// Output: false
}

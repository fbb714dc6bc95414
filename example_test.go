package perdure_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

type Order struct {
	ID    string
	Cents int
}

var Fulfil = perdure.Define("order-fulfilment", func(ctx context.Context, o Order) (string, error) {
	hold, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) {
		return "shelf 7", nil // asks the warehouse, once
	})
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
		return fmt.Sprintf("%s: %s, %d cents paid", o.ID, hold, o.Cents), nil
	}, perdure.Retry{Attempts: 5})
})

// This is a whole program: it defines a workflow, registers it with an engine on a store, starts
// a run, and waits for its result. With store/sqlite instead of store/memory, a run that a crash
// interrupts goes on when the program starts again.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(Fulfil)
	}
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	run, err := Fulfil.Start(ctx, engine, Order{ID: "ord-1", Cents: 4200}, perdure.ID("ord-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	stop()
	fmt.Println("stopped:", <-done)
	// Output:
	// ord-1: shelf 7, 4200 cents paid <nil>
	// stopped: <nil>
}

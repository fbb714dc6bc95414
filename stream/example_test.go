package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/stream"
)

// A step puts its answer into a stream word by word, and a reader follows it.
func Example() {
	words := stream.New[string]("words")
	ask := perdure.Define("ask", func(ctx context.Context, question string) (string, error) {
		return perdure.Step(ctx, "model", func(ctx context.Context) (string, error) {
			for _, word := range []string{"Forty", "-", "two"} {
				if err := words.Push(ctx, word); err != nil {
					return "", err
				}
			}
			return "Forty-two", nil
		})
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(ask)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	run, err := ask.Start(ctx, engine, "how many?")
	if err != nil {
		log.Fatal(err)
	}
	for chunk, err := range words.Follow(ctx, engine, run.RunID(), 0) {
		fmt.Println(chunk.Value, err)
	}
	stop()
	<-done
	// Output:
	// Forty <nil>
	// - <nil>
	// two <nil>
}

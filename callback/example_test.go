package callback_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/store/memory"
)

// A run hands out a token and waits until its holder answers.
func Example() {
	given := make(chan string, 1)
	pay := perdure.Define("pay", func(ctx context.Context, cents int) (string, error) {
		w, err := callback.New[string](ctx, "card", perdure.Within(24*time.Hour))
		if err != nil {
			return "", err
		}
		err = perdure.Do(ctx, "ask-bank", func(ctx context.Context) error {
			token, err := w.Token(ctx)
			if err == nil {
				given <- token
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return w.Await(ctx)
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(pay)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	run, err := pay.Start(ctx, engine, 4200)
	if err != nil {
		log.Fatal(err)
	}
	token := <-given
	fmt.Println(callback.Heartbeat(ctx, engine, token, 48*time.Hour))
	fmt.Println(callback.Succeed(ctx, engine, token, "receipt 7"))
	fmt.Println(run.Result(ctx))
	stop()
	<-done
	// Output:
	// <nil>
	// <nil>
	// receipt 7 <nil>
}

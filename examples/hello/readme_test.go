package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

type (
	Order   struct{ Total int }
	Payment struct{ Key string }
	fake    struct{}
)

func (fake) Charge(_ context.Context, key string, _ int) (Payment, error) { return Payment{key}, nil }

var bank fake

// pay has the step that the README shows, line by line.
func pay(ctx context.Context, order Order) (Payment, error) {
	paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
		return bank.Charge(ctx, perdure.IdempotencyKey(ctx), order.Total)
	}, perdure.Retry{Attempts: 5, First: time.Second, Factor: 2}, perdure.Timeout(10*time.Second))
	return paid, err
}

func TestTheStepOfTheReadme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := must(perdure.New(memory.New(), perdure.Options{}))
		workflow := perdure.Define("pay", pay)
		must(workflow, engine.Register(workflow))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- engine.Run(ctx) }()
		run := must(workflow.Start(ctx, engine, Order{4200}))
		paid, err := run.Result(ctx)
		if err != nil || paid.Key == "" {
			t.Errorf("it was paid with key %q: %v", paid.Key, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

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

func (fake) Charge(_ context.Context, key string, _ int) (Payment, error) {
	return Payment{key}, nil
}

var bank fake

// pay has the step that the README shows, line by line.
func pay(ctx context.Context, order Order) (Payment, error) {
	paid, err := perdure.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
		return bank.Charge(ctx, perdure.IdempotencyKey(ctx), order.Total)
	}, perdure.Retry{Attempts: 5, First: time.Second, Factor: 2}, perdure.Timeout(10*time.Second))
	return paid, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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

// Approval is the payload of the signal that the README shows.
type Approval struct {
	By    string
	Later bool
}

var approve = perdure.NewSignal[Approval]("approve")

func await(ctx context.Context, _ int) (string, error) {
	ok, err := approve.Wait(ctx, perdure.Within(14*24*time.Hour))
	if err == nil && ok.Later {
		err = perdure.Sleep(ctx, 30*24*time.Hour)
	}
	return ok.By, err
}

func send(ctx context.Context, engine *perdure.Engine) error {
	_, err := approve.Send(ctx, engine, "order-4711", Approval{By: "ada", Later: true})
	return err
}

func TestTheWaitOfTheReadme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := must(perdure.New(memory.New(), perdure.Options{}))
		workflow := perdure.Define("await", await)
		must(workflow, engine.Register(workflow))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- engine.Run(ctx) }()
		run := must(workflow.Start(ctx, engine, 0, perdure.ID("order-4711")))
		time.Sleep(13 * 24 * time.Hour)
		if err := send(ctx, engine); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if by, err := run.Result(ctx); by != "ada" || err != nil ||
			time.Since(began) != 30*24*time.Hour {
			t.Error(by, err, time.Since(began))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

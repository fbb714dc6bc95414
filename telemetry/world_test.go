package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

var errNo = errors.New("no")

func fine(context.Context, int) (int, error) { return 1, nil }

// shop are workflows of several patterns.
type shop struct {
	order *perdure.Workflow[int, int] // its step ship is retried twice for each of two parcels
	lost  *perdure.Workflow[int, int] // is dead-lettered
	loop  *perdure.Workflow[int, int] // continues as new, once
	trip  *saga.Saga[int]             // is undone
	pay   *tcc.TCC[int]
}

func newShop() shop {
	s := shop{trip: saga.New[int]("trip"), pay: tcc.New[int]("pay")}
	s.order = perdure.Define("order", func(ctx context.Context, n int) (int, error) {
		for _, parcel := range []perdure.Key{"4711", "4712"} {
			if _, err := perdure.Step(ctx, "ship", failing(n), parcel,
				perdure.Retry{First: time.Minute, Factor: 1}); err != nil {
				return 0, err
			}
		}
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	s.lost = perdure.Define("lost", func(context.Context, int) (int, error) {
		return 0, perdure.Permanent(errNo)
	}, deadletter.Automatic(true))
	s.loop = perdure.Define("loop", func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			return 0, perdure.ContinueAsNew(ctx, 1)
		}
		return 0, nil
	})
	held := saga.Add(s.trip, "reserve", fine).
		Undo(func(context.Context, int, int) error { return nil })
	saga.Add(s.trip, "charge", func(context.Context, int) (int, error) {
		return 0, perdure.Permanent(errNo)
	}).After(held)
	nothing := func(context.Context, int, int) error { return nil }
	tcc.Add(s.pay, "debit", fine).Confirm(nothing).Cancel(nothing)
	return s
}

// failing returns a body that fails n times.
func failing(n int) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if s, _ := perdure.StepOf(ctx); s.Attempt <= n {
			return 0, errNo
		}
		return n, nil
	}
}

func (s shop) all() []perdure.Definition {
	return []perdure.Definition{s.order, s.lost, s.loop, s.trip, s.pay}
}

// serve runs an engine until the test ends, or stop is called.
func serve(t *testing.T, eng *perdure.Engine, err error, all ...perdure.Definition) (stop func()) {
	t.Helper()
	if err == nil {
		err = eng.Register(all...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

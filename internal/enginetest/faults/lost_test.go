package faults

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A store that is lost while a run has the next entries ready, and more in a turn that goes
// on, ends the engine and nothing else.
//
// spec: L-12
func TestStoreIsLostWhileMoreIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, turns := 0, make(chan bool, 1)
		h := &world.Hook{OnCommit: func(_ *store.Group, do func() error) error {
			if n++; n == 1 {
				return do()
			}
			time.Sleep(10 * time.Millisecond)
			return store.ErrClosed
		}}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := perdure.Sleep(ctx, 2*time.Millisecond); err != nil {
				return 0, err
			}
			if err := perdure.Publish(ctx, "x", 1); err != nil {
				return 0, err
			}
			turns <- true
			time.Sleep(20 * time.Millisecond) // it has the turn when the store is lost
			return 0, nil
		})
		w := world.Hooked(t, h, perdure.Options{}, wf)
		world.Start(w, wf, 0)
		<-turns
		time.Sleep(time.Second)
		if !w.Stopped() || n != 2 {
			t.Errorf("stopped: %v, after %d commits", w.Stopped(), n)
		}
		w.Stop()
	})
}

func TestEngineStopsWhileTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", time.Second, nil))
		})
		h := &world.Hook{OnCommit: func(_ *store.Group, do func() error) error {
			if broken.Load() {
				return world.ErrOdd
			}
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{Drain: 5 * time.Second}, wf)
		world.Start(w, wf, 0, perdure.ID("x"))
		broken.Store(true)
		time.Sleep(time.Minute) // the result waits to be durable
		w.Stop()
		began := time.Now()
		world.CodeIs(t, <-w.Done, journal.CodeUnavailable)
		if d := time.Since(began); d != 5*time.Second {
			t.Error("stopped after", d)
		}
		broken.Store(false)
		w.DB = w.DB.Reopen()
		w.Begin()
		defer w.End()
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
		w.History("x")
	})
}

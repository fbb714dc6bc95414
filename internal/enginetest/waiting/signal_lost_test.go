package waiting

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// A signal of the engine does not reach the store. Before the engine sends it again, somebody else
// sends the run another signal with the same key. The store cannot tell them apart: the run gets
// the one that is there.
//
// spec: R-17, L-6
func TestASignalThatIsSentAgainIsNotTakenForAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loud, quiet := perdure.NewSignal[string]("loud"), perdure.NewSignal[string]("quiet")
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return quiet.Wait(ctx)
		})
		var w *world.World
		var lost atomic.Bool
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			if c := &g.Changes[0]; g.Engine == 0 || len(c.Posts) == 0 || lost.Swap(true) {
				return do()
			}
			c, err := perdure.NewClient(t.Context(), w.DB)
			if err == nil {
				_, err = quiet.Send(t.Context(), c, "x", "psst", perdure.SendKey("k"))
			}
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			return storetest.ErrInjected
		}}
		w = world.Hooked(t, h, perdure.Options{IdleTimeout: time.Minute}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it waits
		_, err = loud.Send(t.Context(), w.Engine, run.ID(), "hey", perdure.SendKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := run.Result(ctx); got != "psst" || err != nil || !lost.Load() {
			t.Errorf("%q, %v, lost: %t", got, err, lost.Load())
		}
		w.History(run.ID())
	})
}

// A run that retries another one knows the signals of that one by their keys. The number of such a
// signal says nothing about the inbox of the run that retries.
//
// spec: R-17, L-6
func TestASignalOfAnEarlierRunThatIsSentAgainHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := perdure.NewSignal[string]("old"), perdure.NewSignal[string]("next")
		var fails, loses atomic.Bool
		fails.Store(true)
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			if _, err := old.Wait(ctx); err != nil {
				return "", err
			}
			if err := perdure.Do(ctx, "s", func(context.Context) error {
				if fails.Load() {
					return errors.New("not yet")
				}
				return nil
			}, perdure.NoRetry); err != nil {
				return "", err
			}
			return next.Wait(ctx)
		})
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			err := do()
			if len(g.Changes[0].Posts) > 0 && loses.CompareAndSwap(true, false) {
				return storetest.ErrInjected
			}
			return err
		}}
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: time.Minute}, wf)
		defer func() { w.End() }()
		first, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		send := func(s perdure.Signal[string], to string, opts ...perdure.SendOption) {
			t.Helper()
			if _, err := s.Send(t.Context(), w.Engine, to, "now", opts...); err != nil {
				t.Fatal(err)
			}
		}
		send(old, first.RunID(), perdure.SendKey("k"))
		if _, err := first.Result(t.Context()); err == nil {
			t.Fatal("the first run has not failed")
		}
		fails.Store(false)
		again, err := w.Engine.Retry(t.Context(), first.RunID())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it waits
		loses.Store(true)
		send(old, again.RunID(), perdure.SendKey("k"))
		synctest.Wait()
		send(next, again.RunID())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := again.Result(ctx); string(got) != `"now"` || err != nil || loses.Load() {
			t.Errorf("%s, %v, an answer was lost: %t", got, err, !loses.Load())
		}
	})
}

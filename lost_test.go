package perdure_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A store that is lost while a run has the next entries ready, and more in a turn that goes
// on, ends the engine and nothing else.
//
// spec: L-12
func TestStoreIsLostWhileMoreIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, turns := 0, make(chan bool, 1)
		h := &hook{commit: func(_ *store.Group, do func() error) error {
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
		w := hooked(t, h, perdure.Options{}, wf)
		if _, err := wf.Start(context.Background(), w.eng, 0); err != nil {
			t.Fatal(err)
		}
		<-turns
		time.Sleep(time.Second)
		if !w.stopped() || n != 2 {
			t.Errorf("stopped: %v, after %d commits", w.stopped(), n)
		}
		w.stop()
	})
}

// A brokenStore commits until it is broken.
type brokenStore struct {
	store.Store
	broken *atomic.Bool
}

func (s brokenStore) Commit(ctx context.Context, g *store.Group) error {
	if s.broken.Load() {
		return errOdd
	}
	return s.Store.Commit(ctx, g)
}

func TestEngineStopsWhileTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", work("s", time.Second, nil))
		})
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{wf}}
		w.opts = perdure.Options{Build: "test", Drain: 5 * time.Second}
		w.wrap = func(s store.Store) store.Store { return brokenStore{s, &broken} }
		w.begin()
		if _, err := wf.Start(context.Background(), w.eng, 0, perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		time.Sleep(time.Minute) // the result waits to be durable
		w.stop()
		began := time.Now()
		codeIs(t, <-w.done, journal.CodeUnavailable)
		if d := time.Since(began); d != 5*time.Second {
			t.Error("stopped after", d)
		}
		broken.Store(false)
		w.db = w.db.Reopen()
		w.begin()
		defer w.end()
		run, err := wf.Get(context.Background(), w.eng, "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
		w.history("x")
	})
}

package perdure_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A deafStore writes the first group in which a run rests and says nothing of it
// for a while.
type deafStore struct {
	store.Store
	until time.Time
	rests bool
}

func (s *deafStore) Commit(ctx context.Context, g *store.Group) error {
	switch {
	case s.rests && time.Now().Before(s.until):
		return storetest.ErrInjected
	case s.rests || !g.Changes[0].Rest:
		return s.Store.Commit(ctx, g)
	}
	s.rests, s.until = true, time.Now().Add(2*time.Minute)
	if err := s.Store.Commit(ctx, g); err != nil {
		return err
	}
	return storetest.ErrInjected
}

// spec: L-7
func TestRunThatHasNotHeardOfItsRestIsExecutedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			begun.Add(1)
			if err := perdure.Sleep(ctx, 10*time.Second); err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "s", work("s", time.Minute, nil))
		})
		deaf := &deafStore{}
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{wf}}
		w.opts.Build, w.opts.Linger = "test", -1
		w.wrap = func(below store.Store) store.Store {
			deaf.Store = below
			return deaf
		}
		w.begin()
		defer w.end()
		began := time.Now()
		run, _, err := result(w, wf, 0)
		if err != nil || !deaf.rests {
			t.Fatalf("%v, a rest was committed: %v", err, deaf.rests)
		}
		if n := begun.Load(); n != 1 {
			t.Errorf("the code began %d times: it was executed twice at a time", n)
		}
		if d := time.Since(began); d < 3*time.Minute {
			t.Errorf("it ended after %v, before the store answered", d)
		}
		w.history(run.ID())
	})
}

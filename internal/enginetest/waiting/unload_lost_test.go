package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A deafStore writes the first group in which a run is unloaded and says nothing of it
// for a while.
type deafStore struct {
	store.Store
	until   time.Time
	unloads bool
}

func (s *deafStore) Commit(ctx context.Context, g *store.Group) error {
	switch {
	case s.unloads && time.Now().Before(s.until):
		return storetest.ErrInjected
	case s.unloads || !g.Changes[0].Unload:
		return s.Store.Commit(ctx, g)
	}
	s.unloads, s.until = true, time.Now().Add(2*time.Minute)
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
			return perdure.Step(ctx, "s", world.Work("s", time.Minute, nil))
		})
		deaf := &deafStore{}
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options.Build, w.Options.IdleTimeout = "test", -1
		w.Wrap = func(below store.Store) store.Store {
			deaf.Store = below
			return deaf
		}
		w.Begin()
		defer w.End()
		began := time.Now()
		run, _, err := world.Result(w, wf, 0)
		if err != nil || !deaf.unloads {
			t.Fatalf("%v, an unload was committed: %v", err, deaf.unloads)
		}
		if n := begun.Load(); n != 1 {
			t.Errorf("the code began %d times: it was executed twice at a time", n)
		}
		if d := time.Since(began); d < 3*time.Minute {
			t.Errorf("it ended after %v, before the store answered", d)
		}
		w.History(run.ID())
	})
}

// The store is slow to say that a run is unloaded, and meanwhile gives it to the same
// engine in an answer that gets lost.
//
// spec: L-7, L-23
func TestRunThatIsClaimedBeforeItHasHeardOfItsRestGoesOn(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				return 1, perdure.Sleep(ctx, 10*time.Second)
			})
			var unloaded, claimed atomic.Bool
			h := &world.Hook{
				OnCommit: func(g *store.Group, do func() error) error {
					err := do()
					if g.Changes[0].Unload && unloaded.CompareAndSwap(false, true) {
						time.Sleep(time.Minute)
					}
					return err
				},
				OnClaim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed,
					error) {
					got, err := do()
					if unloaded.Load() && len(got.Runs) > 0 &&
						claimed.CompareAndSwap(false, true) &&
						lost {
						return store.Claimed{}, storetest.ErrInjected
					}
					return got, err
				},
			}
			w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1}, wf)
			defer func() { w.End() }()
			run, err := wf.Start(context.Background(), w.Engine, 0)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if v, err := run.Result(ctx); v != 1 || err != nil || !claimed.Load() {
				t.Errorf("lost: %v, claimed: %v: got %d, %v", lost, claimed.Load(), v, err)
			}
			w.History(run.ID())
		})
	}
}

// The same with a parked run, which leaves memory whatever the store answers.
//
// spec: L-7, L-23
func TestRunThatIsClaimedBeforeItHasHeardThatItIsParkedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return paid.Wait(ctx)
		})
		var parked, lost atomic.Bool
		h := &world.Hook{
			OnCommit: func(g *store.Group, do func() error) error {
				err := do()
				if head := g.Changes[0].Head; head != nil && head.Cause != "" &&
					parked.CompareAndSwap(false, true) {
					time.Sleep(time.Minute)
				}
				return err
			},
			OnClaim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed, error) {
				got, err := do()
				if len(got.Runs) > 0 && parked.Load() && lost.CompareAndSwap(false, true) {
					return store.Claimed{}, storetest.ErrInjected
				}
				return got, err
			},
		}
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: time.Hour, Sweep: time.Second}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		go func() { _ = w.Engine.Suspend(ctx, "x", "by hand") }()
		time.Sleep(time.Second)
		other, err := perdure.NewClient(ctx, w.DB)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Resume(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := paid.Send(ctx, other, "x", 1); err != nil {
			t.Fatal(err)
		}
		if v, err := run.Result(ctx); v != 1 || err != nil || !lost.Load() {
			t.Errorf("lost: %v: got %d, %v", lost.Load(), v, err)
		}
	})
}

// The store releases a run and the answer is lost. Another engine claims and releases it, too, and
// the first one claims it again: only then it learns that it has the run.
//
// spec: L-7, R-12
func TestRunThatAnotherEngineHadBeforeARestWasHeardOfBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			one, err := paid.Wait(ctx, perdure.Key("one"))
			if err != nil {
				return 0, err
			}
			two, err := paid.Wait(ctx, perdure.Key("two"))
			return 10*one + two, err
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		var first, second *world.World
		var unloaded atomic.Bool
		var claims atomic.Pointer[world.World] // the one that may claim
		claimed, stop := context.WithCancel(ctx)
		defer stop()
		wrap := func(w *world.World) func(store.Store) store.Store {
			return func(s store.Store) store.Store {
				return &world.Hook{
					Store: s,
					OnClaim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed,
						error) {
						if due, ok := c.(store.TakeDue); ok && due.Max > 0 && claims.Load() != w {
							return store.Claimed{}, nil
						}
						got, err := do()
						if w == first && len(got.Runs) > 0 {
							stop()
						}
						return got, err
					},
					OnCommit: func(g *store.Group, do func() error) error {
						err := do()
						if w == first && g.Changes[0].Unload &&
							unloaded.CompareAndSwap(false, true) {
							<-claimed.Done()
							time.Sleep(time.Second)
							return storetest.ErrInjected
						}
						return err
					},
				}
			}
		}
		c := world.NewCluster(t, 0)
		first, second = c.Node(wf), c.Node(wf)
		for _, w := range c.Nodes {
			w.Options.Sweep, w.Wrap = time.Second, wrap(w)
			w.Begin()
		}
		run, err := wf.Start(ctx, first.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := perdure.NewClient(ctx, c.DB)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range []*world.World{second, first} {
			time.Sleep(5 * time.Second)
			claims.Store(w)
			if _, err := paid.Send(ctx, other, "x", i+1); err != nil {
				t.Fatal(err)
			}
		}
		if v, err := run.Result(ctx); v != 12 || err != nil || !unloaded.Load() {
			t.Errorf("unloaded: %v: got %d, %v", unloaded.Load(), v, err)
		}
		first.History(run.ID())
		c.End()
	})
}

// While a run waits to hear of its unload, the answer that brings a request for its end
// is lost: the run learns no more than that there is one. It goes on, since it was sent
// something, and reads that before it is unloaded.
//
// spec: L-7, L-10
func TestRequestOfWhichARestingRunKnowsTheNumberIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		ctx := context.Background()
		var other *perdure.Client
		var unloaded, lost atomic.Bool
		h := &world.Hook{
			OnCommit: func(g *store.Group, do func() error) error {
				if g.Changes[0].Unload && unloaded.CompareAndSwap(false, true) {
					if err := other.Cancel(ctx, "x", "at once"); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Second)
				}
				return do()
			},
			OnClaim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed, error) {
				got, err := do()
				if len(got.Mail) > 0 && lost.CompareAndSwap(false, true) {
					return store.Claimed{}, storetest.ErrInjected
				}
				return got, err
			},
		}
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1, Sweep: time.Second}, wf)
		defer func() { w.End() }()
		var err error
		if other, err = perdure.NewClient(ctx, w.DB); err != nil {
			t.Fatal(err)
		}
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		d, err := w.Engine.Describe(ctx, "x")
		if err != nil || d.Head.Status != journal.Cancelled || !lost.Load() {
			t.Errorf("lost: %v: the run is %v, %v", lost.Load(), d.Head.Status, err)
		}
	})
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// Commands and calls while an engine does not know its state, or lacks what it needs.

// A lossy store fails on demand.
type lossy struct {
	*memory.Store
	commits, renews atomic.Bool
	find            atomic.Pointer[func()]
}

func (l *lossy) Commit(ctx context.Context, g *store.Group) error {
	if l.commits.Load() {
		return storetest.ErrInjected
	}
	return l.Store.Commit(ctx, g)
}

func (l *lossy) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	switch c.(type) {
	case store.Renew, store.Join:
		if l.renews.Load() {
			return store.Claimed{}, storetest.ErrInjected
		}
	}
	return l.Store.Claim(ctx, c)
}

func (l *lossy) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	if h := l.find.Swap(nil); h != nil {
		(*h)()
	}
	return l.Store.Find(ctx, f)
}

// losing returns a cluster with a node on a lossy store.
func losing(t *testing.T, wf perdure.Definition) (*world.Cluster, *world.World, *lossy) {
	c := world.NewCluster(t, 0)
	a := c.Node(wf)
	l := &lossy{Store: a.DB}
	a.Wrap = func(store.Store) store.Store { return l }
	a.Begin()
	return c, a, l
}

// An unheard store commits and loses the answer where the lossy one would fail.
type unheard struct{ *lossy }

func (l unheard) Commit(ctx context.Context, g *store.Group) error {
	if err := l.Store.Commit(ctx, g); err != nil {
		return err
	}
	if l.commits.Load() {
		return storetest.ErrInjected
	}
	return nil
}

// A command that was lost with the lease is carried out by the next engine that has it.
//
// spec: L-2, B-5
func TestAResumeThatWasLostWithTheLeaseIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		c, a, l := losing(t, wf)
		defer c.End()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), a.Engine, 0, perdure.ID("x")))
		if err := a.Engine.Suspend(t.Context(), "x", "by hand"); err != nil {
			t.Fatal(err)
		}
		l.commits.Store(true)
		l.renews.Store(true)
		time.AfterFunc(20*time.Second, func() { l.commits.Store(false); l.renews.Store(false) })
		err := a.Engine.Resume(t.Context(), "x")
		time.Sleep(time.Minute)
		d := world.Must[perdure.Description](t)(a.Engine.Describe(t.Context(), "x"))
		if err == nil && d.Head.Status == journal.Suspended {
			t.Errorf("Resume gave nil, and the run is %v: %v", d.Head.Status,
				world.Tail(a.History("x"), 9))
		}
	})
}

// A command that finds the lease lost while it claims the run is carried out, too.
//
// spec: L-10, B-5
func TestACancelThatMeetsTheLossOfTheLeaseIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		c, a, l := losing(t, wf)
		defer c.End()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), a.Engine, 0, perdure.ID("x")))
		time.Sleep(time.Second)
		l.renews.Store(true)
		slow := func() { time.Sleep(20 * time.Second); l.renews.Store(false) }
		l.find.Store(&slow)
		if err := a.Engine.Cancel(t.Context(), "x", "by hand"); err != nil {
			t.Error(err)
		}
	})
}

// If the engine does not know whether the command was carried out, its error does not deny it.
//
// spec: L-10
func TestACommandThatMayHaveBeenCarriedOutSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		c := world.NewCluster(t, 0)
		a := c.Node(wf)
		l := &lossy{Store: a.DB}
		a.Wrap = func(store.Store) store.Store { return unheard{l} }
		a.Options.IdleTimeout = 2 * time.Hour
		a.Begin()
		defer c.End()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), a.Engine, 0, perdure.ID("x")))
		time.Sleep(time.Second)
		l.commits.Store(true)
		l.renews.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		err := a.Engine.Cancel(ctx, "x", "by hand")
		l.commits.Store(false)
		l.renews.Store(false)
		time.Sleep(time.Minute)
		d := world.Must[perdure.Description](t)(a.Engine.Describe(t.Context(), "x"))
		if err != nil && strings.Contains(err.Error(), "nothing was done") &&
			d.Head.Status == journal.Cancelled {
			t.Errorf("%v, and the run is %v", err, d.Head.Status)
		}
	})
}

// The state of the run in memory, ahead of the store, decides.
//
// spec: L-2
func TestACommandThatIsRefusedInMemoryIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finds atomic.Int64
		h := &world.Hook{OnFind: func(store.Filter) { finds.Add(1); time.Sleep(time.Millisecond) }}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := pattern.SetStatus(ctx, journal.Compensating); err != nil {
				return 0, err
			}
			time.Sleep(10 * time.Second)
			return 1, nil
		})
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer func() { w.End() }()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 0, perdure.ID("x")))
		time.Sleep(time.Second)
		before := finds.Load()
		err := w.Engine.Suspend(t.Context(), "x", "by hand")
		defer time.Sleep(time.Minute)
		if n := finds.Load() - before; n > 10 {
			t.Errorf("%d questions: %v", n, err)
		}
	})
}

// A cancel that the store refuses returns an error.
//
// spec: L-10
func TestACancelThatTheStoreRefusesReturns(t *testing.T) {
	for _, cleans := range []bool{true, false} {
		t.Run(fmt.Sprint(cleans), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
					for _, c := range g.Changes {
						for _, e := range c.Entries {
							if e.Kind == journal.RunClosing || e.Kind == journal.RunCancelled {
								if refused++; refused <= 1 {
									return &store.DataError{Err: errors.New("no")}
								}
							}
						}
					}
					return do()
				}}
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					if cleans {
						if err := perdure.OnCancel(ctx, "undo", func(context.Context) error {
							return nil
						}); err != nil {
							return 0, err
						}
					}
					return 1, perdure.Sleep(ctx, time.Hour)
				})
				w := world.Hooked(t, h, perdure.Options{IdleTimeout: 24 * time.Hour}, wf)
				defer func() { w.End() }()
				world.Must[*perdure.Run[int]](t)(
					wf.Start(t.Context(), w.Engine, 0, perdure.ID("x")))
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				world.CodeIs(t, w.Engine.Cancel(ctx, "x", "by hand"), journal.CodeInvalid)
			})
		})
	}
}

// A run whose end the store refuses is parked, has not ended, and goes on when it is resumed.
//
// spec: L-2, P-1
func TestARunWhoseEndIsRefusedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Bool
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			for _, c := range g.Changes {
				for _, e := range c.Entries {
					if e.Kind == journal.RunCompleted && !refused.Swap(true) {
						return &store.DataError{Err: errors.New("no")}
					}
				}
			}
			return do()
		}, OnFind: func(store.Filter) { time.Sleep(time.Millisecond) }}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 7, perdure.Sleep(ctx, time.Second)
		})
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer func() { w.End() }()
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 0, perdure.ID("x")))
		time.Sleep(2 * time.Second)
		d := world.Must[perdure.Description](t)(w.Engine.Describe(t.Context(), "x"))
		if d.Head.Status != journal.Suspended || !d.Head.Ended.IsZero() {
			t.Errorf("it is %v and has ended at %v", d.Head.Status, d.Head.Ended)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Engine.Resume(ctx, "x"); err != nil {
			t.Error(err)
		}
		if v, err := run.Result(ctx); v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}

// A command waits for the claim of another engine no longer than its context lasts.
//
// spec: L-10
func TestACancelWaitsForAClaimNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		h := &world.Hook{OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			if due, ok := c.(store.TakeDue); ok && due.Max > 0 && hang.Swap(false) {
				time.Sleep(time.Hour)
			}
			return do()
		}}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, 24*time.Hour)
		})
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1, Sweep: time.Second}, wf)
		defer func() { w.End() }()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 0, perdure.ID("x")))
		time.Sleep(time.Second)
		hang.Store(true)
		time.Sleep(5 * time.Second)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.Engine.Cancel(ctx, "x", "by hand")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Steps of clean-ups lose their contexts with the lease, as others do.
//
// spec: L-14, B-5
func TestTheContextOfACleanUpsStepEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		block := func(key string) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				l.note(key)
				<-ctx.Done()
				l.cut(key, context.Cause(ctx))
				return 0, ctx.Err()
			}
		}
		wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				return perdure.Step(ctx, "plain", block("plain"))
			}
			err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "undo", block("undo"))
				return err
			})
			if err != nil {
				return 0, err
			}
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		c := world.NewCluster(t, 0)
		a, b := c.Node(wf), c.Node(wf)
		a.Options.IdleTimeout = time.Hour
		u := unsteadily(a)
		a.Options.Sweep = time.Second
		a.Begin()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), a.Engine, 1, perdure.ID("p")))
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), a.Engine, 2, perdure.ID("x")))
		time.Sleep(time.Second)
		if err := a.Engine.Cancel(t.Context(), "x", "by hand"); err != nil {
			t.Fatal(err)
		}
		b.Begin()
		synctest.Wait()
		u.set(true, false)
		time.Sleep(5 * world.Lease)
		synctest.Wait()
		for _, key := range []string{"plain", "undo"} {
			if len(l.ends(key)) != 1 || len(l.times(key)) != 2 {
				t.Errorf("%s: began %d times, ended %v", key, len(l.times(key)), l.ends(key))
			}
		}
		u.set(false, false)
		time.Sleep(time.Minute)
		a.Stop()
		b.Stop()
		<-a.Done
		<-b.Done
	})
}

// A store that is closed while the engine has no lease ends Run with an error.
//
// spec: B-5
func TestAStoreClosedWhileTheLeaseIsLostEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		c := world.NewCluster(t, 0)
		a := c.Node(wf)
		u := unsteadily(a)
		a.Begin()
		synctest.Wait()
		u.set(false, true)
		time.Sleep(2 * world.Lease)
		u.Close()
		u.set(false, false)
		if err := <-a.Done; err == nil {
			t.Error("Run gives no error")
		}
		a.Stop()
	})
}

// An existing result is returned, whatever has happened to the engine.
//
// spec: L-1
func TestAResultIsGivenAfterTheEngineHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) { return n, nil })
		w := world.New(t, wf)
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 7))
		world.Must[int](t)(run.Result(t.Context()))
		w.End()
		for range 100 {
			if v, err := run.Result(t.Context()); v != 7 || err != nil {
				t.Fatalf("%d, %v", v, err)
			}
		}
	})
}

// The error of a context that has ended does not state that the engine is not running.
//
// spec: P-5
func TestACallWhoseContextHasEndedIsNotToldThatTheEngineStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		w := world.New(t, wf)
		defer w.End()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if _, err := wf.Start(ctx, w.Engine, 1); journal.CodeOf(err) == journal.CodeStopped {
				t.Fatal(err)
			}
		}
	})
}

// The error of a client whose store does not answer does not state that something has stopped.
//
// spec: P-1
func TestAClientsFirstCallTellsThatTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		h := &world.Hook{Store: memory.New(), OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			if _, reserves := c.(store.ReserveID); reserves && !failed {
				failed = true
				return store.Claimed{}, storetest.ErrInjected
			}
			return do()
		}}
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), h))
		_, err := client.Start(t.Context(), "w", []byte("1"), perdure.ID("x"))
		world.CodeIs(t, err, journal.CodeUnavailable)
	})
}

// A run that may be unloaded is, where another one waits for its slot.
//
// spec: R-13
func TestARunDoesNotLingerInTheSlotOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
			if n == 2 {
				return 2, nil
			}
			if _, err := perdure.Step(ctx, "s", world.Work("s", time.Second, nil)); err != nil {
				return 0, err
			}
			return world.GoSignal.Wait(ctx)
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options = perdure.Options{Build: "test", IdleTimeout: time.Minute, Capacity: 1,
			Sweep: 10 * time.Minute}
		w.Begin()
		defer w.End()
		began := time.Now()
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 2))
		world.Must[int](t)(run.Result(t.Context()))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the slot was free after a second, and the run ended after %v", took)
		}
	})
}

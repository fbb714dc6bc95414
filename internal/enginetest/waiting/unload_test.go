package waiting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// sleeper is a workflow that sleeps for that many milliseconds, and counts how often its code was
// begun.
func sleeper(begun *atomic.Int64) *perdure.Workflow[int, world.Span] {
	return perdure.Define("sleeper", func(ctx context.Context, ms int) (world.Span, error) {
		begun.Add(1)
		began, err := perdure.Now(ctx)
		if err == nil {
			err = perdure.Sleep(ctx, time.Duration(ms)*time.Millisecond)
		}
		if err != nil {
			return world.Span{}, err
		}
		ended, err := perdure.Now(ctx)
		return world.Span{Began: began, Ended: ended}, err
	})
}

// waiter is a workflow that waits for a signal.
func waiter(begun *atomic.Int64) *perdure.Workflow[int, int] {
	return perdure.Define("waiter", func(ctx context.Context, _ int) (int, error) {
		begun.Add(1)
		return world.GoSignal.Wait(ctx)
	})
}

// An owning store counts the runs that its engine has.
type owning struct {
	store.Store
	now, most atomic.Int64
}

func (s *owning) more(n int) {
	now := s.now.Add(int64(n))
	for most := s.most.Load(); now > most &&
		!s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
}

func (s *owning) Commit(ctx context.Context, g *store.Group) error {
	err := s.Store.Commit(ctx, g)
	for _, c := range g.Changes {
		switch {
		case err != nil || c.Head == nil || c.Verdict != store.Written:
		case c.Create && c.Head.Owner != 0:
			s.more(1)
		case !c.Create && c.Head.Owner == 0:
			s.more(-1)
		}
	}
	return err
}

func (s *owning) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	out, err := s.Store.Claim(ctx, c)
	s.more(len(out.Runs))
	return out, err
}

// All of many runs whose timers are due at one instant go on, at that instant, and
// no more of them are in memory at a time than there is room for.
//
// spec: L-7, R-12, R-13, L-23
func TestManyTimersAtOneInstant(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 5_000
	}
	synctest.Test(t, func(t *testing.T) {
		const capacity = 500
		due := time.Now().Add(24 * time.Hour)
		var late, early atomic.Int64
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := perdure.SleepUntil(ctx, due); err != nil {
				return 0, err
			}
			switch d := time.Since(due); {
			case d < 0:
				early.Add(1)
			case d > 0:
				late.Add(1)
			}
			return 0, nil
		})
		own := &owning{}
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf},
			Options: perdure.Options{IdleTimeout: -1, Capacity: capacity, Build: "test"}}
		w.Wrap = func(s store.Store) store.Store {
			own.Store = s
			return own
		}
		w.Begin()
		defer func() { w.End() }()
		for range n {
			world.Start(w, wf, 0)
		}
		synctest.Wait()
		if got := w.Count(); got[journal.Waiting] != n {
			t.Fatalf("asleep: %v", got)
		}
		time.Sleep(24*time.Hour + time.Nanosecond)
		synctest.Wait()
		if got := w.Count(); got[journal.Completed] != n || len(got) != 1 {
			t.Errorf("after their time: %v", got)
		}
		if early.Load() > 0 || late.Load() > 0 {
			t.Errorf("%d were early, %d late", early.Load(), late.Load())
		}
		if most := own.most.Load(); most > capacity || most < capacity/2 {
			t.Errorf("%d were in memory at a time", most)
		}
	})
}

// Asleep or waiting, a run holds no goroutine, and its code is not begun again
// before there is something for it: not when time passes, not when an engine
// starts.
//
// spec: L-7, L-23
func TestRestingRunsHoldNothing(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		var slept, waited atomic.Int64
		sleeps, waits := sleeper(&slept), waiter(&waited)
		w := world.With(t, o, sleeps, waits)
		defer func() { w.End() }()
		synctest.Wait()
		before := runtime.NumGoroutine()
		const n = 1000
		for i := range n {
			world.StartAndSettle(w, sleeps, int(2*time.Hour/time.Millisecond))
			world.StartAndSettle(w, waits, 0, perdure.ID(fmt.Sprint("w", i)))
		}
		time.Sleep(time.Minute)
		if more := runtime.NumGoroutine() - before; more > 20 {
			t.Errorf("%d goroutines for %d runs that wait", more, 2*n)
		}
		time.Sleep(30 * time.Minute)
		w.Crash()
		time.Sleep(30 * time.Minute)
		w.End()
		w.Begin()
		synctest.Wait()
		if slept.Load() != n || waited.Load() != n {
			t.Errorf("begun: %d sleepers, %d waiters", slept.Load(), waited.Load())
		}
		time.Sleep(2 * time.Hour)
		for i := range n {
			if _, err := world.GoSignal.Send(context.Background(), w.Engine, fmt.Sprint("w", i),
				i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if got := w.Count(); got[journal.Completed] != 2*n {
			t.Errorf("at last: %v", got)
		}
		if slept.Load() != 2*n || waited.Load() != 2*n {
			t.Errorf("begun: %d sleepers, %d waiters", slept.Load(), waited.Load())
		}
	})
}

// One hundred thousand runs that wait, in a database on disk, add next to nothing
// to the memory of the process.
//
// spec: L-23
func TestRestingRunsTakeNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a database")
	}
	const n = 100_000
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		wf, other := sleeper(&begun), waiter(&begun)
		s, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "x.db"),
			sqlite.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf, other},
			Options: perdure.Options{Build: "test", IdleTimeout: -1}}
		w.Wrap = func(store.Store) store.Store { return s }
		w.Begin()
		defer func() { w.End() }()
		fill := func(n int) {
			const senders = 100
			var wg sync.WaitGroup
			for range senders {
				wg.Go(func() {
					for i := range n / senders {
						var err error
						if i%2 == 0 {
							_, err = wf.Start(context.Background(), w.Engine,
								int(24*time.Hour/time.Millisecond))
						} else {
							_, err = other.Start(context.Background(), w.Engine, 0)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			synctest.Wait()
		}
		heap := func() int64 {
			w.Forget()
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		fill(1000)
		before := heap()
		fill(n)
		if more := heap() - before; more > 20<<20 {
			t.Errorf("%d runs that wait take %d bytes", n, more)
		}
		if begun.Load() != n+1000 {
			t.Errorf("begun %d times", begun.Load())
		}
	})
}

// While nothing is due, an engine with many waiting runs makes at most ten calls a minute to its
// store.
//
// spec: B-6, L-23
func TestIdleEngineAsksNextToNothing(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2_000
	}
	for _, idle := range []time.Duration{-1, 0} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Int64
			sleeps, waits := sleeper(&begun), waiter(&begun)
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{
				sleeps, waits,
			},
				Options: perdure.Options{IdleTimeout: idle, Build: "test"}}
			var calls *storetest.Faulty // counts them
			w.Wrap = func(s store.Store) store.Store {
				calls = storetest.NewFaulty(s)
				return calls
			}
			w.Begin()
			defer func() { w.End() }()
			for i := range n / 2 {
				_, err := sleeps.Start(context.Background(), w.Engine,
					int((6*time.Hour+time.Duration(i)*time.Second)/time.Millisecond))
				_, err2 := waits.Start(context.Background(), w.Engine, 0)
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
			}
			for life := range 2 {
				time.Sleep(2 * time.Minute)
				for minute := range 120 {
					before := calls.Calls(storetest.Any)
					time.Sleep(time.Minute)
					if asked := calls.Calls(storetest.Any) - before; asked > 10 {
						t.Fatalf("life %d, minute %d: %d calls", life, minute, asked)
					}
				}
				if life == 0 {
					w.Crash()
				}
			}
			if got := begun.Load(); got != int64(n) {
				t.Errorf("begun %d times", got)
			}
		})
	}
}

// With precise scheduling a timer fires at its instant; without it, at the next sweep, and the
// engine does not query the store for each of them.
//
// spec: R-13
func TestSweepAlone(t *testing.T) {
	for _, sweep := range []time.Duration{0, -1, time.Second, 10 * time.Minute} {
		for _, only := range []bool{false, true} {
			if only && sweep < 0 {
				continue // which is refused
			}
			t.Run(fmt.Sprintf("%v/only=%v", sweep, only), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var begun atomic.Int64
					wf := sleeper(&begun)
					w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
					w.Options = perdure.Options{
						IdleTimeout: -1, Build: "test", Sweep: sweep, SweepOnly: only,
					}
					var claims atomic.Int64
					w.Wrap = func(s store.Store) store.Store {
						return &world.Hook{Store: s, OnClaim: func(c store.Claim,
							do func() (store.Claimed, error)) (store.Claimed, error) {
							if _, due := c.(store.TakeDue); due {
								claims.Add(1)
							}
							return do()
						}}
					}
					w.Begin()
					defer func() { w.End() }()
					const n = 200
					var runs []*perdure.Run[world.Span]
					for i := range n { // the first is the one that is due first
						runs = append(runs, world.StartAndSettle(w, wf,
							int(
								(time.Hour+
									time.Duration(i)*7919*time.Millisecond)/time.Millisecond)))
					}
					before, began := claims.Load(), time.Now()
					every := sweep
					if every == 0 {
						every = 30 * time.Second
					}
					someLate := false
					for i, run := range runs {
						got, err := run.Result(context.Background())
						late := got.Took() - time.Hour - time.Duration(i)*7919*time.Millisecond
						if err != nil || late < 0 || only && late > every || !only && late > 0 {
							t.Fatalf("run %d is %v late (%v)", i, late, err)
						}
						someLate = someLate || late > 0
					}
					if only != someLate {
						t.Error("nothing waited for the sweep")
					}
					if n := claims.Load() - before; only &&
						n > int64(time.Since(began)/every)+5 {
						t.Errorf("%d claims in %v", n, time.Since(began))
					}
				})
			})
		}
	}
}

// The clock of the machine is set differently in the next life of the process: if it is a day
// behind, no timer is early by it; if it is a day ahead, each fires at once.
//
// spec: L-7, R-13
func TestClockJumps(t *testing.T) {
	for _, idle := range []time.Duration{-1, 0} {
		for _, crash := range []bool{false, true} {
			for _, forward := range []bool{false, true} {
				var begun atomic.Int64
				var db *memory.Store
				life := func(t *testing.T,
					f func(w *world.World, wf *perdure.Workflow[int, world.Span])) {
					synctest.Test(t, func(t *testing.T) {
						wf := sleeper(&begun)
						w := &world.World{T: t, DB: db, Workflows: []perdure.Definition{wf},
							Options: perdure.Options{IdleTimeout: idle, Build: "test"}}
						if db == nil {
							w.DB = memory.New()
						}
						if forward && db != nil {
							time.Sleep(48 * time.Hour)
						}
						w.Begin()
						f(w, wf)
						if crash {
							w.Kill()
						} else {
							w.End()
							w.DB = w.DB.Reopen()
						}
						db = w.DB
					})
				}
				var due time.Time
				life(t, func(w *world.World, wf *perdure.Workflow[int, world.Span]) {
					time.Sleep(24 * time.Hour) // so that the next life begins a day ago
					world.StartAndSettle(w, wf, int(time.Hour/time.Millisecond), perdure.ID("x"))
					due = time.Now().Add(time.Hour)
					time.Sleep(30 * time.Minute)
				})
				life(t, func(w *world.World, wf *perdure.Workflow[int, world.Span]) {
					_, err := world.OutcomeOf(w, wf, "x")
					switch wait := time.Until(due); {
					case err != nil:
						t.Error(err)
					case wait > 0:
						t.Errorf("forward %v: it ended %v before its time", forward, wait)
					case !forward && wait < 0:
						t.Errorf("it was %v late", -wait)
					case forward && time.Since(due) != 23*time.Hour:
						t.Errorf("it ended at %v", time.Now())
					}
				})
			}
		}
	}
}

// Slots and memory are given to those that can go on: runs that wait leave for
// them, before they have waited for their idle timeout.
//
// spec: L-7, L-23
func TestWaitingRunsGiveTheirSlotsUp(t *testing.T) {
	for name, o := range map[string]perdure.Options{
		"slots": {Capacity: 3}, "slots, a long idle timeout": {Capacity: 3, IdleTimeout: time.Hour},
		"memory": {MaxLoaded: 1, IdleTimeout: time.Hour}, "memory, unloaded at once": {
			MaxLoaded: 1, IdleTimeout: -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int64
				wf := waiter(&begun)
				w := world.With(t, o, wf)
				defer func() { w.End() }()
				const n = 40
				for i := range n {
					world.StartAndSettle(w, wf, 0, perdure.ID(fmt.Sprint(i)))
				}
				time.Sleep(time.Minute)
				if got := w.Count(); got[journal.Waiting] != n {
					t.Errorf("after a minute: %v", got)
				}
				for i := range n {
					if _, err := world.GoSignal.Send(context.Background(), w.Engine, fmt.Sprint(i),
						i); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				if got := w.Count(); got[journal.Completed] != n {
					t.Errorf("after another minute: %v", got)
				}
			})
		})
	}
}

// A run that is unloaded is suspended, resumed and cancelled as any other; while it is
// parked its time passes and it does not go on.
//
// spec: L-2, L-7, L-10
func TestOperatorsReachRestingRuns(t *testing.T) {
	cases := map[string]struct {
		do   func(t *testing.T, w *world.World, c *perdure.Client) error
		took time.Duration
		is   journal.Code
	}{
		"resumed before its time": {func(_ *testing.T, _ *world.World, c *perdure.Client) error {
			err := c.Suspend(context.Background(), "x", "look")
			time.Sleep(10 * time.Minute)
			return errors.Join(err, c.Resume(context.Background(), "x"))
		}, time.Hour, ""},
		"resumed after its time": {func(t *testing.T, w *world.World, c *perdure.Client) error {
			err := c.Suspend(context.Background(), "x", "look")
			time.Sleep(5 * time.Hour)
			if d := w.Describe("x"); d.Head.Status != journal.Suspended ||
				d.Why != "parked: look" ||
				!d.Head.Wake.IsZero() {
				t.Errorf("%v %q, due %v", d.Head.Status, d.Why, d.Head.Wake)
			}
			return errors.Join(err, c.Resume(context.Background(), "x"))
		}, 5*time.Hour + 30*time.Minute, ""},
		"suspended over a crash": {func(_ *testing.T, w *world.World, c *perdure.Client) error {
			err := c.Suspend(context.Background(), "x", "")
			time.Sleep(time.Second)
			w.Crash()
			time.Sleep(5 * time.Hour)
			return errors.Join(err, w.Engine.Resume(context.Background(), "x"))
		}, 5*time.Hour + 30*time.Minute + time.Second, ""},
		"cancelled": {func(_ *testing.T, _ *world.World, c *perdure.Client) error {
			return c.Cancel(context.Background(), "x", "enough")
		}, 0, journal.CodeCancelled},
		"cancelled while parked": {func(_ *testing.T, _ *world.World, c *perdure.Client) error {
			err := c.Suspend(context.Background(), "x", "look")
			time.Sleep(time.Minute)
			return errors.Join(err, c.Cancel(context.Background(), "x", "enough"))
		}, 0, journal.CodeCancelled},
	}
	for name, c := range cases {
		for _, outside := range []bool{false, true} { // by a client of its own
			t.Run(fmt.Sprintf("%s/outside=%v", name, outside), func(t *testing.T) {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					var begun atomic.Int64
					wf := sleeper(&begun)
					w := world.With(t, o, wf)
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, int(time.Hour/time.Millisecond), perdure.ID("x"))
					time.Sleep(30 * time.Minute)
					client := w.Engine.Client
					if outside {
						var err error
						if client, err = perdure.NewClient(context.Background(), w.DB); err != nil {
							t.Fatal(err)
						}
					}
					if err := c.do(t, w, client); err != nil {
						t.Fatal(err)
					}
					got, err := world.OutcomeOf(w, wf, "x")
					switch {
					case c.is != "":
						world.CodeIs(t, err, c.is)
					case err != nil || got.Took() < c.took || got.Took() > c.took+30*time.Second ||
						!outside &&
							got.Took() != c.took:
						t.Errorf("it took %v (%v), want %v", got.Took(), err, c.took)
					}
					w.History("x")
				})
			})
		}
	}
}

// A start that finds a run which is unloaded gives that run, and does not wake it.
//
// spec: R-27
func TestStartFindsARestingRun(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		var begun atomic.Int64
		wf := sleeper(&begun)
		w := world.With(t, o, wf)
		defer func() { w.End() }()
		first := world.StartAndSettle(w, wf, int(time.Hour/time.Millisecond), perdure.ID("x"))
		time.Sleep(30 * time.Minute)
		again := world.StartAndSettle(w, wf, 5, perdure.ID("x"))
		if again.New() || again.RunID() != first.RunID() || begun.Load() != 1 {
			t.Errorf("new %v, run %v, begun %d times", again.New(), again.RunID(), begun.Load())
		}
		for _, run := range []*perdure.Run[world.Span]{first, again} {
			if got, err := run.Result(context.Background()); err != nil || got.Took() != time.Hour {
				t.Errorf("%v %v", got.Took(), err)
			}
		}
	})
}

// Engines come and go in good order and in bad at any moment of the lives of runs
// that sleep, wait, are about to be unloaded and wake: none is lost, none is early, none
// does anything twice.
//
// spec: P-5, L-7
func TestEnginesComeAndGoWhileRunsRest(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(round)))
			idle := []time.Duration{-1, 0, time.Minute}[rng.IntN(3)]
			wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				for range 5 {
					d := time.Duration(rng.IntN(4)) * time.Second
					began, err := perdure.Now(ctx)
					if err != nil {
						return 0, err
					}
					if rng.IntN(3) == 0 {
						_, err = world.GoSignal.Wait(ctx, perdure.Within(d+1))
						if journal.CodeOf(err) == journal.CodeTimedOut {
							err = nil
						}
						d = 0
					} else {
						err = perdure.Sleep(ctx, d)
					}
					if err != nil {
						return 0, err
					}
					ended, err := perdure.Now(ctx)
					if err != nil {
						return 0, err
					}
					if ended.Sub(began) < d {
						return 0, fmt.Errorf("it slept %v, not %v", ended.Sub(began), d)
					}
				}
				return n, nil
			})
			w := world.With(t, perdure.Options{IdleTimeout: idle, Capacity: 1 + rng.IntN(60)}, wf)
			defer func() { w.End() }()
			const n = 50
			for i := range n {
				world.Start(w, wf, i, perdure.ID(fmt.Sprint(i)))
			}
			for range 40 {
				time.Sleep(time.Duration(rng.IntN(4)) * 500 * time.Millisecond)
				for range 5 {
					_, _ = world.GoSignal.Send(context.Background(), w.Engine,
						fmt.Sprint(rng.IntN(n)), 1)
				}
				switch rng.IntN(4) {
				case 0:
					w.Crash()
				case 1:
					w.End()
					w.Begin()
				}
			}
			time.Sleep(2 * time.Minute)
			for i := range n {
				if d := w.Describe(fmt.Sprint(i)); d.Head.Status != journal.Completed {
					t.Errorf("seed %d, round %d: run %d is %v: %s %v", seed, round, i,
						d.Head.Status, d.Why, d.State.Failure)
				}
				w.History(fmt.Sprint(i))
			}
		})
	}
}

// A run that code keeps in memory by a context of its own stays there, and leaves when that context
// no longer matters.
//
// spec: L-7
func TestRunLeavesMemoryWhenItsContextIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			begun.Add(1)
			limited, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			if _, err := world.GoSignal.Wait(limited); err != nil {
				return 0, err
			}
			return world.GoSignal.Wait(ctx)
		})
		w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		owned := func() bool { return w.Describe("x").Head.Owner != 0 }
		if time.Sleep(time.Minute); !owned() || begun.Load() != 1 {
			t.Errorf("it left, and nobody hears its context end")
		}
		for i := range 2 {
			if _, err := world.GoSignal.Send(context.Background(), w.Engine, "x", i); err != nil {
				t.Fatal(err)
			}
			if time.Sleep(time.Minute); i == 0 && owned() {
				t.Error("it stays without a reason")
			}
		}
		if out, err := world.OutcomeOf(w, wf, "x"); out != 1 || err != nil || begun.Load() != 2 {
			t.Error(out, err, begun.Load())
		}
	})
}

// spec: R-13
func TestBadOptionsAreRefused(t *testing.T) {
	for what, o := range map[string]perdure.Options{
		"Sweep": {Sweep: time.Second - 1}, "Sweep is 10m0.": {Sweep: 10*time.Minute + 1},
		"Sweep is -": {Sweep: -1, SweepOnly: true},
		"Capacity":   {Capacity: -1}, "MaxLoaded": {MaxLoaded: -1},
		"MaxPayload": {MaxPayload: -1}, "SpillOver": {SpillOver: -1},
		"RUNNING": {
			Retention: perdure.Retention{
				ByStatus: map[journal.Status]time.Duration{journal.Running: time.Hour},
			},
		},
	} {
		_, err := perdure.New(memory.New(), o)
		if world.CodeIs(t, err, journal.CodeInvalid); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, o := range []perdure.Options{
		{Sweep: time.Second},
		{Sweep: 10 * time.Minute},
		{IdleTimeout: -1, CleanUp: -1, Drain: -1, KeepUnrouted: -1},
	} {
		if _, err := perdure.New(memory.New(), o); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New()}
		w.Begin()
		defer w.End()
		bad := perdure.Define("w", world.Nothing,
			perdure.Retention{ByStatus: map[journal.Status]time.Duration{journal.Waiting: 1}})
		world.CodeIs(t, w.Engine.Register(bad), journal.CodeInvalid)
		_, err := perdure.Define("w", world.Nothing).Start(context.Background(), w.Engine, 0,
			perdure.Dedup(-1))
		world.CodeIs(t, err, journal.CodeUnregistered)
		_, err = admin.New(w.Engine).Stale(context.Background(), -1)
		world.CodeIs(t, err, journal.CodeInvalid)
	})
}

// What starts while due runs are being claimed does not take the slots that were
// asked for: there are never more runs in memory than Capacity.
func TestClaimKeepsItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", time.Minute, nil))
		})
		own := &owning{}
		var w *world.World
		begun, started := make(chan struct{}), false
		h := &world.Hook{OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			if due, ok := c.(store.TakeDue); ok && due.Max > 0 && !started {
				<-begun
				started = true
				for range 2 {
					if _, err := wf.Start(context.Background(), w.Engine, 0); err != nil {
						t.Error(err)
					}
				}
			}
			return do()
		}}
		w = &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf},
			Options: perdure.Options{Capacity: 2, Build: "test"}}
		client, err := perdure.NewClient(context.Background(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := wf.Start(context.Background(), client, 0); err != nil {
				t.Fatal(err)
			}
		}
		w.Wrap = func(s store.Store) store.Store {
			own.Store = s
			h.Store = own
			return h
		}
		w.Begin()
		close(begun)
		defer w.End()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := w.Count(); got[journal.Completed] != 4 || !started || own.most.Load() != 2 {
			t.Errorf("%v, %d in memory at a time", got, own.most.Load())
		}
	})
}

package perdure_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A hook is a store whose calls a test takes part in.
type hook struct {
	store.Store
	commit func(*store.Group, func() error) error
	claim  func(store.Claim, func() (store.Claimed, error)) (store.Claimed, error)
	find   func(store.Filter)
	load   func(journal.Number, store.Range) error
}

func (h *hook) Commit(ctx context.Context, g *store.Group) error {
	do := func() error { return h.Store.Commit(ctx, g) }
	if h.commit != nil {
		return h.commit(g, do)
	}
	return do()
}
func (h *hook) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	do := func() (store.Claimed, error) { return h.Store.Claim(ctx, c) }
	if h.claim != nil {
		return h.claim(c, do)
	}
	return do()
}
func (h *hook) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Number, error) {
	a, b, c := h.Store.Find(ctx, f)
	if h.find != nil {
		h.find(f)
	}
	return a, b, c
}
func (h *hook) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	if h.load != nil {
		if err := h.load(n, r); err != nil {
			return nil, err
		}
	}
	return h.Store.Load(ctx, n, r)
}

// hooked gives a world whose store h takes part in.
func hooked(t *testing.T, h *hook, opts perdure.Options, wfs ...perdure.Definition) *world {
	w := &world{t: t, db: memory.New(), workflows: wfs, opts: opts}
	w.opts.Build = "test"
	w.wrap = func(s store.Store) store.Store { c := *h; c.Store = s; return &c }
	w.begin()
	return w
}

// A start that a stopping engine could not make durable is not acknowledged.
func TestStartTellsOnlyWhatIsDurableWhileTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		h := &hook{commit: func(g *store.Group, do func() error) error {
			time.Sleep(time.Second) // a slow disk
			return store.ErrClosed  // the process dies before the commit
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		synctest.Wait()
		var run *perdure.Run[int]
		var err error
		done := make(chan bool)
		go func() { run, err = wf.Start(context.Background(), w.eng, 0, perdure.ID("x")); close(done) }()
		synctest.Wait()
		w.stop()
		<-done
		if err == nil {
			heads, _, _ := w.db.Find(context.Background(), store.Filter{Limit: 10})
			t.Errorf("Start gave new=%v and no error; the store has %d runs", run.New(), len(heads))
		}
		<-w.done
	})
}

// An end that a stopping engine could not make durable is not told.
func TestResultTellsOnlyWhatIsDurableWhileTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) { time.Sleep(time.Second); return 1, nil })
		})
		h := &hook{commit: func(g *store.Group, do func() error) error {
			if g.Changes[0].Create {
				return do()
			}
			time.Sleep(time.Minute)
			return store.ErrClosed
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		run, err := wf.Start(context.Background(), w.eng, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.stop()
		out, err := run.Result(context.Background())
		if err == nil {
			t.Errorf("Result gave %d; the run was never recorded as ended", out)
		}
		<-w.done
	})
}

// Starts that wait for room while the store stalls go on when it answers.
func TestStartsGoOnAfterTheStoreStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) { return 1, nil })
		var stall atomic.Bool
		stall.Store(true)
		h := &hook{commit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		var started atomic.Int32
		for range 2000 {
			go func() {
				if _, err := wf.Start(context.Background(), w.eng, in); err == nil {
					started.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		stall.Store(false)
		time.Sleep(time.Hour)
		if n := started.Load(); n != 2000 {
			t.Errorf("an hour after the store answers again, %d of 2000 starts have returned", n)
		}
		w.stop()
		<-w.done
	})
}

// A start whose caller stopped waiting for room holds neither room nor a slot.
func TestStartThatWasGivenUpHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) { return 1, nil })
		var stall atomic.Bool
		stall.Store(true)
		h := &hook{commit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		for range 2000 {
			go func() {
				ctx, c := context.WithTimeout(context.Background(), time.Second)
				defer c()
				wf.Start(ctx, w.eng, in)
			}()
		}
		time.Sleep(10 * time.Second)
		stall.Store(false)
		time.Sleep(time.Hour)
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := wf.Start(ctx, w.eng, "small"); err != nil {
			t.Error("long after the store answers again:", err)
		}
		w.stop()
		<-w.done
	})
}

// A run whose slot becomes free while its creation is committed is taken up.
func TestPendingRunIsTakenUpWhenASlotBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) { time.Sleep(d); return 1, nil })
		})
		h := &hook{commit: func(g *store.Group, do func() error) error {
			time.Sleep(10 * time.Millisecond)
			return do()
		}}
		w := hooked(t, h, perdure.Options{Capacity: 1}, wf)
		defer w.end()
		if _, err := wf.Start(context.Background(), w.eng, time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + 5*time.Millisecond) // its end is being committed
		run, err := wf.Start(context.Background(), w.eng, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := run.Result(ctx); err != nil {
			d, _ := w.eng.Describe(context.Background(), run.ID())
			t.Errorf("after an hour with no other run: %v, %v: %s", err, d.Head.Status, d.Why)
		}
	})
}

// A parked run that a cancel claimed, without hearing of it, is not executed.
func TestLostClaimOfAParkedRunExecutesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if ran.Add(1) == 1 {
				return 0, perdure.Parking(errors.New("look"))
			}
			return 1, nil
		})
		var lost atomic.Bool
		h := &hook{claim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed, error) {
			out, err := do()
			if c.Run != 0 && !lost.Swap(true) {
				return store.Claimed{}, storetest.ErrInjected
			}
			return out, err
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		defer w.end()
		run, err := wf.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err = w.eng.Cancel(context.Background(), run.ID(), "no")
		synctest.Wait()
		time.Sleep(time.Minute)
		d, _ := w.eng.Describe(context.Background(), run.ID())
		if ran.Load() != 1 {
			t.Errorf("cancel gave %v; then the parked run's code ran %d times and it is %v", err, ran.Load(), d.Head.Status)
		}
	})
}

// Nor does a run of an unknown workflow harm the engine.
func TestLostClaimOfAnUnknownWorkflowIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		var lost atomic.Bool
		h := &hook{claim: func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed, error) {
			out, err := do()
			if c.Run != 0 && !lost.Swap(true) {
				return store.Claimed{}, storetest.ErrInjected
			}
			return out, err
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		run, err := w.eng.Start(context.Background(), "unknown", []byte("0"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.eng.Cancel(context.Background(), run.ID(), "no")
		synctest.Wait()
		w.end()
	})
}

// The second of two resumes is told that it came late, and disturbs nothing.
func TestSecondResumeLetsTheRunGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, bodies atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if runs.Add(1) == 1 {
				return 0, perdure.Parking(errors.New("look"))
			}
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				bodies.Add(1)
				work("s", time.Hour, nil)(ctx)
				return 1, nil
			})
		})
		var slow atomic.Int32
		h := &hook{find: func(f store.Filter) {
			if slow.Add(-1) == 0 {
				time.Sleep(time.Minute)
			}
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		defer w.end()
		run, err := wf.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		done := make(chan error, 1)
		slow.Store(1)
		go func() { done <- w.eng.Resume(context.Background(), run.ID()) }()
		synctest.Wait()
		if err := w.eng.Resume(context.Background(), run.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := <-done; err == nil {
			synctest.Wait()
			t.Errorf("the second resume, of a RUNNING run, gave no error, and the step in flight was begun %d times", bodies.Load())
		}
	})
}

// A run that panicked once and then kills its engines is parked too.
func TestCrashesAreCountedAfterAPanic(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan bool)
			first := true
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if panics && first {
					first = false
					panic("once")
				}
				<-hang // the process dies here
				return 0, nil
			})
			w := newWorld(t, wf)
			run, err := wf.Start(context.Background(), w.eng, 0)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			for range 30 {
				w.crash()
				time.Sleep(time.Minute)
			}
			d, _ := w.eng.Describe(context.Background(), run.ID())
			if d.Head.Status != journal.Suspended {
				t.Errorf("panics=%v: after 30 crashes %v, crashes %d: %s", panics, d.Head.Status, d.Head.Crashes, d.Why)
			}
			close(hang)
			w.end()
		})
	}
}

// What made the code be replayed is no reason to wait once it is.
//
// spec: L-16
func TestCauseOfAReplayIsForgottenWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if first {
				first = false
				panic("boom")
			}
			return perdure.Step(ctx, "s", work("s", 0, errOdd), perdure.Retry{Attempts: 5, First: time.Hour})
		})
		w := newWorld(t, wf)
		defer w.end()
		run, err := wf.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d, _ := w.eng.Describe(context.Background(), run.ID())
		if strings.Contains(d.Why, "boom") {
			t.Errorf("a step backs off; cause %q wake %v now %v why %q", d.Head.Cause, d.Head.Wake, time.Now(), d.Why)
		}
	})
}

// Nor do many of them, again and again.
func TestStartsThatWereGivenUpAddNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) { return 1, nil })
		var stall atomic.Bool
		h := &hook{commit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		for range 2 {
			stall.Store(true)
			for range 2000 {
				go func() {
					ctx, c := context.WithTimeout(context.Background(), time.Second)
					defer c()
					wf.Start(ctx, w.eng, in)
				}()
			}
			time.Sleep(10 * time.Second)
			stall.Store(false)
			time.Sleep(time.Hour)
		}
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := wf.Start(ctx, w.eng, "small"); err != nil {
			t.Error("long after the store answers again:", err)
		}
		w.stop()
		<-w.done
	})
}

// A nil workflow is refused.
func TestNilWorkflowIsRefused(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Error("panic:", p)
		}
	}()
	w := newWorld(t)
	defer w.end()
	if err := w.eng.Register((*perdure.Workflow[int, int])(nil)); err == nil {
		t.Error("no error")
	}
}

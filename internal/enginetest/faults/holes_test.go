package faults

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
	"github.com/perdure/perdure/store/storetest"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A start that a stopping engine could not make durable is not acknowledged.
func TestStartTellsOnlyWhatIsDurableWhileTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			time.Sleep(time.Second) // a slow disk
			return store.ErrClosed  // the process dies before the commit
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		synctest.Wait()
		var run *perdure.Run[int]
		var err error
		done := make(chan bool)
		go func() {
			run, err = wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
			close(done)
		}()
		synctest.Wait()
		w.Stop()
		<-done
		if err == nil {
			heads, _, _ := w.DB.Find(context.Background(), store.Filter{Limit: 10})
			t.Errorf("Start gave new=%v and no error; the store has %d runs", run.New(), len(heads))
		}
		<-w.Done
	})
}

// An end that a stopping engine could not make durable is not reported.
func TestResultTellsOnlyWhatIsDurableWhileTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 1, nil
			})
		})
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			if g.Changes[0].Create {
				return do()
			}
			time.Sleep(time.Minute)
			return store.ErrClosed
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		run, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.Stop()
		out, err := run.Result(context.Background())
		if err == nil {
			t.Errorf("Result gave %d; the run was never recorded as ended", out)
		}
		<-w.Done
	})
}

// Starts that wait for room while the store stalls go on when it answers.
func TestStartsGoOnAfterTheStoreStalled(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 120 MB")
	}
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
			return 1, nil
		})
		var stall atomic.Bool
		stall.Store(true)
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		var started atomic.Int32
		for range 2000 {
			go func() {
				if _, err := wf.Start(context.Background(), w.Engine, in); err == nil {
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
		w.Stop()
		<-w.Done
	})
}

// A start whose caller stopped waiting for room holds neither room nor a slot.
func TestStartThatWasGivenUpHoldsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 120 MB")
	}
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
			return 1, nil
		})
		var stall atomic.Bool
		stall.Store(true)
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		for range 2000 {
			go func() {
				ctx, c := context.WithTimeout(context.Background(), time.Second)
				defer c()
				wf.Start(ctx, w.Engine, in)
			}()
		}
		time.Sleep(10 * time.Second)
		stall.Store(false)
		time.Sleep(time.Hour)
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := wf.Start(ctx, w.Engine, "small"); err != nil {
			t.Error("long after the store answers again:", err)
		}
		w.Stop()
		<-w.Done
	})
}

// A run whose slot becomes free while its creation is committed is taken up.
func TestPendingRunIsTakenUpWhenASlotBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(d)
				return 1, nil
			})
		})
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			time.Sleep(10 * time.Millisecond)
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{Capacity: 1}, wf)
		defer w.End()
		world.Start(w, wf, time.Second)
		time.Sleep(time.Second + 5*time.Millisecond) // its end is being committed
		run, err := wf.Start(context.Background(), w.Engine, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := run.Result(ctx); err != nil {
			d, _ := w.Engine.Describe(context.Background(), run.ID())
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
		h := &world.Hook{OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			out, err := do()
			if _, one := c.(store.TakeRun); one && !lost.Swap(true) {
				return store.Claimed{}, storetest.ErrInjected
			}
			return out, err
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err = w.Engine.Cancel(context.Background(), run.ID(), "no")
		synctest.Wait()
		time.Sleep(time.Minute)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if ran.Load() != 1 {
			t.Errorf("cancel gave %v; then the parked run's code ran %d times and it is %v", err,
				ran.Load(), d.Head.Status)
		}
	})
}

// A run of an unknown workflow does not harm the engine either.
func TestLostClaimOfAnUnknownWorkflowIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 1, nil })
		var lost atomic.Bool
		h := &world.Hook{OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			out, err := do()
			if _, one := c.(store.TakeRun); one && !lost.Swap(true) {
				return store.Claimed{}, storetest.ErrInjected
			}
			return out, err
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		run, err := w.Engine.Start(context.Background(), "unknown", []byte("0"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Engine.Cancel(context.Background(), run.ID(), "no")
		synctest.Wait()
		w.End()
	})
}

// The second of two resumes is answered that it came late, and disturbs nothing.
func TestSecondResumeLetsTheRunGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, bodies atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if runs.Add(1) == 1 {
				return 0, perdure.Parking(errors.New("look"))
			}
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				bodies.Add(1)
				world.Work("s", time.Hour, nil)(ctx)
				return 1, nil
			})
		})
		var slow atomic.Int32
		h := &world.Hook{OnFind: func(f store.Filter) {
			if slow.Add(-1) == 0 {
				time.Sleep(time.Minute)
			}
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		done := make(chan error, 1)
		slow.Store(1)
		go func() { done <- w.Engine.Resume(context.Background(), run.ID()) }()
		synctest.Wait()
		if err := w.Engine.Resume(context.Background(), run.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := <-done; err == nil {
			synctest.Wait()
			t.Errorf("the second resume, of a RUNNING run, gave no error, and the step in flight "+
				"was begun %d times", bodies.Load())
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
			w := world.New(t, wf)
			run, err := wf.Start(context.Background(), w.Engine, 0)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			for range 30 {
				w.Crash()
				time.Sleep(time.Minute)
			}
			d, _ := w.Engine.Describe(context.Background(), run.ID())
			if d.Head.Status != journal.Suspended {
				t.Errorf("panics=%v: after 30 crashes %v, crashes %d: %s", panics, d.Head.Status,
					d.Head.Crashes, d.Why)
			}
			close(hang)
			w.End()
		})
	}
}

// The reason for a replay is not a reason to wait any more once the replay has begun.
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
			return perdure.Step(ctx, "s", world.Work("s", 0, world.ErrOdd),
				perdure.Retry{Attempts: 5, First: time.Hour})
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if strings.Contains(d.Why, "boom") {
			t.Errorf("a step backs off; cause %q wake %v now %v why %q", d.Head.Cause, d.Head.Wake,
				time.Now(), d.Why)
		}
	})
}

// Many such starts, again and again, hold nothing either.
func TestStartsThatWereGivenUpAddNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
			return 1, nil
		})
		var stall atomic.Bool
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			for stall.Load() {
				time.Sleep(time.Millisecond)
			}
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		in := strings.Repeat("x", 60_000)
		for range 2 {
			stall.Store(true)
			for range 2000 {
				go func() {
					ctx, c := context.WithTimeout(context.Background(), time.Second)
					defer c()
					wf.Start(ctx, w.Engine, in)
				}()
			}
			time.Sleep(10 * time.Second)
			stall.Store(false)
			time.Sleep(time.Hour)
		}
		ctx, c := context.WithTimeout(context.Background(), time.Hour)
		defer c()
		if _, err := wf.Start(ctx, w.Engine, "small"); err != nil {
			t.Error("long after the store answers again:", err)
		}
		w.Stop()
		<-w.Done
	})
}

func TestNilWorkflowIsRefused(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Error("panic:", p)
		}
	}()
	w := world.New(t)
	defer w.End()
	if err := w.Engine.Register((*perdure.Workflow[int, int])(nil)); err == nil {
		t.Error("no error")
	}
}

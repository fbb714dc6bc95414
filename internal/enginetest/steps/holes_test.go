package steps

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A step that waited for its next attempt when its engine died is recorded when the run ends.
//
// spec: L-12, L-13
func TestReplayedBackOffGetsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 0, world.ErrOdd),
				perdure.Retry{Attempts: 5, First: time.Hour})
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Crash()
		synctest.Wait()
		if err := w.Engine.Cancel(context.Background(), run.ID(), "no"); err != nil {
			t.Fatal(err)
		}
		t.Log(world.Tail(w.History(run.ID()), 10))
	})
}

// It also ends with its branch.
//
// spec: L-11, L-13
func TestReplayedBackOffEndsWithItsBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "s", func(context.Context) (int, error) {
					calls.Add(1)
					return 0, world.ErrOdd
				}, perdure.Retry{Attempts: 5, First: time.Hour, Cap: 10 * time.Hour})
			})
			perdure.Step(ctx, "wait", world.Work("w", 30*time.Minute, nil))
			b.Cancel(ctx, "no")
			return perdure.Step(ctx, "wait2", world.Work("w", 30*time.Hour, nil))
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Crash()
		ctx := context.Background()
		run.Result(ctx)
		r2, _ := wf.Get(ctx, w.Engine, run.ID())
		_, err = r2.Result(ctx)
		if calls.Load() != 1 {
			t.Errorf("%v: the step of the cancelled branch was called %d times", err, calls.Load())
		}
		t.Log(world.Tail(w.History(run.ID()), 20))
	})
}

// A step that kept a value had started, and is recorded.
//
// spec: L-13
func TestCheckpointIsARecordOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				perdure.Once(ctx, "k", func() (int, error) { return 1, nil })
				time.Sleep(time.Hour)
				return 1, nil
			})
		}, perdure.Timeout(time.Minute))
		w := world.New(t, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Kill()
		time.Sleep(time.Hour)
		w.Begin()
		synctest.Wait()
		es := w.History(run.ID())
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		ok := false
		for _, e := range es {
			ok = ok || e.Kind == journal.StepCancelled
		}
		if !ok {
			t.Errorf("%v %+v", world.Tail(es, 10), d.State.Steps)
		}
	})
}

// A step that parks its run has returned: it is not shown as abandoned, and the engine does not
// wait for it.
//
// spec: L-14
func TestStepThatParksItsRunIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				return 0, perdure.Parking(world.ErrOdd)
			})
		})
		w := world.New(t, wf)
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if len(d.Abandoned) > 0 {
			t.Error("abandoned, though its code has returned:", d.Abandoned)
		}
		began := time.Now()
		w.End()
		if d := time.Since(began); d > 0 {
			t.Error("no step is in flight, and the stop took", d)
		}
	})
}

// A step that returns while its run is unloaded is not shown as abandoned either.
//
// spec: L-14
func TestStepThatReturnsWhileItsRunLeavesIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			perdure.Async(ctx, "a", func(context.Context) (int, error) {
				time.Sleep(time.Second - 5*time.Millisecond)
				return 1, nil
			})
			perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(time.Second - 10*time.Millisecond)
				return 1, nil
			})
			return 0, perdure.Parking(world.ErrOdd)
		})
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			time.Sleep(10 * time.Millisecond)
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if len(d.Abandoned) > 0 {
			t.Error("abandoned, though its code has returned:", d.Abandoned)
		}
		began := time.Now()
		w.End()
		if d := time.Since(began); d > 0 {
			t.Error("no step is in flight, and the stop took", d)
		}
	})
}

// Awaiting a step of a cancelled branch from outside returns its cancellation.
//
// spec: L-11
func TestStepOfACancelledBranchCanBeAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			var f *perdure.Future[int]
			b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				f = perdure.Async(ctx, "a", world.Work("a", 10*time.Hour, nil))
				return f.Await(ctx)
			})
			perdure.Step(ctx, "s", world.Work("s", time.Second, nil))
			b.Cancel(ctx, "no")
			_, err := f.Await(ctx)
			return fmt.Sprint(err), nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, c := context.WithTimeout(context.Background(), 1000*time.Hour)
		defer c()
		out, err := run.Result(ctx)
		if err != nil {
			t.Error(out, err, world.Tail(w.History(run.ID()), 10))
		}
	})
}

// A large input that cannot be read parks its run.
func TestInputThatCannotBeReadParksTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, s string) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", time.Hour, nil))
		})
		h := &world.Hook{}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, strings.Repeat("x", 100_000))
		if err != nil {
			t.Fatal(err)
		}
		h.OnLoad = func(n journal.Number, r store.Range) error {
			if r.Limit == 1 {
				return &journal.CorruptError{Run: n, Seq: r.From, Reason: "rotten"}
			}
			return nil
		}
		w.Crash()
		time.Sleep(1000 * time.Hour)
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if d.Head.Status != journal.Suspended {
			t.Errorf("%v %q %v", d.Head.Status, d.Why, err)
		}
	})
}

// A large result that cannot be read parks its run.
func TestResultThatCannotBeReadParksTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			s, err := perdure.Step(ctx, "big", func(context.Context) (string, error) {
				return strings.Repeat("x", 100_000), nil
			})
			if err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "s", world.Work(s, time.Hour, nil))
		})
		h := &world.Hook{}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.OnLoad = func(n journal.Number, r store.Range) error {
			if r.Limit == 1 && r.From == 2 {
				return &journal.CorruptError{Run: n, Seq: r.From, Reason: "rotten"}
			}
			return nil
		}
		w.Crash()
		time.Sleep(1000 * time.Hour)
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if d.Head.Status != journal.Suspended {
			t.Errorf("%v %q %v", d.Head.Status, d.Why, err)
		}
	})
}

// A producer that hangs in an attempt that was given up does not hold up the next one.
//
// spec: R-16
func TestOnceIsNotHeldUpByAnAttemptThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan bool)
		var produced atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				n, _, _ := perdure.Attempt(ctx)
				return perdure.Once(ctx, "k", func() (int, error) {
					produced.Add(1)
					if n == 1 {
						<-hang
					}
					return n, nil
				})
			}, perdure.Timeout(time.Second))
		})
		w := world.New(t, wf)
		_, out, err := world.Result(w, wf, 0)
		if err != nil {
			t.Error(out, err, "producer called", produced.Load())
		}
		close(hang)
		w.End()
	})
}

// Which errors are retried does not decide which attempt is the last.
//
// spec: L-4
func TestLastAttemptIsToldWithAListOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lasts []bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				_, last, _ := perdure.Attempt(ctx)
				lasts = append(lasts, last)
				return 0, world.ErrOdd
			}, perdure.Retry{Attempts: 3, On: []error{world.ErrOdd}})
		})
		w := world.New(t, wf)
		defer w.End()
		world.Result(w, wf, 0)
		if fmt.Sprint(lasts) != "[false false true]" {
			t.Error(lasts)
		}
	})
}

// An error with a value that cannot be compared is treated as any other error.
//
// spec: B-12
func TestErrorThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				return 0, oddErr{[]int{1}}
			}, perdure.NoRetry)
			if err.Error() != "step s: odd [1]" {
				t.Error("step error is", err)
			}
			return 0, oddErr{[]int{1}}
		})
		w := world.New(t, wf)
		defer w.End()
		run, _ := wf.Start(context.Background(), w.Engine, 0)
		time.Sleep(time.Hour)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if d.Head.Status != journal.Failed {
			t.Error(d.Head.Status, d.Why)
		}
	})
}

// A workflow that returns the last error of a step fails, whatever class that error has.
//
// spec: L-17
func TestStepsRetryAfterFailsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				return 0, perdure.RetryAfter(time.Second, world.ErrOdd)
			})
		})
		w := world.New(t, wf)
		defer w.End()
		run, _ := wf.Start(context.Background(), w.Engine, 0)
		time.Sleep(100 * time.Hour)
		d, _ := w.Engine.Describe(context.Background(), run.ID())
		if d.Head.Status != journal.Failed {
			t.Error(d.Head.Status, d.Why)
		}
	})
}

// Jitter never makes a long delay negative.
func TestJitterNeverMakesADelayNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				calls.Add(1)
				return 0, world.ErrOdd
			},
				perdure.Retry{Attempts: 50, First: math.MaxInt64, Cap: math.MaxInt64, Jitter: 1})
		})
		w := world.New(t, wf)
		defer w.End()
		run, _ := wf.Start(context.Background(), w.Engine, 0)
		time.Sleep(time.Hour)
		if n := calls.Load(); n > 1 {
			t.Errorf("%d attempts with a delay of centuries", n)
		}
		w.Crash()
		time.Sleep(time.Hour)
		if n := calls.Load(); n > 1 {
			t.Errorf("%d attempts with a delay of centuries", n)
		}
		_ = run
	})
}

// The longest possible delay survives a crash.
func TestLongDelayIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				calls.Add(1)
				return 0, world.ErrOdd
			},
				perdure.Retry{Attempts: 50, First: math.MaxInt64, Cap: math.MaxInt64})
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		run, _ := wf.Start(context.Background(), w.Engine, 0)
		time.Sleep(time.Hour)
		n1 := calls.Load()
		w.Crash()
		time.Sleep(time.Hour)
		if n := calls.Load(); n > 1 {
			t.Errorf("%d then %d attempts with a delay of centuries", n1, n)
		}
		_ = run
	})
}

// A slow read of a large result by the engine changes no order.
//
// spec: L-15
func TestSlowReadDoesNotLendTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var orders []string
		effects := map[string]int{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			var found []string
			var fs []*perdure.Future[int]
			for _, n := range []string{"A", "B"} {
				fs = append(fs, perdure.Go(ctx, n, func(ctx context.Context) (int, error) {
					_, err := perdure.Step(ctx, "ask", func(context.Context) (string, error) {
						if n == "A" {
							return strings.Repeat("x", 100_000), nil
						}
						time.Sleep(time.Millisecond)
						return "", nil
					})
					found = append(found, n)
					return 0, err
				}))
			}
			for _, f := range fs {
				f.Await(ctx)
			}
			orders = append(orders, fmt.Sprint(found))
			for _, item := range found {
				if _, err := perdure.Step(ctx, "book", func(context.Context) (string, error) {
					effects[item]++
					return item, nil
				}); err != nil {
					return "", err
				}
				if _, err := perdure.Step(ctx, "pause", func(context.Context) (int, error) {
					time.Sleep(time.Hour)
					return 0, nil
				}); err != nil {
					return "", err
				}
			}
			return fmt.Sprint(found), nil
		})
		h := &world.Hook{}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Kill()
		h.OnLoad = func(n journal.Number, r store.Range) error {
			time.Sleep(200 * time.Millisecond)
			return nil
		}
		w.Begin()
		r, _ := wf.Get(context.Background(), w.Engine, run.ID())
		out, err := r.Result(context.Background())
		time.Sleep(10 * time.Hour)
		if orders[0] != orders[len(orders)-1] || effects["A"] != 1 || effects["B"] != 1 {
			t.Errorf("%s %v: live %v, replayed %v; booked %v; d %v", out, err, orders[0],
				orders[1:],
				effects, w.Seen("turn lent"))
		}
	})
}

// A future belongs to the run that made it.
func TestFutureOfAnotherRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *perdure.Future[int]
		a := perdure.Define("a", func(ctx context.Context, _ int) (int, error) {
			f = perdure.Async(ctx, "x", world.Work("x", time.Hour, nil))
			return f.Await(ctx)
		})
		b := perdure.Define("b", func(ctx context.Context, _ int) (int, error) {
			return f.Await(ctx)
		})
		w := world.New(t, a, b)
		defer w.End()
		world.Start(w, a, 0)
		synctest.Wait()
		run, _ := b.Start(context.Background(), w.Engine, 0)
		ctx, c := context.WithTimeout(context.Background(), 100*time.Hour)
		defer c()
		if _, err := run.Result(ctx); err == nil || strings.Contains(err.Error(), "goes on") {
			d, _ := w.Engine.Describe(context.Background(), run.ID())
			t.Error("a future of another run:", err, d.Head.Status, world.Tail(w.History(run.ID()),
				3))
		}
	})
}

// An oddErr is an error that cannot always be compared.
type oddErr struct{ v any }

func (o oddErr) Error() string { return fmt.Sprint("odd ", o.v) }

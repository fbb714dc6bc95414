package replay

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// Branches that hand items on through channels block one after the other.
func TestTurnIsLentByEachHolderThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			in := make(chan int)
			first := in
			var last *perdure.Future[int]
			for range 4 {
				from, to := in, make(chan int)
				perdure.Go(ctx, "stage", func(ctx context.Context) (int, error) {
					defer close(to)
					for n := range from {
						m, err := perdure.Step(ctx, "add", func(context.Context) (int, error) {
							return n + 1, nil
						})
						if err != nil {
							return 0, err
						}
						to <- m
					}
					return 0, nil
				})
				in = to
			}
			out := in
			last = perdure.Go(ctx, "sum", func(ctx context.Context) (int, error) {
				sum := 0
				for n := range out {
					sum += n
				}
				return sum, nil
			})
			for n := range 3 {
				first <- n
			}
			close(first)
			return last.Await(ctx)
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if out, err := run.Result(ctx); out != 3+3*4 || err != nil {
			t.Fatal(out, err)
		}
		if n := w.Seen(observe.TurnLent); len(n) != 1 {
			t.Errorf("told: %+v", n)
		}
		w.History(run.ID())
	})
}

// A mutex around a step makes every branch but one block. Virtual time stands still
// while one waits for a mutex, so this one takes its time.
func TestTurnIsLentByBranchesThatWaitForAMutex(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (sum int, err error) {
		var mu sync.Mutex
		var bs []*perdure.Future[int]
		for i := range 3 {
			bs = append(bs, perdure.Go(ctx, fmt.Sprint("b", i), func(ctx context.Context) (int,
				error) {
				mu.Lock()
				defer mu.Unlock()
				return perdure.Step(ctx, "s", world.Work("s", 10*time.Millisecond, nil))
			}))
		}
		for _, b := range bs {
			if _, err := b.Await(ctx); err != nil {
				return sum, err
			}
			sum++
		}
		return sum, nil
	})
	w := world.New(t, wf)
	defer w.End()
	run, err := wf.Start(context.Background(), w.Engine, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := run.Result(ctx); out != 3 || err != nil {
		t.Fatal(out, err)
	}
}

// A command to cancel a timer waits for replayed code that blocks outside the engine before it has
// reached that timer.
//
// spec: F-22
func TestATimerIsCancelledThatBlockedCodeHasNotComeTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var blocks chan struct{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			perdure.Go(ctx, "other", func(ctx context.Context) (int, error) {
				return 0, perdure.Sleep(ctx, 10*time.Hour)
			})
			if blocks != nil {
				<-blocks
			}
			in, err := perdure.Scope(ctx, "in")
			if err != nil {
				return "", err
			}
			_, err = perdure.Timer(in, "limit", time.Hour).Await(in)
			return string(journal.CodeOf(err)), nil
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		w.Kill()
		client, err := perdure.NewClient(t.Context(), w.DB)
		if err == nil {
			err = client.CancelTimer(t.Context(), "x", "in/limit", "early")
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		blocks = make(chan struct{})
		w.Begin()
		time.Sleep(10 * time.Minute)
		close(blocks)
		if out, err := world.OutcomeOf(w, wf, "x"); out != string(perdure.CodeCancelled) ||
			err != nil ||
			time.Since(began) > 15*time.Minute {
			t.Errorf("it gives %q, %v after %v", out, err, time.Since(began))
		}
		if n := w.Seen(observe.TurnLent); len(n) != 1 {
			t.Errorf("told: %+v", n)
		}
		if d := w.Describe("x"); len(d.Unread) > 0 {
			t.Errorf("unread: %v", d.Unread)
		}
	})
}

// A client's call in workflow code is not a durable operation: it blocks.
func TestTurnIsLentWhereWorkflowCodeWaitsForAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world.World
		go1 := perdure.NewSignal[int]("go")
		other := perdure.Define("other", func(ctx context.Context, _ int) (int, error) {
			return go1.Wait(ctx)
		})
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			run, err := other.Start(context.Background(), w.Current(), 0, perdure.ID("other"))
			if err != nil {
				return 0, err
			}
			perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "send", func(ctx context.Context) (int, error) {
					_, err := go1.Send(ctx, w.Current(), "other", 7)
					return 0, err
				})
			})
			return run.Result(context.Background())
		})
		w = world.New(t, wf, other)
		defer w.End()
		if _, out, err := world.Result(w, wf, 0); out != 7 || err != nil {
			t.Error(out, err)
		}
	})
}

// A holder that computes, for however long, keeps its turn.
func TestTurnOfAHolderThatComputesIsKept(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		var order []string
		var bs []*perdure.Future[int]
		for i := range 3 {
			bs = append(bs, perdure.Go(ctx, fmt.Sprint("b", i), func(ctx context.Context) (int,
				error) {
				for began := time.Now(); i == 0 && time.Since(began) < 400*time.Millisecond; {
				}
				order = append(order, fmt.Sprint(i))
				return i, nil
			}))
		}
		for _, b := range bs {
			if _, err := b.Await(ctx); err != nil {
				return "", err
			}
		}
		return strings.Join(order, ""), nil
	})
	w := world.New(t, wf)
	defer w.End()
	run, err := wf.Start(context.Background(), w.Engine, 0)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Result(context.Background()); out != "012" || err != nil {
		t.Error(out, err)
	}
	if n := w.Seen(observe.TurnLent); len(n) != 0 {
		t.Errorf("told: %+v", n)
	}
}

// On a machine that is busy a goroutine may wait for long until it goes on.
func TestOrderHoldsOnABusyMachine(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 25
	}
	var wrong atomic.Int64
	open := perdure.NewSignal[int]("open")
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		var order []int
		var bs []*perdure.Future[int]
		for i := range 4 {
			bs = append(bs, perdure.Go(ctx, fmt.Sprint("b", i), func(ctx context.Context) (int,
				error) {
				if _, err := perdure.Step(ctx, "s", func(context.Context) (int, error) {
					return 0, nil
				}); err != nil {
					return 0, err
				}
				order = append(order, i)
				return 0, nil
			}))
		}
		for _, b := range bs {
			if _, err := b.Await(ctx); err != nil {
				return 0, err
			}
		}
		recorded, err := perdure.Step(ctx, "order", func(context.Context) ([]int, error) {
			return slices.Clone(order), nil
		})
		if err == nil && !slices.Equal(recorded, order) {
			wrong.Add(1)
		}
		if err != nil {
			return 0, err
		}
		return open.Wait(ctx)
	})
	w := world.New(t, wf)
	defer func() { w.End() }()
	var all []*perdure.Run[int]
	for n := range runs {
		run, err := wf.Start(context.Background(), w.Engine, n, perdure.ID(fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, run)
	}
	var burners sync.WaitGroup
	defer burners.Wait()
	var stop atomic.Bool
	defer stop.Store(true)
	for range 8 * runtime.GOMAXPROCS(0) {
		burners.Go(func() {
			for !stop.Load() {
			}
		})
	}
	w.Crash()
	for n := range runs {
		if _, err := open.Send(context.Background(), w.Engine, fmt.Sprint(n), n); err != nil {
			t.Fatal(err)
		}
	}
	for n := range all {
		run, err := wf.Get(context.Background(), w.Engine, fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != n || err != nil {
			t.Fatal(out, err)
		}
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d replayed runs saw another order", n, runs)
	}
	if n := w.Seen(observe.TurnLent); len(n) != 0 {
		t.Errorf("%d turns were lent, first: %+v", len(n), n[0])
	}
}

// A workflow that blocks outside the engine keeps its own branches from going
// on only for a while.
func TestTurnIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			var wg sync.WaitGroup
			for range 3 {
				wg.Add(1)
				perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
					defer wg.Done()
					return perdure.Step(ctx, "s", world.Work("s", time.Second, nil))
				})
			}
			wg.Wait() // outside the engine
			return perdure.Step(ctx, "end", world.Work("end", 0, nil))
		})
		w := world.New(t, wf)
		defer w.End()
		run, _, err := world.Result(w, wf, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.Seen(observe.TurnLent); len(n) != 1 ||
			!strings.Contains(n[0].Reason, "after b#3") {
			t.Errorf("told: %+v", n)
		}
		w.History(run.ID())
	})
}

package patterns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// slow returns a saga whose only step takes an hour.
func slow(name string, opts ...perdure.WorkflowOption) *saga.Saga[int] {
	s := saga.New[int](name, opts...)
	saga.Add(s, "nap", func(ctx context.Context, _ int) (int, error) {
		return 0, nap(ctx, time.Hour)
	})
	return s
}

func nap(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spec: P-13, L-19
func TestTheEngineHasTheTimeoutsOfSagasAndTCCs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usual, own := slow("usual"), slow("own", perdure.Timeout(20*time.Minute))
		transfer := tcc.New[int]("transfer")
		tcc.Add(transfer, "a", func(context.Context, int) (int, error) { return 0, nil }).
			Confirm(func(context.Context, int, int) error { return nil }).
			Cancel(func(context.Context, int, int) error { return nil })
		code := perdure.Define("code", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		w := world.With(t, perdure.Options{
			Defaults: definition.Defaults{SagaTimeout: 10 * time.Minute, TCCTimeout: -1},
		}, usual, own, transfer, code)
		defer w.End()
		have := map[string]time.Duration{}
		for _, r := range w.Engine.Workflows() {
			have[r.Name] = r.Timeout
		}
		if want := "map[code:0s own:20m0s transfer:0s usual:10m0s]"; fmt.Sprint(have) != want {
			t.Errorf("the timeouts are %v, want %s", have, want)
		}
		for _, s := range []*saga.Saga[int]{usual, own} {
			world.Must[*perdure.Run[json.RawMessage]](t)(w.Engine.Start(t.Context(), s.Name(),
				[]byte("1"), perdure.ID(s.Name())))
		}
		world.Must[*perdure.Run[int]](t)(code.Start(t.Context(), w.Engine, 1, perdure.ID("code")))
		for _, c := range []struct {
			after time.Duration
			over  string
		}{{9 * time.Minute, ""}, {2 * time.Minute, "usual"}, {10 * time.Minute, "usual own"}} {
			time.Sleep(c.after)
			var over []string
			for _, id := range []string{"usual", "own", "code"} {
				if w.Status(id) == journal.TimedOut {
					over = append(over, id)
				}
			}
			if strings.Join(over, " ") != c.over {
				t.Errorf("%v have timed out, want %q", over, c.over)
			}
		}
	})
}

// A rollback is in flight when its engine dies. The next engine has other defaults, and ends the
// rollback as it has begun: one step after the other, with the attempts that the handler asks for.
//
// spec: P-13, F-30, F-31
func TestARollbackEndsByThePolicyThatItHasBegunWith(t *testing.T) {
	first := definition.Defaults{OnUndoError: "robust"}
	others := []definition.Defaults{
		{}, {Compensation: "BEST_EFFORT_PARALLEL", OnUndoError: "fail-fast"},
		{Compensation: "GROUPED_PARALLEL"}, {Compensation: "CIRCUIT_BREAKER", OnUndoError: "retry"},
	}
	for _, second := range others {
		for after := 30 * time.Second; after < 8*time.Minute; after += 30 * time.Second {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var undone []string
				tries, now := 0, 0
				trip := saga.New[int]("trip", perdure.Timeout(time.Hour))
				for _, id := range []string{"a", "b", "c", "d"} {
					saga.Add(trip, id, func(ctx context.Context, _ int) (int, error) {
						return 0, nil
					}).Undo(func(ctx context.Context, _, _ int) error {
						mu.Lock()
						if now++; now > 1 {
							t.Errorf("%v after %v: %s begins beside another one", second, after, id)
						}
						mu.Unlock()
						err := nap(ctx, time.Minute)
						mu.Lock()
						defer mu.Unlock()
						if now--; err != nil {
							return err
						}
						if id == "c" {
							if tries++; tries < 4 {
								return errors.New("busy")
							}
						}
						undone = append(undone, id)
						return nil
					})
				}
				saga.Add(trip, "last", func(context.Context, int) (int, error) {
					time.Sleep(time.Second)
					return 0, errors.New("sold out")
				})
				w := world.With(t, perdure.Options{Defaults: first}, trip)
				world.Must[*perdure.Run[json.RawMessage]](t)(w.Engine.Start(t.Context(), "trip",
					[]byte("1"), perdure.ID("trip")))
				time.Sleep(after)
				w.Kill()
				synctest.Wait() // the compensation that went on has ended too
				w.Options.Defaults = second
				w.Begin()
				time.Sleep(30 * time.Minute)
				if got := w.Status("trip"); got != journal.Failed || !slices.Contains(undone, "c") {
					t.Errorf("%v after %v: %v, undone %v:\n%s", second, after, got, undone,
						strings.Join(world.Tail(w.History("trip"), 20), "\n"))
				}
				w.End()
			})
		}
	}
}

// spec: P-13
func TestWrongDefaultsAreRefused(t *testing.T) {
	for _, d := range []definition.Defaults{{Compensation: "ODD"}, {OnUndoError: "odd"}} {
		_, err := perdure.New(memory.New(), perdure.Options{Defaults: d})
		world.CodeIs(t, err, journal.CodeInvalid)
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), "allowed are") {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, p := range []saga.Policy{
		saga.StrictSequential, saga.GroupedParallel, saga.RetryWithBackoff, saga.CircuitBreaker,
		saga.BestEffortParallel,
	} {
		world.NoError(t, definition.Defaults{Compensation: string(p)}.Check())
	}
	for _, h := range []string{"default", "log-and-continue", "fail-fast", "retry", "robust"} {
		_, err := saga.NamedHandler(h)
		world.NoError(t, errors.Join(err, definition.Defaults{OnUndoError: h}.Check()))
	}
}

// With one crash allowed, what was in the middle of something is parked, and what waited goes on.
//
// spec: P-13, P-5
func TestRecoveryIsSwitchedOff(t *testing.T) {
	for crashes, want := range map[int]string{
		0: "COMPLETED COMPLETED COMPLETED", 1: "SUSPENDED SUSPENDED COMPLETED",
	} {
		synctest.Test(t, func(t *testing.T) {
			works := perdure.Define("works", func(ctx context.Context, n int) (int, error) {
				for i := range n {
					_, err := perdure.Step(ctx, fmt.Sprint("work-", i),
						func(context.Context) (int, error) {
							time.Sleep(time.Minute)
							return 0, nil
						})
					if err != nil {
						return 0, err
					}
				}
				return 0, nil
			})
			waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
				return 0, perdure.Sleep(ctx, 10*time.Minute)
			})
			w := world.With(t, perdure.Options{MaxCrashes: crashes}, works, waits)
			defer w.End()
			for id, n := range map[string]int{"first": 1, "second": 2} {
				world.Must[*perdure.Run[int]](t)(works.Start(t.Context(), w.Engine, n,
					perdure.ID(id)))
			}
			world.Must[*perdure.Run[int]](t)(waits.Start(t.Context(), w.Engine, 1,
				perdure.ID("waits")))
			time.Sleep(90 * time.Second)
			world.Must[*perdure.Run[int]](t)(works.Start(t.Context(), w.Engine, 1,
				perdure.ID("third")))
			time.Sleep(time.Second)
			w.Crash()
			time.Sleep(time.Hour)
			got := fmt.Sprint(w.Status("second"), w.Status("third"), w.Status("waits"))
			if got = strings.Join(strings.Fields(got), " "); got != want {
				t.Errorf("%d crashes: %s, want %s", crashes, got, want)
			}
			if crashes == 1 {
				world.NoError(t, w.Engine.Resume(t.Context(), "second"))
				time.Sleep(time.Hour)
				if got := w.Status("second"); got != journal.Completed {
					t.Errorf("after a resume it is %v", got)
				}
			}
		})
	}
}

// An engine that stops in order has not crashed: what it was in the middle of goes on.
//
// spec: P-13, P-5
func TestAStopIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "work", func(ctx context.Context) (int, error) {
				return 0, nap(ctx, time.Hour)
			})
		})
		w := world.With(t, perdure.Options{MaxCrashes: 1}, wf)
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("w")))
		time.Sleep(time.Minute)
		w.End()
		w.Begin()
		defer w.End()
		time.Sleep(2 * time.Hour)
		if got := w.Status("w"); got != journal.Completed {
			t.Errorf("it is %v", got)
		}
	})
}

// spec: P-13, R-27
func TestTheEngineHasTheDedupWindow(t *testing.T) {
	for window, isNew := range map[time.Duration]bool{0: false, time.Hour: true, -1: true} {
		synctest.Test(t, func(t *testing.T) {
			wf := perdure.Define("w", func(context.Context, int) (int, error) { return 0, nil })
			w := world.With(t, perdure.Options{Dedup: window}, wf)
			defer w.End()
			begin := func(opts ...perdure.StartOption) bool {
				run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1,
					append(opts, perdure.ID("x"))...))
				_, err := run.Result(t.Context())
				world.NoError(t, err)
				return run.New()
			}
			begin()
			time.Sleep(2 * time.Hour)
			if got := begin(); got != isNew {
				t.Errorf("a window of %v: new is %t, want %t", window, got, isNew)
			}
			if begin(perdure.Dedup(24 * time.Hour)) {
				t.Errorf("a window of %v goes before that of the start", window)
			}
		})
	}
}

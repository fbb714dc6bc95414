package operators

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// A run that is suspended while steps are in flight is SUSPENDED at once. The steps end and are not
// repeated, and nothing new begins. What came due meanwhile takes effect when the run is resumed,
// also while steps are still in flight, and after a restart.
//
// spec: F-21
func TestStepsInFlightEndWhenARunIsSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		resume time.Duration // after the suspension, which is at 10 s
		crash  bool
		took   time.Duration
	}{
		"resumed when they have ended":     {time.Hour, false, time.Hour + 10*time.Second},
		"resumed after a restart":          {time.Hour, true, time.Hour + 10*time.Second},
		"resumed while they are in flight": {5 * time.Second, false, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := map[string]int{}
				var mu sync.Mutex
				step := func(name string, d time.Duration) func(context.Context) (string, error) {
					return func(ctx context.Context) (string, error) {
						mu.Lock()
						calls[name]++
						mu.Unlock()
						world.Pause(ctx, d)
						return name, ctx.Err()
					}
				}
				paid := perdure.NewSignal[string]("paid")
				wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
					long := perdure.Async(ctx, "long", step("long", 20*time.Second))
					short := perdure.Async(ctx, "short", step("short", 12*time.Second))
					sleep := perdure.Go(ctx, "sleep", func(ctx context.Context) (string, error) {
						return "slept", perdure.Sleep(ctx, 11*time.Second)
					})
					signal := paid.Future(ctx)
					var out []string
					for f, err := range perdure.AsCompleted(ctx, long, short, sleep, signal) {
						if err != nil {
							return nil, err
						}
						v, err := f.Await(ctx)
						if err != nil {
							return nil, err
						}
						out = append(out, v)
					}
					_, err := perdure.Step(ctx, "last", step("last", 10*time.Second))
					return out, err
				})
				w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
				defer func() { w.End() }()
				began := time.Now()
				world.StartAndSettle(w, wf, 0, perdure.ID("x"))
				time.Sleep(10 * time.Second)
				if err := w.Engine.Suspend(t.Context(), "x", "let me look"); err != nil {
					t.Fatal(err)
				}
				if _, err := paid.Send(t.Context(), w.Engine, "x", "paid"); err != nil {
					t.Fatal(err)
				}
				isSuspended(t, w)
				if err := w.Engine.Suspend(t.Context(), "x", "again"); err != nil {
					t.Error(err)
				}
				time.Sleep(c.resume)
				isSuspended(t, w)
				if c.crash {
					w.Crash()
					time.Sleep(0)
				}
				if calls["last"] != 0 {
					t.Error("code went on while the run was suspended")
				}
				if err := w.Engine.Resume(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
				world.CodeIs(t, w.Engine.Resume(t.Context(), "x"), journal.CodeWrongState)
				out, err := world.OutcomeOf(w, wf, "x")
				if slices.Sort(out); err != nil ||
					!slices.Equal(out, []string{"long", "paid", "short", "slept"}) {
					t.Errorf("%v, %v", out, err)
				}
				if took := time.Since(began).Round(time.Second); took != c.took+10*time.Second &&
					took != c.took {
					t.Errorf("it took %v", took)
				}
				if got := fmt.Sprint(calls); got != "map[last:1 long:1 short:1]" {
					t.Errorf("the steps were called %v", got)
				}
			})
		})
	}
}

func isSuspended(t *testing.T, w *world.World) {
	t.Helper()
	d, err := w.Engine.Describe(t.Context(), "x")
	if err != nil || d.Head.Status != journal.Suspended || d.State.Status != journal.Suspended {
		t.Errorf("it is %v, and by its journal %v; %v", d.Head.Status, d.State.Status, err)
	}
}

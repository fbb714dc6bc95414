package steps

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// spec: R-27
func TestGetOrStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
		slow := func(ctx context.Context, d time.Duration) (time.Duration, error) {
			_, err := perdure.Step(ctx, "s", world.Work("s", d, nil))
			return d, err
		}
		wf, other := perdure.Define("w", slow), perdure.Define("other", code)
		w := world.New(t, wf, other)
		defer w.End()
		ctx := context.Background()
		start := func(d time.Duration, opts ...perdure.StartOption) *perdure.Run[time.Duration] {
			t.Helper()
			run, err := wf.Start(ctx, w.Engine, d, opts...)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		var first []*perdure.Run[time.Duration]
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 50 { // at the same time
			wg.Go(func() {
				run := start(time.Hour, perdure.ID("x"))
				mu.Lock()
				first = append(first, run)
				mu.Unlock()
			})
		}
		wg.Wait()
		fresh := 0
		for _, run := range first {
			if run.RunID() != first[0].RunID() {
				t.Error("two runs for one ID")
			}
			if run.New() {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d of them are new", fresh)
		}
		_, err := other.Start(ctx, w.Engine, 0, perdure.ID("x"))
		world.CodeIs(t, err, journal.CodeConflict)
		if again := start(5, perdure.ID("x")); again.New() {
			t.Error("a second run while one is open")
		} else if d, err := again.Result(ctx); d != time.Hour || err != nil {
			t.Error("the first run's input is", d, err)
		}
		if again := start(5, perdure.ID("x")); again.New() {
			t.Error("a second run within the window")
		}
		if now := start(7, perdure.ID("x"), perdure.Dedup(0)); !now.New() {
			t.Error("a window of 0 is not open runs only")
		} else if _, err := now.Result(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(24*time.Hour - time.Minute)
		if start(5, perdure.ID("x")).New() {
			t.Error("a second run a minute before the window ends")
		}
		time.Sleep(2 * time.Minute)
		if !start(5, perdure.ID("x")).New() {
			t.Error("no new run after the window")
		}
		if a, b := start(1), start(1); !a.New() || !b.New() || a.ID() == b.ID() {
			t.Error("starts without an ID are one")
		}
		_, err = wf.Start(ctx, w.Engine, 1, perdure.Dedup(-1))
		world.CodeIs(t, err, journal.CodeInvalid)
	})
}

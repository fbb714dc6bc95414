package steps

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// With one processor, waiting runs share commits, as with several processors.
//
// spec: P-1
func TestGroupsFillWithOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const runs, steps = 200, 10
	synctest.Test(t, func(t *testing.T) {
		var commits, rows atomic.Int64
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			commits.Add(1)
			for i := range g.Changes {
				rows.Add(int64(len(g.Changes[i].Entries)))
			}
			return do()
		}}
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for i := range steps {
				if err := world.PlainStep(ctx, fmt.Sprint("s", i)); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		w := world.Hooked(t, h, perdure.Options{}, def)
		defer func() { w.End() }()
		done := make(chan error, runs)
		for range runs {
			go func() {
				run, err := def.Start(context.Background(), w.Engine, 0)
				if err == nil {
					_, err = run.Result(context.Background())
				}
				done <- err
			}()
		}
		for range runs {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d rows in %d commits", rows.Load(), commits.Load())
		if rows.Load() < 20*commits.Load() {
			t.Errorf("%d rows in %d commits, want 20 in each", rows.Load(), commits.Load())
		}
	})
}

package steps

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// counted returns a world whose commits take a millisecond and are counted.
func counted(
	t *testing.T, opts perdure.Options, wfs ...perdure.Definition,
) (*world.World, *atomic.Int64) {
	var commits atomic.Int64
	w := world.Hooked(t, &world.Hook{OnCommit: func(_ *store.Group, do func() error) error {
		time.Sleep(time.Millisecond)
		commits.Add(1)
		return do()
	}}, opts, wfs...)
	return w, &commits
}

// layered runs layers of parallel steps, each layer after the layer before it.
func layered(layers, width int, step func(context.Context) (int,
	error)) *perdure.Workflow[int, int] {
	return perdure.Define("layered", func(ctx context.Context, _ int) (int, error) {
		for l := range layers {
			var all []*perdure.Future[int]
			for s := range width {
				all = append(all, perdure.Async(ctx, fmt.Sprintf("s-%d-%d", l, s), step))
			}
			for _, f := range all {
				if _, err := f.Await(ctx); err != nil {
					return 0, err
				}
			}
		}
		return 0, nil
	})
}

// The results of steps that have begun together, and that end together, are in one commit. This
// is tested for at least one of several runs, since a timer may fire in between on a busy
// machine.
func TestResultsThatComeTogetherShareACommit(t *testing.T) {
	fewest := int64(math.MaxInt64)
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			wf := layered(10, 10, func(context.Context) (int, error) { return 1, nil })
			w, commits := counted(t, perdure.Options{}, wf)
			defer w.End()
			run, err := wf.Start(t.Context(), w.Engine, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
			fewest = min(fewest, commits.Load())
		})
	}
	if fewest > 12 {
		t.Errorf("%d commits: a start, the first 10 begin, 10 times the results of a layer", fewest)
	}
}

// A result that might share a commit with later ones is durable soon, even if they take long, or
// come one after the other without an end.
func TestAResultDoesNotWaitForOthers(t *testing.T) {
	for name, pace := range map[string]time.Duration{
		"one that takes long": time.Hour,
		"an endless row":      700 * time.Microsecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				wf := layered(1, 100, func(ctx context.Context) (int, error) {
					select {
					case <-time.After(time.Duration(n.Add(1)-1) * pace):
					case <-ctx.Done():
					}
					return 1, nil
				})
				w, _ := counted(t, perdure.Options{Drain: -1}, wf)
				defer w.End()
				run, err := wf.Start(t.Context(), w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
				h, err := w.Engine.History(t.Context(), run.RunID(), 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(h, func(e journal.Entry) bool {
					return e.Kind == journal.StepCompleted
				}) {
					t.Error("no result is durable after 10 ms")
				}
			})
		})
	}
}

// No step begins, and the start of a step is not visible, before the records before it are
// durable.
func TestCommitBeforeConsequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world.World
		durable := func(id string, kind journal.Kind, name string) {
			t.Helper()
			entries, err := w.Engine.History(context.Background(), id, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Kind == kind && e.Op.Name == name {
					return
				}
			}
			t.Errorf("%v %s is not durable", kind, name)
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for i := range 3 {
				_, err := perdure.Step(ctx, fmt.Sprint("s", i), func(ctx context.Context) (int,
					error) {
					durable("x", journal.RunStarted, "")
					if i > 0 {
						durable("x", journal.StepCompleted, fmt.Sprint("s", i-1))
					}
					return 0, nil
				})
				if err != nil {
					return 0, err
				}
			}
			return perdure.Async(ctx, "a", func(ctx context.Context) (int, error) {
				durable("x", journal.StepStarted, "a")
				if _, err := perdure.Once(ctx, "k", func() (int, error) {
					return 1, nil
				}); err != nil {
					return 0, err
				}
				durable("x", journal.CheckpointSaved, "a")
				return 0, nil
			}).Await(ctx)
		})
		w, _ = counted(t, perdure.Options{}, wf)
		defer w.End()
		_, _, err := world.Result(w, wf, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		durable("x", journal.RunCompleted, "")
	})
}

package stream_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// speaking returns a function that puts its name in, and fails the first time after half of it.
func speaking(name string) func(context.Context, int) (int, error) {
	var calls atomic.Int64
	return func(ctx context.Context, n int) (int, error) {
		if calls.Add(1) == 1 {
			if err := say(ctx, name+"-half"); err != nil {
				return 0, err
			}
			return 0, errDown
		}
		return n, say(ctx, name)
	}
}

// spec: B-11
func TestTheStepsOfAllPatternsWriteStreams(t *testing.T) {
	saying := func(word string) func(context.Context, int, int) error {
		return func(ctx context.Context, _, _ int) error { return say(ctx, word) }
	}
	graph := dag.New[int]("graph").Mode(dag.Async)
	dag.Add(graph, "b", speaking("b")).Retry(hurried).
		After(dag.Add(graph, "a", speaking("a")).Retry(hurried))
	undone := saga.New[int]("saga")
	saga.Add(undone, "b", func(context.Context, int) (int, error) {
		return 0, perdure.Permanent(errDown)
	}).After(saga.Add(undone, "a", speaking("a")).Retry(hurried).Undo(saying("undo")))
	held := tcc.New[int]("tcc")
	tcc.Add(held, "a", speaking("try")).Retry(hurried).Confirm(saying("confirm")).
		Cancel(saying("no"))
	visits := machine.New[int]("machine", "a")
	var calls atomic.Int64
	machine.Add(visits, "a", func(ctx context.Context, n int) (machine.Action, error) {
		call := calls.Add(1)
		if err := say(ctx, fmt.Sprint("call", call)); err != nil {
			return machine.Action{}, err
		}
		if call < 3 {
			return machine.Sleep(time.Minute), nil
		}
		return machine.Complete(n), nil
	})
	for want, def := range map[string]perdure.Definition{
		"a b.": graph, "a undo.": undone, "try confirm.": held, "call1 call2 call3.": visits,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, def)
			_, err := w.Engine.Start(t.Context(), w.Engine.Workflows()[0].Name, []byte("1"),
				perdure.ID("a"))
			world.NoError(t, err)
			world.Pause(t.Context(), time.Hour)
			same(t, "what counts", read(t, w.Engine, "a"), want)
			w.End()
		})
	}
}

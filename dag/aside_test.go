package dag_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/perduretest"
)

// held returns a callback that keeps a graph busy for a while when a step has ended.
func held(step string, d time.Duration, async bool) pattern.Callback {
	return pattern.Callback{Steps: []string{step}, Async: async, Step: func(ctx context.Context,
		_ string) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return nil
	}}
}

// An async step that ends while the graph waits for a callback has ended in the graph too: its
// callback is called, its result is the output, and it is undone, in the order of ends.
//
// spec: F-19, F-20
func TestAnAsyncStepThatEndsDuringACallbackCounts(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 7, perdure.Sleep(ctx, 30*time.Minute)
	})
	var d diary
	build := func(async, fails bool) *dag.Graph[int] {
		g := dag.New[int]("g", perdure.NoRetry).On(held("a", time.Hour, async))
		g.On(pattern.Callback{Steps: []string{"x", "kid"},
			Step: func(_ context.Context, step string) error {
				d.note("told of %s", step)
				return nil
			}})
		x := dag.Add(g, "x", lasts(40*time.Minute)).Async().Undo(d.undoes("undo x"))
		dag.AddChild(g, "kid", child, func(none) int { return 1 }).Async().
			Undo(func(_ context.Context, _ none, r dag.ChildResult[int]) error {
				d.note("undo kid %d", r.Output)
				return nil
			})
		dag.Add(g, "a", lasts(time.Minute)).Undo(d.undoes("undo a"))
		if fails {
			dag.Add(g, "b", does(0, errDown))
		}
		return g.Output(x)
	}
	for _, async := range []bool{false, true} {
		d.lines = nil
		g := build(async, false)
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, g.Workflow, 1)
			run.Returns(json.RawMessage(`"done"`))
			wantSteps(env, reportOf(env, run.ID()), "a DONE, kid DONE, x DONE")
			d.want(env, "told of kid", "told of x")
		}, g, child)
	}
	d.lines = nil
	g := build(false, true)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		_, _ = run.Result()
		d.want(env, "told of kid", "told of x", "undo x", "undo kid 7", "undo a")
	}, g, child)
}

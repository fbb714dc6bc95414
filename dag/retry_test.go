package dag_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
)

// A graph that is retried goes on from the steps that have failed. One that nothing was
// undone of has the keys that it had: what a failed attempt may have done is not done
// twice. What was undone is done again, under new keys.
//
// spec: P-4, F-20
func TestAGraphIsRetriedFromTheFailedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		undoes        bool
		failed, again string
	}{
		"nothing is undone": {false, "a 1, b 1, wait 1", "a 1, b 1, c 1, d 1, e 1, wait 1"},
		"a is undone":       {true, "a 1, b 1, undo a 1, wait 1", "a 2, b 1, c 1, d 1, e 1, undo a 1, wait 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var l patterntest.Ledger
			did := func(what string) func(context.Context, none) (string, error) {
				return func(ctx context.Context, _ none) (string, error) { return what, l.Book(ctx, what) }
			}
			g := dag.New[int]("g", perdure.NoRetry)
			a := dag.Add(g, "a", did("a"))
			if c.undoes {
				a.Undo(func(ctx context.Context, _ none, _ string) error { return l.Book(ctx, "undo a") })
			}
			b := dag.Add(g, "b", did("b")).After(a)
			wait := dag.Add(g, "wait", did("wait")).After(a).WaitTimer("t", time.Hour)
			bad := dag.Add(g, "c", did("c")).After(a)
			worse := dag.Add(g, "d", did("d")).After(a)
			dag.Add(g, "e", did("e")).After(b, wait, bad, worse)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset("c", "d")
				_, _ = perduretest.Start(env, g.Workflow, 7, perdure.ID("x")).Result()
				if got := l.String(); got != c.failed {
					env.Errorf("took effect: %s, want %s", got, c.failed)
				}
				l.Break()
				r := patterntest.Retry(env, patterntest.Letters(env, 2)[0])
				if r.Status != perdure.StatusCompleted {
					env.Errorf("retried, it is %v: %v", r.Status, r.Err)
				}
				if got := l.String(); got != c.again {
					env.Errorf("retried, took effect: %s, want %s", got, c.again)
				}
				patterntest.Letters(env, 0)
				return nil
			}, g)
		})
	}
}

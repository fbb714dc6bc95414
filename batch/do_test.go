package batch

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// The batch has died after the cancel, and cancels again while the run undoes what it has done. For
// another batch the run is to be skipped.
//
// spec: B-8, R-40
func TestACancelWithCompensationThatIsRepeatedCountsAsDone(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	g := dag.New[int]("g").Mode(dag.Async)
	a := dag.Add(g, "a", func(context.Context, int) (int, error) { return 7, nil }).
		Undo(func(context.Context, int, int) error {
			time.Sleep(time.Minute)
			return nil
		})
	dag.AddChild(g, "kid", child, func(int) int { return 1 }).After(a)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 0, perdure.ID("g-0"))
		env.Sleep(time.Second)
		for i, want := range []kind{done, done, skipped} {
			s := &state{ID: []string{"b1", "b1", "b2"}[i], Spec: Spec{
				Order: admin.Order{Action: journal.ActionCancel, Compensate: true},
			}}
			d := doer{
				engine: env.Engine(), admin: admin.New(env.Engine()), order: s.order(),
				isList: true, mark: s.mark(),
			}
			if got := d.one(env.Context(), string(run.RunID())); got.kind != want {
				env.Errorf("%d: %v %v", i, got.kind, got.err)
			}
			env.Sleep(time.Second)
		}
		env.Sleep(time.Hour)
		run.Is(journal.Cancelled)
	}, g, child)
}

package dag_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A compensation that hangs fails after five minutes if its step has no timeout.
//
// spec: F-29
func TestACompensationThatHangsFails(t *testing.T) {
	g := dag.New[int]("g", perdure.NoRetry)
	a := dag.Add(g, "a", does(0, nil)).Undo(func(ctx context.Context, _ none, _ int) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	dag.Add(g, "b", does(0, errDown)).After(a)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(4 * time.Minute)
		run.Is(journal.Compensating)
		env.Sleep(2 * time.Minute)
		run.Is(journal.Failed)
		wantSteps(env, reportOf(env, run.ID()), "a COMPENSATION_FAILED, b FAILED")
	}, g)
}

// spec: F-20, F-21
func TestNeitherACancelNorATimeoutStopsACompensation(t *testing.T) {
	var d diary
	g := dag.New[int]("g", perdure.Timeout(90*time.Minute))
	slowly := func(line string) func(context.Context, none, string) error {
		return func(ctx context.Context, _ none, _ string) error {
			select {
			case <-time.After(time.Hour):
				d.note("%s", line)
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}
	}
	a := dag.Add(g, "a", d.notes("a")).Timeout(2 * time.Hour).Undo(slowly("undo a"))
	b := dag.Add(g, "b", d.notes("b")).Timeout(2 * time.Hour).Undo(slowly("undo b")).After(a)
	dag.Add(g, "c", does(0, errDown)).Retry(perdure.NoRetry).After(b)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(30 * time.Minute)
		run.Is(journal.Compensating)
		if err := env.Engine().Cancel(env.Context(), run.ID(), "enough"); !errors.Is(
			err, &perdure.Error{Code: perdure.CodeWrongState}) {
			env.Errorf("a cancel gives %v", err)
		}
		_, _ = run.Result()
		r := reportOf(env, run.ID())
		wantStatus(env, r, journal.Failed)
		wantSteps(env, r, "a COMPENSATED, b COMPENSATED, c FAILED")
		if r.Undo == nil || !r.Undo.All || len(r.Undo.Steps) != 2 {
			env.Errorf("the compensation is %+v", r.Undo)
		}
	}, g)
	d.want(t, "a", "b", "undo b", "undo a")
}

// spec: F-4, F-20
func TestACompensationGetsWhatOthersGave(t *testing.T) {
	var d diary
	g := dag.New[int]("g", perdure.NoRetry)
	a := dag.Add(g, "a", does("A", nil))
	b := dag.Add(g, "b", does("B", nil)).After(a)
	c := dag.Add(g, "c", does("C", nil)).After(b)
	dag.UndoWith(c, func(context.Context, none) (int, error) { return 3, nil })
	dag.UndoWith(b, func(context.Context, none) (int, error) { return 0, errDown })
	dag.UndoWith(a, func(_ context.Context, in struct {
		C   int    `perdure:"undo=c,required"`
		B   error  `perdure:"undo-error=b,required"`
		Own string `perdure:"step=result"`
	}) (int, error) {
		d.note("%d %v %s", in.C, in.B, in.Own)
		return 0, nil
	})
	dag.Add(g, "bad", does(0, errDown)).After(c)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.lines = nil
		_, _ = perduretest.Start(env, g.Workflow, 1).Result()
		return slices.Compact(d.lines)
	}, g)
	d.lines = slices.Compact(d.lines)
	d.want(t, "3 it is down A")
}

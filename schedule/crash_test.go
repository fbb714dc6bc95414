package schedule_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/schedule"
)

// Wherever a crash comes, the same runs are started, each once.
//
// spec: F-12, R-34, B-10
func TestSchedulesStartTheSameRunsWhereverACrashComes(t *testing.T) {
	short := job("short", time.Second)
	for _, overlap := range []schedule.Overlap{
		schedule.Skip, schedule.Allow, schedule.Buffer, schedule.Cancel,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				return crashed(env, overlap)
			}, short, job("long", 25*time.Minute), schedule.Workflow())
		})
	}
}

// crashed plays a history of schedules, and returns the runs that they have started.
func crashed(env *perduretest.Env, overlap schedule.Overlap) any {
	by := schedule.Note{By: "ann"}
	do := func(call func(context.Context, perdure.Caller) error) {
		env.Helper()
		err := env.Do(func(e *perdure.Engine) error {
			err := call(env.Context(), e)
			if journal.CodeOf(err) == journal.CodeWrongState { // it was done before the crash
				return nil
			}
			return err
		})
		if err != nil {
			env.Fatal(err)
		}
	}
	set := func(name string, spec schedule.Spec) {
		env.Helper()
		do(func(ctx context.Context, c perdure.Caller) error {
			return schedule.Set(ctx, c, name, spec, by)
		})
	}
	set("a", schedule.Spec{Workflow: "short", Cron: "*/10 * * * *", Overlap: overlap})
	set("b", schedule.Spec{Workflow: "long", Cron: "*/10 * * * *", Overlap: overlap, Times: 4})
	env.Sleep(35 * time.Minute)
	do(func(ctx context.Context, c perdure.Caller) error {
		return schedule.Pause(ctx, c, "a", by)
	})
	env.Sleep(20 * time.Minute)
	do(func(ctx context.Context, c perdure.Caller) error {
		return schedule.Resume(ctx, c, "a", by)
	})
	do(func(ctx context.Context, c perdure.Caller) error {
		to := time.Date(2000, 1, 1, 0, 50, 0, 0, time.UTC)
		_, err := schedule.Backfill(ctx, c, "a", to.Add(-70*time.Minute), to, by)
		return err
	})
	env.Sleep(50 * time.Minute)
	var ids []string
	do(func(ctx context.Context, _ perdure.Caller) error {
		ids = nil
		for _, name := range []string{"short", "long"} {
			heads, _, err := env.Engine().List(ctx, perdure.Query{Workflow: name})
			if err != nil {
				return err
			}
			for _, h := range heads {
				ids = append(ids, h.WorkflowID)
			}
		}
		slices.Sort(ids)
		return nil
	})
	if len(ids) < 14 {
		env.Error("only", ids)
	}
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		env.Error("twice:", ids)
	}
	return ids
}

package batch_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// Wherever a crash comes, a batch acts on each run once, and counts it.
//
// spec: B-8, R-40
func TestABatchActsOnEachRunOnceWhereverACrashComes(t *testing.T) {
	for _, c := range []struct {
		spec batch.Spec
		on   *perdure.Workflow[int, int]
		runs int // of each workflow ID afterwards
	}{
		{batch.Spec{Order: retry("ada", ""), Filter: "workflow=fail", Rate: 2}, fail, 2},
		{batch.Spec{Order: retry("ada", ""), Runs: listed("a", 5), Rate: 2}, fail, 2},
		{batch.Spec{
			Order: admin.Order{Action: journal.ActionFork, Step: "work"}, Filter: "workflow=fail",
		}, fail, 2},
		{batch.Spec{
			Order: admin.Order{Action: journal.ActionTerminate}, Filter: "workflow=wait", Rate: 3,
		}, wait, 1},
		{batch.Spec{
			Order: admin.Order{Action: journal.ActionCancel}, Filter: "workflow=wait", Rate: 3,
		}, wait, 1},
	} {
		name := string(c.spec.Order.Action)
		if c.spec.Runs != nil {
			name += " of a list"
		}
		t.Run(name, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				return crashed(env, c.spec, c.on, c.runs)
			}, fail, wait, batch.Workflow())
		})
	}
}

func listed(begin string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", begin, i))
	}
	return ids
}

// crashed carries out a batch on five runs of a workflow, and returns the runs that there are then.
func crashed(env *perduretest.Env, spec batch.Spec, on *perdure.Workflow[int, int], runs int) any {
	for _, id := range listed("a", 5) {
		perduretest.Start(env, on, 0, perdure.ID(id))
	}
	env.Sleep(time.Minute)
	var b batch.Batch
	do := func(call func(e *perdure.Engine) error) {
		env.Helper()
		if err := env.Do(call); err != nil {
			env.Fatal(err)
		}
	}
	do(func(e *perdure.Engine) error {
		all, _, err := batch.List(env.Context(), e, batch.Query{})
		if err == nil && len(all) == 0 {
			_, err = batch.Start(env.Context(), e, spec)
		}
		return err
	})
	env.Sleep(time.Hour)
	n := map[string]int{}
	do(func(e *perdure.Engine) error {
		all, _, err := batch.List(env.Context(), e, batch.Query{})
		if err == nil {
			b, n = all[0], chains(env, e, "a-")
		}
		return err
	})
	if b.Status != batch.Done || b.Done != 5 || b.Matched != 5 {
		env.Errorf("%+v", b)
	}
	for id := range n {
		if n[id] != runs {
			env.Errorf("%s has %d runs, want %d", id, n[id], runs)
		}
	}
	return []any{b.Progress, slices.Sorted(maps.Keys(n))}
}

package dag_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// longGraph has two steps that are done, an async one that is done beside them, and one that takes
// an hour.
func longGraph(d *diary, opts ...perdure.WorkflowOption) *dag.Graph[int] {
	g := dag.New[int]("g", opts...)
	a := dag.Add(g, "a", d.notes("a")).Undo(d.undoes("undo a"))
	dag.Add(g, "beside", d.notes("beside")).Async().Undo(d.undoes("undo beside")).After(a)
	b := dag.Add(g, "b", d.notes("b")).Undo(d.undoes("undo b")).After(a)
	dag.Add(g, "long", func(ctx context.Context, _ none) (string, error) {
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
		}
		return "", context.Cause(ctx)
	}).Undo(d.undoes("undo long")).After(b)
	return g
}

// A graph that is cancelled with compensation undoes what is done, and ends as CANCELLED. A plain
// cancel undoes nothing.
//
// spec: R-11
func TestAGraphIsCancelledWithOrWithoutCompensation(t *testing.T) {
	order := func(compensate bool) func(*perduretest.Env, string) error {
		return func(env *perduretest.Env, id string) error {
			_, err := admin.New(env.Engine()).Act(env.Context(), id, admin.Order{
				Action: journal.ActionCancel, Compensate: compensate, By: "ann",
			})
			return err
		}
	}
	signal := func(name, payload string) func(*perduretest.Env, string) error {
		return func(env *perduretest.Env, id string) error {
			_, err := perdure.NewSignal[json.RawMessage](name).Send(env.Context(), env.Engine(), id,
				json.RawMessage(payload))
			return err
		}
	}
	for name, how := range map[string]struct {
		cancel func(*perduretest.Env, string) error
		undoes bool
	}{
		"a call": {func(env *perduretest.Env, id string) error {
			return env.Engine().Cancel(env.Context(), id, "enough")
		}, false},
		"an order":                     {order(false), false},
		"an order with compensation":   {order(true), true},
		"a signal":                     {signal("Cancel", "null"), true},
		"the other signal":             {signal("CancelWorkflow", `{"runCompensations": true}`), true},
		"a signal without":             {signal("Cancel", `{"runCompensations": false}`), false},
		"a signal with something else": {signal("Cancel", `"now"`), true},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			g := longGraph(&d)
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, g.Workflow, 1)
				env.Sleep(time.Minute)
				if err := how.cancel(env, run.ID()); err != nil {
					env.Fatal(err)
				}
				env.Sleep(time.Minute)
				run.Is(journal.Cancelled)
				d.mu.Lock()
				undone := d.lines[3:]
				d.mu.Unlock()
				want := []string(nil)
				if how.undoes {
					want = []string{"undo a", "undo b", "undo beside"}
				}
				slices.Sort(undone)
				if !slices.Equal(undone, want) {
					env.Errorf("undone: %v, want %v", undone, want)
				}
			}, g)
		})
	}
}

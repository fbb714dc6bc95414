package patterns

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// Steps, participants and compensations of every pattern may be functions without a result.
//
// spec: F-14, F-28, F-36
func TestAStepNeedsNoResult(t *testing.T) {
	var did []string
	does := func(what string) func(context.Context, int) (struct{}, error) {
		return pattern.NoResult(func(_ context.Context, in int) error {
			if did = append(did, what); in == 0 {
				return perdure.Permanent(errors.New("zero"))
			}
			return nil
		})
	}
	graph := dag.New[int]("graph")
	dag.Add(graph, "a", does("a"))
	steps := saga.New[int]("saga")
	b := saga.UndoWith(saga.Add(steps, "b", does("b")), does("undo b"))
	saga.Add(steps, "c", pattern.NoResult(func(context.Context, int) error {
		return errors.New("broken")
	})).After(b)
	hold := tcc.New[int]("tcc")
	tcc.CancelWith(tcc.ConfirmWith(tcc.Add(hold, "d", does("d")), does("confirm d")),
		does("cancel d"))
	perduretest.Test(t, func(env *perduretest.Env) {
		if _, err := perduretest.Start(env, graph.Workflow, 1).Result(); err != nil {
			env.Error(err)
		}
		if _, err := perduretest.Start(env, graph.Workflow, 0).Result(); err == nil ||
			!strings.Contains(err.Error(), "zero") {
			env.Error("a step that fails:", err)
		}
		if _, err := perduretest.Start(env, steps.Workflow, 1).Result(); err == nil {
			env.Error("the saga does not fail")
		}
		if _, err := perduretest.Start(env, hold.Workflow, 1).Result(); err != nil {
			env.Error(err)
		}
	}, graph, steps, hold)
	if want := []string{"a", "a", "b", "undo b", "d", "confirm d"}; !slices.Equal(did, want) {
		t.Errorf("done: %v, want %v", did, want)
	}
	nothing := dag.New[int]("nothing")
	dag.Add(nothing, "a", pattern.NoResult[int](nil))
	if issues := perdure.Check(nothing); len(issues) != 1 || !strings.Contains(issues[0].Message,
		"a step needs a function") {
		t.Errorf("without a function: %v", issues)
	}
}

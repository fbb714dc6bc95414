package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// The run is suspended while steps are under way, so it does not read their results. A cancel with
// compensation undoes them all the same.
//
// spec: R-11
func TestACancelUndoesStepsWhoseResultsTheGraphHasNotRead(t *testing.T) {
	slow := func(d *diary, line string) func(context.Context, none) (string, error) {
		return func(context.Context, none) (string, error) {
			time.Sleep(time.Minute)
			d.note("%s", line)
			return line, nil
		}
	}
	for name, ids := range map[string][]string{
		"one step": {"a"}, "steps side by side": {"a", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			g := dag.New[int]("g")
			for _, id := range ids {
				dag.Add(g, id, slow(&d, id)).Undo(d.undoes("undo " + id))
			}
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, g.Workflow, 1)
				env.Sleep(time.Second)
				if err := env.Engine().Suspend(env.Context(), run.ID(), "wait"); err != nil {
					env.Fatal(err)
				}
				env.Sleep(2 * time.Minute)
				if _, err := admin.New(env.Engine()).Act(env.Context(), run.ID(), admin.Order{
					Action: journal.ActionCancel, Compensate: true,
				}); err != nil {
					env.Fatal(err)
				}
				env.Sleep(time.Minute)
				run.Is(journal.Cancelled)
				d.mu.Lock()
				defer d.mu.Unlock()
				if len(d.lines) != 2*len(ids) {
					env.Errorf("the diary has %q", d.lines)
				}
			}, g)
		})
	}
}

// compensate cancels a run with compensation, unless it has ended.
func compensate(env *perduretest.Env, id string) {
	_, err := admin.New(env.Engine()).Act(env.Context(), id, admin.Order{
		Action: journal.ActionCancel, Compensate: true,
	})
	if err != nil && !errors.Is(err, &perdure.Error{Code: perdure.CodeWrongState}) {
		env.Error(err)
	}
}

// A cancel comes at the instant at which steps end. A step whose success is recorded is undone.
//
// spec: R-11
func TestACancelAtTheEndOfStepsUndoesEachThatHasSucceeded(t *testing.T) {
	undone := 0
	for n := range 200 {
		var d diary
		var cancel func()
		g := dag.New[int]("g")
		last := dag.Add(g, "last", does(0, nil))
		for i := range 1 + n%4 {
			id := fmt.Sprint("s", i)
			last.After(dag.Add(g, id, func(context.Context, none) (string, error) {
				time.Sleep(time.Minute)
				if i == 0 {
					go cancel()
				}
				return id, nil
			}).Undo(d.undoes(id)))
		}
		perduretest.Test(t, func(env *perduretest.Env) {
			cancel = func() { compensate(env, "g") }
			run := perduretest.Start(env, g.Workflow, 1, perdure.ID("g"))
			env.Sleep(2 * time.Minute)
			entries, err := env.Engine().History(env.Context(), run.ID(), 0, 0)
			if err != nil {
				env.Fatal(err)
			}
			var done []string
			for _, e := range entries {
				if e.Kind == journal.StepCompleted && strings.HasPrefix(e.Op.Name, "s") {
					done = append(done, e.Op.Name)
				}
			}
			slices.Sort(done)
			slices.Sort(d.lines)
			if entries[len(entries)-1].Kind != journal.RunCancelled {
				return // it was over before
			}
			if undone += len(done); !slices.Equal(done, d.lines) {
				env.Errorf("done: %q, undone: %q", done, d.lines)
			}
		}, g)
	}
	t.Logf("%d steps were undone", undone)
}

// A cancel comes at the instant at which a child ends. If the graph has recorded before the cancel
// that the child has succeeded, the step is undone, also if it has not recorded its own result yet.
//
// spec: R-11
func TestACancelAtTheEndOfAChildUndoesWhatItHasDone(t *testing.T) {
	undone := 0
	for range 400 {
		var cancel func()
		undos := 0
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "do", func(context.Context) (int, error) {
				time.Sleep(time.Minute)
				go cancel()
				return 7, nil
			})
		})
		g := dag.New[int]("g")
		kid := dag.AddChild(g, "kid", child, func(none) int { return 1 })
		kid.Undo(func(context.Context, none, dag.ChildResult[int]) error {
			undos++
			return nil
		})
		dag.Add(g, "last", does(0, nil)).After(kid)
		perduretest.Test(t, func(env *perduretest.Env) {
			cancel = func() { compensate(env, "g") }
			run := perduretest.Start(env, g.Workflow, 1, perdure.ID("g"))
			env.Sleep(2 * time.Minute)
			entries, err := env.Engine().History(env.Context(), run.ID(), 0, 0)
			if err != nil {
				env.Fatal(err)
			}
			seq := map[journal.Kind]int64{}
			for _, e := range entries {
				seq[e.Kind] = e.Seq
			}
			want := 0
			if in := seq[journal.ChildCompleted]; in != 0 && in < seq[journal.RunClosing] &&
				seq[journal.RunCancelled] != 0 {
				want = 1
			}
			if undone += want; undos != want {
				env.Errorf("%d are undone, want %d", undos, want)
			}
		}, g, child)
	}
	t.Logf("%d children were undone", undone)
}

// The graph has no compensation in the build that begins the run, so it has planned no clean-up.
// The next build has not replayed the run when it is cancelled with compensation.
//
// spec: R-11
func TestACancelUndoesByABuildThatHasAddedTheCompensations(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	graph := func(d *diary, undoes bool) *dag.Graph[int] {
		g := dag.New[int]("g")
		a := dag.Add(g, "a", d.notes("a"))
		if undoes {
			a.Undo(d.undoes("undo a"))
		}
		dag.AddChild(g, "kid", child, func(none) int { return 1 }).After(a)
		return g
	}
	for _, suspended := range []bool{false, true} {
		t.Run(fmt.Sprint("suspended ", suspended), func(t *testing.T) {
			var d diary
			old, next := graph(&d, false), graph(&d, true)
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, old.Workflow, 1)
				env.Sleep(time.Second)
				if suspended {
					if err := env.Engine().Suspend(env.Context(), run.ID(), "wait"); err != nil {
						env.Fatal(err)
					}
				}
				env.Deploy(next, child)
				if _, err := admin.New(env.Engine()).Act(env.Context(), run.ID(), admin.Order{
					Action: journal.ActionCancel, Compensate: true,
				}); err != nil {
					env.Fatal(err)
				}
				env.Crash()
				env.Sleep(time.Minute)
				run.Is(journal.Cancelled)
				got := slices.Compact(d.lines) // the engine may have died while the undo was made
				if want := []string{"a", "undo a"}; !slices.Equal(got, want) {
					env.Errorf("the diary has %q, want %q", got, want)
				}
			}, old, child)
		})
	}
}

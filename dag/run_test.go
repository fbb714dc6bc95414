package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

var errDown = errors.New("it is down")

// none is an argument that takes no input.
type none struct{}

// does returns the function of a step that takes no input.
func does[R any](out R, err error) func(context.Context, none) (R, error) {
	return func(context.Context, none) (R, error) { return out, err }
}

// lasts returns the function of a step that takes some time.
func lasts(d time.Duration) func(context.Context, none) (string, error) {
	return func(ctx context.Context, _ none) (string, error) {
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// A diary records calls, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) want(t testing.TB, lines ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("the diary has\n\t%s\nwant\n\t%s", strings.Join(d.lines, "\n\t"),
			strings.Join(lines, "\n\t"))
	}
}

// notes returns the function of a step that notes a line.
func (d *diary) notes(line string) func(context.Context, none) (string, error) {
	return func(context.Context, none) (string, error) {
		d.note("%s", line)
		return line, nil
	}
}

// undoes returns a compensation that notes a line.
func (d *diary) undoes(line string) func(context.Context, none, string) error {
	return func(context.Context, none, string) error {
		d.note("%s", line)
		return nil
	}
}

// execute runs a graph to its end.
func execute[I any](env *perduretest.Env, g *dag.Graph[I], in I,
	opts ...perdure.StartOption) dag.Result {
	env.Helper()
	var r dag.Result
	opts = append([]perdure.StartOption{perdure.ID("run-" + g.Name())}, opts...)
	err := env.Do(func(eng *perdure.Engine) (err error) {
		r, err = g.Execute(env.Context(), eng, in, opts...)
		return err
	})
	if err != nil {
		env.Fatal(err)
	}
	return r
}

// reportOf returns the report of a run.
func reportOf(env *perduretest.Env, id string) dag.Result {
	env.Helper()
	var r report.Run
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		r, err = eng.Report(env.Context(), id)
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return dag.Result{Run: r}
}

// wantSteps checks the statuses of steps: "a DONE, b SKIPPED".
func wantSteps(t testing.TB, r dag.Result, want string) {
	t.Helper()
	var got []string
	for _, s := range r.Steps {
		got = append(got, s.ID+" "+string(s.Status))
	}
	slices.Sort(got)
	if strings.Join(got, ", ") != want {
		t.Errorf("steps are %s, want %s", strings.Join(got, ", "), want)
	}
}

func wantStatus(t testing.TB, r dag.Result, want journal.Status) {
	t.Helper()
	if r.Status != want {
		t.Errorf("the run is %v, want %v; its error is %v", r.Status, want, r.Err)
	}
}

// spec: F-2, F-20
func TestALayerBeginsWhenTheOneBeforeIsSettled(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	slow := func(name string, d2 time.Duration) func(context.Context, none) (string, error) {
		return func(ctx context.Context, _ none) (string, error) {
			d.note("%s begins", name)
			out, err := lasts(d2)(ctx, none{})
			d.note("%s ends", name)
			return out, err
		}
	}
	a := dag.Add(g, "a", slow("a", time.Minute))
	b := dag.Add(g, "b", slow("b", time.Hour))
	dag.Add(g, "c", slow("c", time.Minute)).After(a)
	dag.Add(g, "d", slow("d", 2*time.Minute)).After(b)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, g, 1)
		wantStatus(env, r, journal.Completed)
		slices.Sort(d.lines[:2])
		slices.Sort(d.lines[4:6])
		d.want(env, "a begins", "b begins", "a ends", "b ends", "c begins", "d begins", "c ends",
			"d ends")
		if got := fmt.Sprint(g.Layers()); got != "[[a b] [c d]]" {
			env.Errorf("layers are %s", got)
		}
	}, g)
}

// spec: F-19
func TestNothingWaitsForAnAsyncStep(t *testing.T) {
	g := dag.New[int]("g")
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 7, perdure.Sleep(ctx, time.Hour)
	})
	dag.Add(g, "plain", lasts(time.Hour)).Async()
	dag.Add(g, "gated", lasts(time.Hour)).WaitTimer("late", time.Hour).Async()
	dag.Add(g, "fails", does(1, errDown)).Async().Retry(perdure.NoRetry)
	of := dag.AddChild(g, "child", child, func(none) int { return 1 })
	of.Async()
	first := dag.Add(g, "first", lasts(time.Minute))
	dag.Add(g, "second", func(context.Context, none) (string, error) {
		return lasts(3*time.Hour)(context.Background(), none{})
	}).After(first)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(90 * time.Minute)
		wantSteps(env, reportOf(env, run.ID()),
			"child DONE, fails FAILED, first DONE, gated RUNNING, plain DONE, second RUNNING")
		run.Returns(json.RawMessage{})
		wantSteps(env, reportOf(env, run.ID()),
			"child DONE, fails FAILED, first DONE, gated DONE, plain DONE, second DONE")
	}, g, child)
}

// An async step that ends while the graph waits only for a callback has ended: its callback is
// called, and the function of Again gets its result.
//
// spec: F-9, F-19, F-26
func TestAnAsyncStepThatEndsDuringTheLastCallback(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	dag.Add(g, "beside", lasts(30*time.Minute)).Async()
	dag.Add(g, "a", d.notes("a"))
	g.On(pattern.Callback{Step: func(ctx context.Context, step string) error {
		if step == "a" {
			_, _ = lasts(time.Hour)(ctx, none{})
		}
		d.note("callback %s", step)
		return nil
	}})
	g.Again(func(k pattern.View) (int, bool) {
		d.note("beside gave %s", k.Results["beside"])
		return 0, false
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{g},
		Options:   perdure.Options{IdleTimeout: time.Hour},
	}.Test(t, func(env *perduretest.Env) {
		wantSteps(env, execute(env, g, 1), "a DONE, beside DONE")
		d.want(env, "a", "callback a", "callback beside", `beside gave "done"`)
	})
}

// spec: F-6, F-18, F-19
func TestAnAsyncChildThatPassesItsTimeoutIsCancelledWhileTheGraphGoesOn(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 100*time.Hour)
	})
	g := dag.New[int]("g")
	dag.AddChild(g, "child", slow, func(none) int { return 1 }).Timeout(time.Hour).Async()
	dag.Add(g, "a", lasts(50*time.Hour))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(2 * time.Hour)
		wantSteps(env, reportOf(env, run.ID()), "a RUNNING, child FAILED")
		if got := children(env); !slices.Equal(got, []string{"slow CANCELLED"}) {
			env.Errorf("the children are %v", got)
		}
		run.Returns(json.RawMessage{})
	}, g, slow)
}

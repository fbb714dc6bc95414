package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
)

// spec: F-15
func TestTheModeSaysHowARunIsStarted(t *testing.T) {
	refused := &perdure.Error{Code: perdure.CodeInvalid}
	for mode, want := range map[dag.Mode][2]error{
		dag.Sync:  {nil, refused},
		dag.Async: {refused, nil},
		dag.Both:  {nil, nil},
		"":        {nil, refused},
	} {
		g := dag.New[int]("g")
		if mode != "" {
			g.Mode(mode)
		}
		g.Output(dag.Add(g, "a", lasts(time.Hour)))
		perduretest.Test(t, func(env *perduretest.Env) {
			_, executed := g.Execute(env.Context(), env.Engine(), 1)
			run, started := g.Start(env.Context(), env.Engine(), 1)
			if !errors.Is(executed, want[0]) || !errors.Is(started, want[1]) {
				env.Errorf("mode %q: execute gives %v, start %v", mode, executed, started)
			}
			if started != nil {
				return
			}
			if r, err := run.Report(env.Context()); err != nil || r.Status.IsTerminal() {
				env.Errorf("a run that was started is %v, %v", r.Status, err)
			}
			if out, err := run.Result(env.Context()); err != nil || string(out) != `"done"` {
				env.Errorf("it gives %s, %v", out, err)
			}
		}, g)
	}
}

// spec: F-4, F-7, F-15, F-25
func TestWhatARunIsStartedWithReachesItsSteps(t *testing.T) {
	type order struct{ City string }
	type all struct {
		Ctx     context.Context
		Whole   order             `perdure:"input"`
		City    string            `perdure:"input=City,required"`
		Tenant  string            `perdure:"header=Tenant"`
		Headers map[string]string `perdure:"headers"`
		Price   int               `perdure:"step=price"`
		Rank    int               `perdure:"variable=rank"`
		ID      string            `perdure:"id"`
		Info    perdure.Info
	}
	g := dag.New[order]("g")
	price := dag.Add(g, "price", func(ctx context.Context, o order) (int, error) {
		return len(o.City), perdure.SetVariable(ctx, "rank", 7)
	}).Variable("price")
	got := ""
	g.Output(dag.Add(g, "use", func(ctx context.Context, in all) (string, error) {
		direct, found, err := price.Output(in.Ctx)
		got = fmt.Sprintln(in.Whole, in.City, in.Tenant, in.Headers, in.Price, in.Rank, in.ID,
			in.Info.WorkflowID, direct, found)
		return "used", err
	}).After(price))
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, g, order{"Bern"}, perdure.ID("order-7"),
			perdure.Headers{"Tenant": "acme"}, perdure.TriggeredBy("the desk"))
		if want := "{Bern} Bern acme map[Tenant:acme] 4 7 order-7 order-7 4 true\n"; got != want {
			env.Errorf("the step got %s, want %s", got, want)
		}
		if r.TriggeredBy != "the desk" || r.WorkflowID != "order-7" ||
			!reflect.DeepEqual(r.Headers, map[string]string{"Tenant": "acme"}) {
			env.Errorf("the report says %q, %q, %v", r.TriggeredBy, r.WorkflowID, r.Headers)
		}
		if variable(r, "price") != "4" || variable(r, "rank") != "7" {
			env.Errorf("the variables are %s", r.Variables)
		}
		if v, found, err := price.Of(r); v != 4 || !found || err != nil {
			env.Errorf("the result is %v, %v, %v", v, found, err)
		}
		env.Sleep(time.Hour)
		later := reportOf(env, "order-7")
		if !reflect.DeepEqual(later, r) || !r.Success() || r.Retries() != 0 ||
			len(r.Completed()) != 2 {
			env.Errorf("later the report is %+v, and was %+v", later, r)
		}
	}, g)
}

// spec: F-15, F-27
func TestADryRunTouchesNothing(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	a := dag.Add(g, "a", d.notes("a")).Undo(d.undoes("undo"))
	b := dag.Add(g, "b", d.notes("b")).After(a).WaitSignal("never", 0)
	c := dag.Add(g, "c", d.notes("c")).After(b).
		When(pattern.If(func(context.Context, pattern.View) (bool, error) {
			d.note("condition")
			return true, nil
		}))
	child := dag.AddChild(g, "child", goodChild, func(none) int { d.note("child"); return 1 }).
		After(c)
	dag.AddBranch(g, "branch", d.notes("branch")).After(child)
	dag.Add(g, "async", d.notes("async")).Async()
	g.Again(func(pattern.View) (int, bool) { d.note("again"); return 1, false })
	g.On(pattern.Callback{
		Step: func(context.Context, string) error { d.note("callback"); return nil },
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		r := execute(env, g, 1, pattern.DryRun)
		wantStatus(env, r, journal.Completed)
		wantSteps(env, r, "a SKIPPED, async SKIPPED, b SKIPPED, branch SKIPPED, c SKIPPED, "+
			"child SKIPPED")
		if !r.DryRun {
			env.Error("the report does not say that it was a dry run")
		}
		d.want(env)
		return r.Status
	}, g, goodChild)
}

// spec: F-26
func TestAGraphContinuesAsNew(t *testing.T) {
	g := dag.New[int]("g")
	count := dag.Add(g, "count", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	g.Output(count).Again(func(k pattern.View) (int, bool) {
		n, _ := pattern.Decode[int](k.Results["count"])
		return n, n < 4
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		r := execute(env, g, 1)
		if n, _, err := count.Of(r); n != 4 || err != nil || r.Status != journal.Completed {
			env.Errorf("the last run gives %d, %v, %v", n, r.Status, err)
		}
		run := perduretest.Get(env, g.Workflow, r.WorkflowID)
		run.Returns(json.RawMessage(`4`))
		before := ""
		for id := r.RunID; ; {
			var head journal.Snapshot
			if err := env.Do(func(eng *perdure.Engine) error {
				d, err := eng.Describe(env.Context(), string(id))
				head = d.State
				return err
			}); err != nil {
				env.Fatal(err)
			}
			report := reportOf(env, string(id))
			if before != "" && (string(report.Successor) != before ||
				report.Status != journal.ContinuedAsNew) {
				env.Errorf("run %s is %v and is continued by %q, not %q", id, report.Status,
					report.Successor, before)
			}
			if head.Predecessor == "" {
				return report.TriggeredBy
			}
			if want := "continued " + string(head.Predecessor); report.TriggeredBy != want {
				env.Errorf("it was triggered by %q, want %q", report.TriggeredBy, want)
			}
			before, id = string(id), string(head.Predecessor)
		}
	}, g)
}

// spec: F-5
func TestTheRetryPolicyOfAStepIsItsOwnOrTheGraphsOrTheDefault(t *testing.T) {
	attempts := func(opts []perdure.WorkflowOption, own *perdure.Retry) int {
		var n atomic.Int64
		g := dag.New[int]("g", opts...)
		s := dag.Add(g, "a", func(context.Context, none) (int, error) {
			n.Add(1)
			return 0, errDown
		})
		if own != nil {
			s.Retry(*own)
		}
		perduretest.Test(t, func(env *perduretest.Env) { execute(env, g, 1) }, g)
		return int(n.Load())
	}
	of := func(n int) perdure.Retry { return perdure.Retry{Attempts: n} }
	two := of(2)
	got := []int{attempts(nil, nil), attempts([]perdure.WorkflowOption{of(5)}, nil), attempts(
		[]perdure.WorkflowOption{of(5)}, &two)}
	if want := []int{3, 5, 2}; !slices.Equal(got, want) {
		t.Errorf("there are %v attempts, want %v", got, want)
	}
}

// spec: F-6
func TestAStepAndAGraphHaveTimeouts(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 100*time.Hour)
	})
	for _, c := range []struct {
		want string
		add  func(*dag.Graph[int])
	}{
		{"a FAILED", func(g *dag.Graph[int]) {
			dag.AddChild(g, "a", slow, func(none) int { return 1 }).Timeout(time.Hour)
		}},
		{"a FAILED", func(g *dag.Graph[int]) {
			dag.AddBranch(g, "a", func(ctx context.Context, _ none) (int, error) {
				return 1, perdure.Sleep(ctx, 100*time.Hour)
			}).Timeout(time.Hour)
		}},
		{"a TIMED_OUT", func(g *dag.Graph[int]) {
			dag.Add(g, "a", lasts(100*time.Hour)).Timeout(time.Hour).Retry(perdure.NoRetry)
		}},
	} {
		g := dag.New[int]("g")
		c.add(g)
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			r := execute(env, g, 1)
			wantSteps(env, r, c.want)
			if !errors.Is(r.Err, &perdure.Error{Code: perdure.CodeTimedOut}) {
				env.Errorf("it ends with %v", r.Err)
			}
			env.Sleep(time.Hour)
			if got := children(env); len(got) > 0 &&
				!slices.Equal(got, []string{"slow CANCELLED"}) {
				env.Errorf("the children are %v", got)
			}
			return r.Status
		}, g, slow)
	}
	g := dag.New[int]("g", perdure.Timeout(time.Hour))
	dag.AddChild(g, "a", slow, func(none) int { return 1 })
	perduretest.Test(t, func(env *perduretest.Env) {
		wantStatus(env, execute(env, g, 1), journal.TimedOut)
		env.Sleep(time.Hour)
		if got := children(env); !slices.Equal(got, []string{"slow CANCELLED"}) {
			env.Errorf("the children are %v", got)
		}
	}, g, slow)
}

// children returns the runs that are not runs of a graph, and their statuses.
func children(env *perduretest.Env) (out []string) {
	env.Helper()
	env.Settle()
	if err := env.Do(func(eng *perdure.Engine) error {
		out = nil
		found, _, err := eng.List(env.Context(), perdure.Query{})
		for _, r := range found {
			if r.Workflow != "g" {
				out = append(out, r.Workflow+" "+r.Status.String())
			}
		}
		slices.Sort(out)
		return err
	}); err != nil {
		env.Error(err)
	}
	return out
}

package dag_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// spec: F-18
func TestAChildThatIsWaitedForOrNot(t *testing.T) {
	canceled := perdure.Define("canceled-child", func(ctx context.Context, _ int) (int, error) {
		return 0, pattern.End(ctx, perdure.StatusCanceled, 0, nil)
	})
	for _, c := range []struct {
		child           *perdure.Workflow[int, int]
		detached, any   bool
		run             journal.Status
		status          journal.Status
		fails, children string
	}{
		{
			child: goodChild, run: journal.Completed, status: journal.Completed,
			children: "good-child COMPLETED",
		},
		{child: badChild, run: journal.Failed, children: "bad-child FAILED"},
		{
			child: badChild, any: true, run: journal.Completed, status: journal.Failed,
			fails: "it is down", children: "bad-child FAILED",
		},
		{child: canceled, run: journal.Failed, children: "canceled-child CANCELED"},
		{child: badChild, detached: true, run: journal.Completed, children: "bad-child FAILED"},
	} {
		g := dag.New[int]("g")
		step := dag.AddChild(g, "a", c.child, func(none) int { return 42 })
		step.Retry(perdure.Retry{Attempts: 3})
		if c.detached {
			step.Detached()
		}
		if c.any {
			step.AnyOutcome()
		}
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			r := execute(env, g, 1)
			wantStatus(env, r, c.run)
			out, found, err := step.Of(r)
			if err != nil || found != (c.run == journal.Completed) || out.Status != c.status ||
				out.Error != c.fails || found && out.RunID == "" {
				env.Errorf("the result is %+v, %v, %v", out, found, err)
			}
			env.Sleep(time.Hour)
			if got := fmt.Sprint(children(env)); got != "["+c.children+"]" {
				// one child, however often the code was replayed
				env.Errorf("the children are %s", got)
			}
			return r.Status
		}, g, c.child)
	}
}

// spec: F-18, F-21
func TestCancellingAGraphCancelsItsChildren(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 100*time.Hour)
	})
	g := dag.New[int]("g")
	dag.AddChild(g, "waited", slow, func(none) int { return 1 })
	dag.AddChild(g, "detached", slow, func(none) int { return 1 }).Detached()
	dag.AddChild(g, "async", slow, func(none) int { return 1 }).Async()
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(time.Hour)
		run.Cancel("enough")
		env.Sleep(time.Hour)
		wantStatus(env, reportOf(env, run.ID()), journal.Cancelled)
		return children(env)
	}, g, slow)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(time.Hour)
		run.Cancel("enough")
		env.Sleep(time.Hour)
		if got := children(env); !slices.Equal(got, []string{
			"slow CANCELLED", "slow CANCELLED", "slow CANCELLED",
		}) {
			env.Errorf("the children are %v", got)
		}
	}, g, slow)
}

// spec: F-18, F-44
func TestAChildCanBeASaga(t *testing.T) {
	var d diary
	pay := saga.New[int]("pay")
	debit := saga.Add(pay, "debit", d.notes("debit")).Undo(d.undoes("credit"))
	saga.Add(pay, "book", does(1, errDown)).After(debit)
	g := dag.New[int]("g")
	dag.AddChild(g, "pay", pay.Workflow, func(none) int { return 1 })
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, g, 1)
		wantStatus(env, r, journal.Failed)
		wantSteps(env, r, "pay FAILED")
		d.want(env, "debit", "credit")
	}, g, pay)
}

// A defect in code of the application fails its step, and nothing else.
//
// spec: F-16, F-18, F-20
func TestWhatPanicsOrDoesNotEncodeFailsItsStep(t *testing.T) {
	type cyclic struct{ Next any }
	never := perdure.NoRetry
	for name, add := range map[string]func(g *dag.Graph[int]){
		"a step panics": func(g *dag.Graph[int]) {
			dag.Add(g, "a", func(context.Context, none) (int, error) { panic("a") }).Retry(never)
		},
		"a result": func(g *dag.Graph[int]) {
			dag.Add(g, "a", func(context.Context, none) (any, error) { return make(chan int), nil })
		},
		"a condition panics": func(g *dag.Graph[int]) {
			dag.Add(g, "a", does(1, nil)).
				When(pattern.If(func(context.Context, pattern.View) (bool, error) { panic("a") }))
		},
		"a child's input panics": func(g *dag.Graph[int]) {
			dag.AddChild(g, "a", goodChild, func(none) int { panic("a") })
		},
		"a child's input": func(g *dag.Graph[int]) {
			wf := perdure.Define("odd", func(context.Context, chan int) (int, error) {
				return 0, nil
			})
			dag.AddChild(g, "a", wf, func(none) chan int { return nil })
		},
		"a detached child's input": func(g *dag.Graph[int]) {
			wf := perdure.Define("odd", func(context.Context, chan int) (int, error) {
				return 0, nil
			})
			dag.AddChild(g, "a", wf, func(none) chan int { return nil }).Detached()
		},
		"a branch's result": func(g *dag.Graph[int]) {
			dag.AddBranch(g, "a", func(context.Context, none) (cyclic, error) {
				return cyclic{func() {}}, nil
			})
		},
		"a required value": func(g *dag.Graph[int]) {
			dag.Add(g, "a", func(context.Context, struct {
				V int `perdure:"variable=v,required"`
			}) (int, error) {
				return 0, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			g := dag.New[int]("g")
			first := dag.Add(g, "first", d.notes("first")).
				Undo(func(context.Context, none, string) error { panic("undo") }).Retry(never)
			zero := dag.Add(g, "zero", d.notes("zero")).Undo(d.undoes("undo")).Order(-1).
				After(first)
			add(g)
			dag.Add(g, "last", d.notes("last")).After(zero)
			g.On(pattern.Callback{Failure: func(context.Context, error) (bool, error) {
				panic("callback")
			}})
			perduretest.Test(t, func(env *perduretest.Env) {
				r := execute(env, g, 1)
				wantStatus(env, r, journal.Failed)
				var failed *pattern.StepError
				if !errors.As(r.Err, &failed) || failed.Step != "a" {
					env.Errorf("it fails with %v", r.Err)
				}
				if s, _ := r.Step("a"); s.Status != report.StepIsFailed || s.Attempts != 1 {
					env.Errorf("the step is %v after %d attempts", s.Status, s.Attempts)
				}
				if s, _ := r.Step("first"); s.Status != report.StepIsCompensationFailed ||
					r.Undo.All {
					env.Errorf("the first step is %v", s.Status)
				}
			}, g, goodChild)
		})
	}
}

// spec: F-20
func TestTheFirstStepThatFailsIsTheErrorOfTheRun(t *testing.T) {
	var calls atomic.Int64
	g := dag.New[int]("g")
	dag.Add(g, "slow", func(ctx context.Context, _ none) (int, error) {
		_, err := lasts(time.Hour)(ctx, none{})
		return 0, errors.Join(errDown, err)
	}).Retry(perdure.NoRetry)
	dag.Add(g, "fast", does(0, errDown)).Retry(perdure.NoRetry)
	dag.Add(g, "good", lasts(2*time.Hour))
	g.On(pattern.Callback{Failure: func(_ context.Context, err error) (bool, error) {
		calls.Add(1)
		return !strings.Contains(err.Error(), "step fast failed"), nil
	}})
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, g, 1)
		wantStatus(env, r, journal.Failed)
		wantSteps(env, r, "fast FAILED, good DONE, slow FAILED")
		if calls.Load() != 1 {
			env.Errorf("the callback was called %d times", calls.Load())
		}
		if ids := fmt.Sprint(len(r.Failed()), r.Err); ids != "2 step fast failed: it is down" {
			env.Errorf("it fails with %s", ids)
		}
	}, g)
}

// Conditions read the status of an ended child, by name.
//
// spec: F-16, F-18
func TestAConditionReadsHowAChildHasEnded(t *testing.T) {
	var d diary
	broken := perdure.Define("child", func(context.Context, int) (int, error) { return 0, errDown })
	g := dag.New[int]("g")
	kid := dag.AddChild(g, "kid", broken, func(none) int { return 1 }).AnyOutcome()
	dag.Add(g, "mend", d.notes("mend")).After(kid).
		When(expr.When(`results.kid.status == "FAILED" && results.kid.error != ""`))
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, g, 1)
		d.want(env, "mend")
		if of, _, err := kid.Of(r); err != nil || of.Status != perdure.StatusFailed ||
			of.RunID == "" {
			env.Errorf("it is %+v, %v", of, err)
		}
	}, g, broken)
}

// A step that starts a child, or a branch, is in the report from its beginning: that it goes on,
// since when, and that it was cancelled.
//
// spec: F-3, F-7, F-18, F-25
func TestAStepThatIsARunOfItsOwnIsReportedFromItsBeginning(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 10*time.Hour)
	})
	g := dag.New[int]("g")
	kid := dag.AddChild(g, "kid", child, func(none) int { return 1 }).Async()
	dag.AddBranch(g, "branch", func(ctx context.Context, _ none) (int, error) {
		return 1, perdure.Sleep(ctx, 2*time.Hour)
	})
	dag.AddChild(g, "last", child, func(none) int { return 1 }).After(kid)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, g.Workflow, 1, perdure.ID("x"))
		env.Sleep(time.Hour)
		r := reportOf(env, "x")
		wantSteps(env, r, "branch RUNNING, kid RUNNING")
		if got := r.Current(); !slices.Equal(got, []string{"kid", "branch"}) {
			env.Errorf("there go on %q", got)
		}
		env.Sleep(3 * time.Hour)
		wantSteps(env, reportOf(env, "x"), "branch DONE, kid RUNNING, last RUNNING")
		if err := env.Do(func(eng *perdure.Engine) error {
			return eng.Cancel(env.Context(), "x", "enough")
		}); err != nil {
			env.Error(err)
		}
		_, _ = run.Result()
		r = reportOf(env, "x")
		wantSteps(env, r, "branch DONE, kid CANCELLED, last CANCELLED")
		if s, _ := r.Step("branch"); s.Ended.Sub(s.Started) < 2*time.Hour {
			env.Errorf("the branch took from %v to %v", s.Started, s.Ended)
		}
		return nil
	}, g, child)
}

// The run of a child step has the headers of the graph's run, and begins with its variables, also
// with those that are too large for the main rows.
//
// spec: F-44
func TestAChildHasTheHeadersAndVariablesOfItsGraph(t *testing.T) {
	large := strings.Repeat("x", 200_000)
	child := perdure.Define("child", func(ctx context.Context, _ int) (string, error) {
		i, err := perdure.InfoOf(ctx)
		if err != nil {
			return "", err
		}
		if err := perdure.SetVariable(ctx, "small", "changed"); err != nil {
			return "", err
		}
		small, _, err := perdure.Variable[string](ctx, "small")
		if err != nil {
			return "", err
		}
		got, _, err := perdure.Variable[string](ctx, "large")
		return fmt.Sprint(i.Headers, small, len(got), i.DryRun), err
	})
	g := dag.New[int]("g")
	sets := dag.Add(g, "sets", func(ctx context.Context, _ none) (int, error) {
		if err := perdure.SetVariable(ctx, "large", large); err != nil {
			return 0, err
		}
		return 1, perdure.SetVariable(ctx, "small", "first")
	})
	step := dag.AddChild(g, "child", child, func(none) int { return 1 })
	step.After(sets)
	after := dag.Add(g, "after", func(ctx context.Context, _ none) (string, error) {
		small, _, err := perdure.Variable[string](ctx, "small")
		return small, err
	})
	after.After(step)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		r := execute(env, g, 1, perdure.Headers{"tenant": "t1"}, perdure.TriggeredBy("a test"))
		wantStatus(env, r, journal.Completed)
		out, _, err := step.Of(r)
		if want := "map[tenant:t1]changed200000 false"; out.Output != want || err != nil {
			env.Errorf("the child has %q, want %q (%v)", out.Output, want, err)
		}
		if own, _, err := after.Of(r); own != "first" || err != nil {
			env.Errorf("the graph has %q after it (%v)", own, err)
		}
		return out.Output
	}, g, child)
}

// A retry keeps the variables that its child began with.
//
// spec: F-44, R-16
func TestAChildThatIsRetriedKeepsTheVariablesItBeganWith(t *testing.T) {
	var broken atomic.Bool
	child := perdure.Define("child", func(ctx context.Context, _ int) (string, error) {
		got, _, err := perdure.Variable[string](ctx, "given")
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "fails", func(context.Context) (string, error) {
			if broken.Load() {
				return "", errors.New("it is down")
			}
			return got, nil
		}, perdure.NoRetry)
	})
	g := dag.New[int]("g")
	sets := dag.Add(g, "sets", func(ctx context.Context, _ none) (int, error) {
		return 1, perdure.SetVariable(ctx, "given", "first")
	})
	step := dag.AddChild(g, "child", child, func(none) int { return 1 })
	step.After(sets)
	perduretest.Test(t, func(env *perduretest.Env) {
		broken.Store(true)
		wantStatus(env, execute(env, g, 1), journal.Failed)
		broken.Store(false)
		run, err := env.Engine().Retry(env.Context(), "run-g")
		if err != nil {
			env.Fatal(err)
		}
		if _, err := run.Result(env.Context()); err != nil {
			env.Fatal(err)
		}
		r, err := env.Engine().Report(env.Context(), run.ID())
		if err != nil {
			env.Fatal(err)
		}
		out, _, err := report.ResultOf[dag.ChildResult[string]](r, "child")
		if out.Output != "first" || err != nil {
			env.Errorf("the child has %q (%v)", out.Output, err)
		}
	}, g, child)
}

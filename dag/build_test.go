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
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store/memory"
)

// register returns the issues of a definition, one in a line; empty if the definition is accepted.
func register(t *testing.T, g perdure.Definition, opts perdure.Options) string {
	t.Helper()
	eng, err := perdure.New(memory.New(), opts)
	if err != nil {
		t.Fatal(err)
	}
	err = eng.Register(g)
	var bad *definition.Error
	if !errors.As(err, &bad) {
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	var lines []string
	for _, i := range bad.Issues {
		lines = append(lines, i.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func wantIssues(t *testing.T, got string, want ...string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, w)
		}) {
			t.Errorf("nothing says %q; there is\n%s", w, got)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("there are %d issues, want %d:\n%s", len(lines), len(want), got)
	}
}

// spec: F-2, F-4, F-8, F-13
func TestWhatIsWrongWithAGraphIsToldAtOnce(t *testing.T) {
	var nobody *dag.Step[none, int]
	other := dag.Add(dag.New[int]("other"), "elsewhere", does(1, nil))
	g := dag.New[int]("g").Mode("SOMETIMES").Concurrency(-1).Output(other).Again(nil)
	g.Query("bad name", nil).On(pattern.Callback{Steps: []string{"gone"}})
	a := dag.Add(g, "a", does(1, nil)).Retry(perdure.Retry{Attempts: -1}).Timeout(-time.Second).
		When(nil)
	dag.Add[int, none, int](g, "b", nil).After(a, other, nil, nobody)
	dag.Add(g, "b", does(1, nil)).WaitAll(0).WaitAny(0, dag.Signal("x"), dag.Timer("", 0),
		dag.Signal("perdure:x"))
	c := dag.Add(g, "c", does(1, nil)).Variable("not a name").
		Event(pattern.StepEvent{Type: "not a name"})
	d := dag.Add(g, "d", does(1, nil)).After(c).Undo(nil).Undo(nil)
	c.After(d)
	dag.Add(g, "result", does(1, nil))
	dag.Add(g, "perdure:f", does(1, nil))
	dag.Add(g, "in:e", does(1, nil))
	dag.Add(g, strings.Repeat("x", 250), does(1, nil)).WaitSignal(strings.Repeat("s", 250),
		-time.Second)
	dag.Add(g, "not a name", func(context.Context, struct {
		A int    `perdure:"step=gone"`
		B string `perdure:"step=a"`
		C int    `perdure:"sometimes"`
	}) (int, error) {
		return 1, nil
	})
	dag.AddChild[int, none, int, int](g, "child", nil, nil)
	dag.AddBranch[int, none, int](g, "branch", nil)
	dag.Add(g, "early", func(context.Context, struct {
		A int `perdure:"step=a"`
	}) (int, error) {
		return 1, nil
	}).When(pattern.If(nil)).WaitTimer("t", -1)
	got := register(t, g, perdure.Options{})
	wantIssues(t, got,
		`mode: there is no mode "SOMETIMES"`, "concurrency: -1 is not valid",
		"output: step elsewhere is one of another graph", "again: it needs a function",
		`queries.bad name: query "bad name" is not valid`, "callbacks.0: exactly one of",
		`callbacks.0: there is no step "gone"`,
		"ERROR: a.retry: Attempts -1 is not valid",
		"ERROR: a.timeout: a timeout of -1s is not valid",
		"a.when: a nil condition",
		"b: two steps have this name", "b.after: step elsewhere is one of another graph",
		"b: a step needs a function", "b.after: a nil step", "b.after: a nil step",
		"b.wait: it waits for nothing", "b.wait: it waits for all and for any",
		"b.wait: a signal or timer needs a name", `b.wait: signal "perdure:x" is reserved`,
		"c.variable: ", "c.event: ", "a circle: c → d → c", "d.undo: two compensations",
		"d.undo: a compensation needs a function", "d.undo: a compensation needs a function",
		`result: ID "result" is reserved`, "perdure:f: an ID cannot begin with perdure:",
		"in:e: an ID cannot begin with in:", `xx…" is not valid: allowed are 1 to 249 of`,
		`wait: signal "sss`, "wait.signal: a timeout of -1s",
		`not a name: ID "not a name" is not valid`, `not a name.A: there is no step "gone"`,
		"not a name.B: it is of type string, and the result of step \"a\" of type int",
		"not a name.C: the tag word",
		"WARNING: not a name: it takes the result of a, which is in no layer before",
		"child: a step that is a child needs a workflow", "branch: a step needs a function",
		"early.when: ", "WARNING: early.wait: timer t is -1ns",
		"WARNING: early: it takes the result of a, which is in no layer before",
	)
	wantIssues(t, register(t, dag.New[int]("empty"), perdure.Options{}), "there are no steps")
	cancels := dag.New[int]("cancels")
	dag.Add(cancels, "a", does(1, nil)).WaitSignal("Cancel", 0)
	dag.Add(cancels, "b", does(1, nil)).WaitAny(0, dag.Signal("CancelWorkflow"), dag.Signal("x"))
	wantIssues(t, register(t, cancels, perdure.Options{}),
		`a.wait: signal "Cancel" is not valid: it cancels the run`,
		`b.wait: signal "CancelWorkflow" is not valid: it cancels the run`)
}

// spec: F-8
func TestAWarningRefusesAGraphWhereThatIsAskedFor(t *testing.T) {
	g := dag.New[int]("g")
	dag.Add(g, "a", does(1, nil)).Timeout(25 * time.Hour)
	wantIssues(t, register(t, g, perdure.Options{FailOnWarning: true}),
		"WARNING: a.timeout: a timeout of 25h0m0s")
	if got := register(t, g, perdure.Options{}); got != "" {
		t.Error(got)
	}
}

// Changes after the registration have no effect, also while runs go on.
func TestAGraphIsCompleteWhenItIsRegistered(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	a := dag.Add(g, "a", lasts(time.Hour))
	b := dag.Add(g, "b", d.notes("b")).After(a)
	perduretest.Test(t, func(env *perduretest.Env) {
		layers := fmt.Sprint(g.Layers())
		dag.Add(g, "c", d.notes("c"))
		a.After(b).When(pattern.If(nil))
		b.WaitSignal("never", 0)
		g.Mode(dag.Async).Output(a).On(pattern.Callback{})
		wantStatus(env, execute(env, g, 1), journal.Completed)
		d.want(env, "b")
		if got := fmt.Sprint(g.Layers()); got != layers {
			env.Errorf("the layers are %s, and were %s", got, layers)
		}
		g.Layers()[0][0] = "changed"
		if got := fmt.Sprint(g.Layers()); got != layers {
			env.Errorf("the layers are %s, and were %s", got, layers)
		}
	}, g)
}

// spec: F-25
func TestQueries(t *testing.T) {
	g := dag.New[int]("g")
	dag.Add(g, "a", lasts(2*time.Hour))
	dag.Add(g, "b", lasts(time.Minute)).Variable("v")
	g.Query("done", func(r report.Run, args json.RawMessage) (any, error) {
		return fmt.Sprint(len(r.Completed()), string(args)), nil
	})
	g.Query("panics", func(report.Run, json.RawMessage) (any, error) { panic("a query") })
	g.Query("fails", func(report.Run, json.RawMessage) (any, error) { return 1, errDown })
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(time.Hour)
		r := reportOf(env, run.ID())
		if got := fmt.Sprint(r.Status, r.Current(), variable(r, "v"),
			g.Layers()); got != `RUNNING [a]"done"[[a b]]` {
			env.Error(got)
		}
		if v, err := g.Answer(r.Run, "done", json.RawMessage(`7`)); v != "17" || err != nil {
			env.Errorf("the answer is %v, %v", v, err)
		}
		if _, err := g.Answer(r.Run, "panics", nil); err == nil ||
			!strings.Contains(err.Error(), "a query") {
			env.Errorf("a query that panics gives %v", err)
		}
		if v, err := g.Answer(r.Run, "fails", nil); v != 1 || !errors.Is(err, errDown) {
			env.Errorf("a query that fails gives %v, %v", v, err)
		}
		if _, err := g.Answer(r.Run, "gone", nil); !errors.Is(
			err, &perdure.Error{Code: perdure.CodeNotFound}) {
			env.Errorf("a query that is not there gives %v", err)
		}
	}, g)
}

// spec: F-22, F-23, F-24
func TestSignalsTimersAndAttributesOfAGraph(t *testing.T) {
	g := dag.New[int]("g")
	branch := dag.AddBranch(g, "mark", func(ctx context.Context, _ none) (int, error) {
		return 1, errors.Join(perdure.SetAttribute(ctx, "colour", "red"),
			perdure.SetAttribute(ctx, "size", "7"))
	})
	dag.Add(g, "wait", does(1, nil)).After(branch).WaitSignal("go", 0)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1, perdure.Attributes{"shop": "x"})
		env.Settle()
		found, _, err := env.Engine().List(env.Context(), perdure.Query{
			Attributes: map[string]string{"colour": "red", "size": "7", "shop": "x"},
		})
		if err != nil || len(found) != 1 || string(found[0].ID) != run.RunID() {
			env.Errorf("found %v, %v", found, err)
		}
		if d, err := env.Engine().Send(env.Context(), "nobody", "go", nil); err != nil ||
			!d.Unrouted {
			env.Errorf("a signal to nobody is %+v, %v", d, err)
		}
		send(env, run.ID(), "go", `1`)
		run.Returns(json.RawMessage{})
		if d, err := env.Engine().Send(env.Context(), run.RunID(), "go", nil); err != nil ||
			!d.NotDelivered {
			env.Errorf("a signal to a run that has ended is answered %+v, %v", d, err)
		}
	}, g)
}

// spec: F-9
func TestCallbacksAreCalledInTheirOrderForWhatTheyAreFor(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	dag.Add(g, "a", does(1, nil))
	dag.Add(g, "bad", does(0, errDown)).Retry(perdure.NoRetry)
	step := func(name string, priority int, steps ...string) {
		g.On(pattern.Callback{Priority: priority, Steps: steps,
			Step: func(_ context.Context, step string) error {
				d.note("%s %s", name, step)
				return errDown
			}})
	}
	step("late", 5)
	step("early", -5)
	step("other", 0, "bad")
	failure := func(name string, priority int, suppress bool, on ...error) {
		g.On(pattern.Callback{Priority: priority, On: on, Failure: func(_ context.Context,
			err error) (bool, error) {
			d.note("%s %v", name, err)
			return suppress, nil
		}})
	}
	failure("third", 3, true)
	failure("second", 2, true)
	failure("first", 1, false)
	failure("none", 0, true, context.DeadlineExceeded)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.lines = nil
		r := execute(env, g, 1)
		wantStatus(env, r, journal.Completed)
		if r.Suppressed == nil || r.Err != nil {
			env.Errorf("the report has %v and %v", r.Suppressed, r.Err)
		}
		return slices.Compact(d.lines)[:1]
	}, g)
	d.lines = nil
	perduretest.Test(t, func(env *perduretest.Env) { execute(env, g, 1) }, g)
	d.want(t, "early a", "late a", "first step bad failed: it is down",
		"second step bad failed: it is down")
}

// spec: F-8
func TestOddTimesOfAGraphAreWarnings(t *testing.T) {
	g := dag.New[int]("g", perdure.Retry{First: 49 * time.Hour})
	dag.Add(g, "a", does(1, nil))
	wantIssues(t, register(t, g, perdure.Options{FailOnWarning: true}),
		"WARNING: retry: a delay of 49h0m0s")
}

// spec: F-8
func TestARunAWaitAndAChildMayBeLong(t *testing.T) {
	waits := perdure.Define("waits", func(ctx context.Context, n int) (int, error) {
		return n, perdure.Sleep(ctx, 26*time.Hour)
	})
	g := dag.New[int]("g", perdure.Timeout(48*time.Hour))
	dag.Add(g, "a", does(1, nil)).WaitSignal("s", 30*time.Hour)
	dag.AddChild(g, "child", waits, func(n int) int { return n }).Timeout(30 * time.Hour)
	if got := register(t, g, perdure.Options{FailOnWarning: true}); got != "" {
		t.Error(got)
	}
}

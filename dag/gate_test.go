package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// send sends a signal, to a run that may have ended.
func send(env *perduretest.Env, id, name, payload string) {
	env.Helper()
	if err := env.Do(func(eng *perdure.Engine) error {
		_, err := eng.Send(env.Context(), id, name, []byte(payload),
			perdure.SendKey(fmt.Sprintf("%s-%x", name, payload)))
		return err
	}); err != nil {
		env.Error(err)
	}
}

// waits returns the things that a run waits for, by path.
func waits(env *perduretest.Env, id string) (paths []string) {
	env.Helper()
	env.Settle()
	if err := env.Do(func(eng *perdure.Engine) error {
		d, err := eng.Describe(env.Context(), id)
		for _, w := range d.State.Waits {
			paths = append(paths, fmt.Sprintf("%s %s", w.Kind, w.Path))
		}
		slices.Sort(paths)
		return err
	}); err != nil {
		env.Error(err)
	}
	return paths
}

func wantWaits(env *perduretest.Env, id string, want ...string) {
	env.Helper()
	if got := waits(env, id); !slices.Equal(got, want) {
		env.Errorf("it waits for %q, want %q", got, want)
	}
}

// variable returns a variable of a run as text.
func variable(r dag.Result, name string) string { return string(r.Variables[name]) }

// spec: F-17
func TestGatesAreInOrder(t *testing.T) {
	scenario := func(env *perduretest.Env, d *diary, g *dag.Graph[int]) any {
		run := perduretest.Start(env, g.Workflow, 1)
		wantWaits(env, run.ID(), "signal gate:a/approved")
		env.Sleep(time.Hour)
		send(env, run.ID(), "approved", `{"by":"ann"}`)
		wantWaits(env, run.ID(), "timer gate:a/cool-off")
		env.Sleep(2 * time.Hour)
		wantWaits(env, run.ID(), "signal gate:a/one", "signal gate:a/two", "timer gate:a/three")
		send(env, run.ID(), "two", `2`)
		env.Sleep(time.Minute)
		wantWaits(env, run.ID(), "signal gate:a/one", "timer gate:a/three")
		env.Sleep(3 * time.Hour)
		wantWaits(env, run.ID(), "signal gate:a/one")
		d.want(env)
		send(env, run.ID(), "one", `1`)
		run.Returns(json.RawMessage(`"a"`))
		r := reportOf(env, run.ID())
		return []string{
			variable(r, "signal.approved"), variable(r, "signal.one"), variable(r, "signal.two"),
			fmt.Sprint(len(d.lines) > 0),
		}
	}
	var d diary
	g := dag.New[int]("g")
	g.Output(dag.Add(g, "a", d.notes("a")).
		WaitAll(0, dag.Signal("one"), dag.Signal("two"), dag.Timer("three", 3*time.Hour)).
		WaitTimer("cool-off", 2*time.Hour).
		WaitSignal("approved", 0))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.lines = nil
		return scenario(env, &d, g)
	}, g)
}

// spec: F-17
func TestAGateThatTimesOutFailsTheStep(t *testing.T) {
	for name, gate := range map[string]func(*dag.Step[none, string]){
		"signal": func(s *dag.Step[none, string]) { s.WaitSignal("x", time.Hour) },
		"all": func(s *dag.Step[none, string]) {
			s.WaitAll(time.Hour, dag.Signal("x"), dag.Timer("y", time.Minute))
		},
		"any": func(s *dag.Step[none, string]) {
			s.WaitAny(time.Hour, dag.Signal("x"), dag.Signal("y"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := dag.New[int]("g")
			var d diary
			gate(dag.Add(g, "a", d.notes("a")))
			perduretest.Test(t, func(env *perduretest.Env) {
				r := execute(env, g, 1)
				wantStatus(env, r, journal.Failed)
				wantSteps(env, r, "a FAILED")
				if !errors.Is(r.Err, &perdure.Error{Code: perdure.CodeTimedOut}) {
					env.Errorf("it fails with %v", r.Err)
				}
				d.want(env)
			}, g)
		})
	}
}

// spec: F-17, F-22
func TestABufferedSignalPassesAtOnceAndHasOneConsumer(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	first := dag.Add(g, "first", lasts(time.Hour))
	for i := range 3 {
		dag.Add(g, fmt.Sprint("s", i), d.notes("passed")).After(first).WaitSignal("go", 0)
	}
	last := dag.Add(g, "any", d.notes("any")).WaitAny(0, dag.Signal("x"), dag.Signal("y"))
	dag.Add(g, "later", d.notes("later")).After(last).WaitSignal("y", 0)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1, perdure.ID("g"))
		send(env, "g", "x", `1`)
		env.Settle()
		d.want(env, "any")
		send(env, "g", "go", `1`)
		send(env, "g", "go", `2`)
		env.Sleep(time.Hour)
		env.Settle()
		d.want(env, "any", "passed", "passed")
		wantWaits(env, "g", "signal gate:later/y", "signal gate:s2/go")
		send(env, "g", "y", `1`)
		send(env, "g", "go", `3`)
		run.Returns(json.RawMessage{})
		run.Unread()
	}, g)
}

// If two signals are there, wait-any takes one, and a later step gets the other.
//
// spec: F-17, F-22
func TestWaitAnyTakesOneOfTheSignalsThatAreThere(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	first := dag.Add(g, "first", lasts(time.Hour))
	second := dag.Add(g, "second", d.notes("second")).After(first).WaitAny(time.Hour,
		dag.Timer("t", time.Minute), dag.Signal("x"), dag.Signal("y"))
	dag.Add(g, "third", d.notes("third")).After(second).WaitSignal("y", time.Hour)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, g.Workflow, 1)
		send(env, run.ID(), "y", `1`)
		send(env, run.ID(), "x", `2`)
		run.Returns(json.RawMessage{})
		r := reportOf(env, run.ID())
		return variable(r, "signal.x") + variable(r, "signal.y")
	}, g)
}

// Signals that come at the same time to a run that is not loaded are not lost: each further signal
// that wait-any takes is a variable too.
//
// spec: F-17, F-22
func TestWaitAnyLosesNoSignal(t *testing.T) {
	g := dag.New[int]("g")
	dag.Add(g, "a", does(1, nil)).WaitAny(0, dag.Signal("x"), dag.Signal("y"))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Settle()
		if err := env.Engine().Suspend(env.Context(), run.ID(), "for a while"); err != nil {
			env.Fatal(err)
		}
		send(env, run.ID(), "x", `1`)
		send(env, run.ID(), "y", `1`)
		if err := env.Engine().Resume(env.Context(), run.ID()); err != nil {
			env.Fatal(err)
		}
		run.Returns(json.RawMessage{})
		r := reportOf(env, run.ID())
		got := variable(r, "signal.x") + variable(r, "signal.y")
		if got != "11" {
			run.Unread("y")
		}
	}, g)
}

// spec: F-17, F-23
func TestATimerThatIsCancelledFromOutsidePasses(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	dag.Add(g, "one", d.notes("one")).WaitTimer("cool-off", 100*time.Hour)
	dag.Add(g, "all", d.notes("all")).WaitAll(0, dag.Timer("x", 200*time.Hour),
		dag.Timer("y", time.Minute))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.lines = nil
		run := perduretest.Start(env, g.Workflow, 1)
		wantWaits(env, run.ID(), "timer gate:all/x", "timer gate:all/y", "timer gate:one/cool-off")
		env.Sleep(time.Hour)
		for _, timer := range []string{"gate:one/cool-off", "gate:all/x"} {
			if err := env.Do(func(eng *perdure.Engine) error {
				return eng.CancelTimer(env.Context(), run.ID(), timer, "no need")
			}); err != nil {
				env.Error(err)
			}
		}
		env.Sleep(time.Hour)
		run.Returns(json.RawMessage{})
		return reportOf(env, run.ID()).Status
	}, g)
}

// spec: F-17
func TestAnyPayloadOfASignalIsKept(t *testing.T) {
	for payload, want := range map[string]string{
		"":         "null",
		`{"a":1}`:  `{"a":1}`,
		"\x00\xff": `"AP8="`,
	} {
		g := dag.New[int]("g")
		got := ""
		dag.Add(g, "a", func(ctx context.Context, in struct {
			Signal json.RawMessage `perdure:"variable=signal.x"`
		}) (int, error) {
			got = string(in.Signal)
			return 0, nil
		}).WaitSignal("x", 0)
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, g.Workflow, 1)
			if _, err := env.Engine().Send(env.Context(), run.ID(), "x",
				[]byte(payload)); err != nil {
				env.Error(err)
			}
			run.Returns(json.RawMessage{})
			if got != want {
				env.Errorf("the variable is %q, want %q", got, want)
			}
		}, g)
	}
}

// One step has a gate, a condition and a child: the condition is evaluated first, then the step
// waits at the gate, then the child starts.
//
// spec: F-16, F-17, F-18
func TestAStepWithAConditionAGateAndAChild(t *testing.T) {
	g := dag.New[int]("g")
	step := dag.AddChild(g, "a", goodChild, func(in struct {
		N int `perdure:"variable=signal.n"`
	}) int {
		return in.N
	})
	step.When(pattern.If(func(_ context.Context, k pattern.View) (bool, error) {
		return string(k.Input) == "1", nil
	})).WaitSignal("n", 0).Variable("v")
	g.Output(step)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		skipped := execute(env, g, 2, perdure.ID("skipped"))
		wantSteps(env, skipped, "a SKIPPED")
		run := perduretest.Start(env, g.Workflow, 1)
		wantWaits(env, run.ID(), "signal gate:a/n")
		send(env, run.ID(), "n", `42`)
		_, err := run.Result()
		if err != nil {
			env.Error(err)
		}
		out, _, err := step.Of(reportOf(env, run.ID()))
		if err != nil || variable(reportOf(env, run.ID()), "v") == "" {
			env.Error(err)
		}
		return fmt.Sprint(out.Status, out.Output, out.Error)
	}, g, goodChild)
}

// The time limit of a gate is not a timer that a client may cancel.
//
// spec: F-17, F-23
func TestTheDeadlineOfAGateIsNoTimer(t *testing.T) {
	g := dag.New[int]("g")
	dag.Add(g, "a", does(1, nil)).WaitAll(time.Hour, dag.Signal("go"))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Settle()
		if err := env.Engine().CancelTimer(env.Context(), run.ID(), "gate:a/perdure:late",
			"no"); journal.CodeOf(err) != journal.CodeInvalid {
			env.Errorf("it can be cancelled: %v", err)
		}
		send(env, run.ID(), "go", "1")
		run.Returns(json.RawMessage{})
	}, g)
}

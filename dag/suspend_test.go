package dag_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

// While a graph is suspended, the step that was under way ends and nothing else begins, over a
// restart too: no step whose timer or signal has come, and no later step. All of them begin when
// the graph is resumed, and none twice.
//
// spec: F-21
func TestASuspendedGraphHoldsItsGates(t *testing.T) {
	var d diary
	g := dag.New[int]("g")
	slow := dag.Add(g, "slow", lasts(time.Hour))
	timed := dag.Add(g, "timed", d.notes("timed")).WaitTimer("t", 30*time.Minute)
	asked := dag.Add(g, "asked", d.notes("asked")).WaitSignal("go", 10*time.Hour)
	// it times out meanwhile
	late := dag.Add(g, "late", d.notes("late")).WaitSignal("never", 2*time.Hour)
	dag.Add(g, "last", d.notes("last")).After(slow, timed, asked)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(10 * time.Minute)
		if err := env.Engine().Suspend(env.Context(), run.ID(), "for a while"); err != nil {
			env.Fatal(err)
		}
		env.Sleep(10 * time.Minute)
		send(env, run.ID(), "go", `1`)
		env.Sleep(4 * time.Hour)
		env.Restart()
		env.Sleep(time.Hour)
		run.Is(journal.Suspended)
		d.want(env)
		if s, _ := reportOf(env, run.ID()).Step("slow"); s.Status != report.StepIsDone {
			env.Errorf("the step that was under way is %v", s.Status)
		}
		if err := env.Engine().Resume(env.Context(), run.ID()); err != nil {
			env.Fatal(err)
		}
		_, err := run.Result()
		if r := reportOf(env, run.ID()); err == nil || r.Status != journal.Failed ||
			len(r.Failed()) != 1 || r.Failed()[0].ID != late.ID() {
			env.Errorf("it is %v: %v", r.Status, err)
		}
		// both gates have opened, and the gate that has not opened fails the layer
		if len(d.lines) != 2 {
			env.Errorf("done: %v", d.lines)
		}
		run.Executed("slow", 1)
	}, g)
	d.lines = nil
	g = dag.New[int]("g")
	dag.Add(g, "last", d.notes("last")).After(dag.Add(g, "timed", d.notes("timed")).
		WaitTimer("t", 30*time.Minute))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.lines = nil
		run := perduretest.Start(env, g.Workflow, 1)
		for _, act := range []func(*perdure.Engine) error{
			func(eng *perdure.Engine) error {
				return eng.Suspend(env.Context(), run.ID(), "for a while")
			},
			func(eng *perdure.Engine) error { return eng.Resume(env.Context(), run.ID()) },
		} {
			// the act was done, and a crash hid it
			if err := env.Do(act); err != nil && journal.CodeOf(err) != journal.CodeWrongState {
				env.Error(err)
			}
			env.Sleep(time.Hour)
		}
		run.Returns(json.RawMessage{})
		return nil
	}, g)
}

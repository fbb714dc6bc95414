package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// did is the body of a step that does nothing.
func did[T any](context.Context, T) (int, error) { return 1, nil }

func undone[T any](context.Context, T, int) error { return nil }

var errPaced = perdure.Permanent(errors.New("it is meant to fail"))

// walk lets a run go on one step at a time, and returns the steps with what each has come to.
func walk[O any](run *perduretest.Run[O]) (out []string) {
	for {
		s, ok := run.Next()
		if !ok {
			return out
		}
		out = append(out, fmt.Sprintf("%s %v", s.Path, s.Status))
	}
}

// Every pattern goes on one step at a time: what follows a step is not called before the test lets
// it go on.
//
// spec: R-39
func TestEveryPatternGoesStepByStep(t *testing.T) {
	code := perdure.Define("code", func(ctx context.Context, _ string) (int, error) {
		for _, name := range []string{"a", "b"} {
			if _, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
				return 1, nil
			}, perdure.Retry{Attempts: 2, First: time.Hour}); err != nil {
				return 0, err
			}
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
		}
		return 2, nil
	})
	graph := dag.New[string]("graph")
	first := dag.Add(graph, "a", did[string])
	left := dag.Add(graph, "b", did[string]).After(first)
	right := dag.Add(graph, "c", did[string]).After(first)
	graph.Output(dag.Add(graph, "d", did[string]).After(left, right))

	trip := saga.New[string]("trip")
	a := saga.Add(trip, "a", did[string]).Undo(undone[string])
	b := saga.Add(trip, "b", did[string]).Undo(undone[string]).After(a)
	saga.Add(trip, "c", did[string]).After(b)

	move := tcc.New[string]("move")
	tcc.Add(move, "a", did[string]).Confirm(undone[string]).Cancel(undone[string])
	tcc.Add(move, "b", did[string]).Confirm(undone[string]).Cancel(undone[string])

	states := machine.New[string]("states", "a")
	machine.Add(states, "a", machine.Do(did[string])).To("b")
	machine.Add(states, "b", machine.Do(did[int])).To("c")
	machine.Add(states, "c", machine.Do(did[int]))

	all := []perdure.Definition{code, graph, trip, move, states}
	for _, c := range []struct {
		name  string
		fails string // the step that fails
		start func(env *perduretest.Env) func() []string
		want  []string
	}{
		{
			"code", "", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, code, "")
				return func() []string { return walk(run) }
			}, []string{"a DONE", "b DONE"},
		},
		{
			"code that is tried again", "a", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, code, "")
				return func() []string { return walk(run) }
			}, []string{"a FAILED"},
		},
		{
			"graph", "", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, graph.Workflow, "")
				return func() []string { return walk(run) }
			}, []string{"a DONE", "b DONE", "c DONE", "d DONE"},
		},
		{
			"saga", "c", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, trip.Workflow, "")
				return func() []string { return walk(run) }
			}, []string{"a DONE", "b DONE", "c FAILED", "undo:b DONE", "undo:a DONE"},
		},
		{
			"tcc", "", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, move.Workflow, "")
				return func() []string { return walk(run) }
			}, []string{"try:a TRIED", "try:b TRIED", "confirm:a CONFIRMED", "confirm:b CONFIRMED"},
		},
		{
			"machine", "", func(env *perduretest.Env) func() []string {
				run := perduretest.Start(env, states.Workflow, "")
				return func() []string { return walk(run) }
			}, []string{"a DONE", "b DONE", "c DONE"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, crash := range []bool{false, true} {
				perduretest.Setup{Workflows: all}.Test(t, func(env *perduretest.Env) {
					env.StepByStep()
					if c.fails != "" {
						env.Step(c.fails).Fail(1, errPaced)
					}
					walk := c.start(env)
					if crash {
						env.Settle()
						env.Crash()
					}
					env.Step("b").Executed(0)
					if got := walk(); !slices.Equal(got, c.want) {
						t.Errorf("with a crash %v: %q, want %q", crash, got, c.want)
					}
				})
			}
		})
	}
}

// Nothing is executed between two calls of Next, and time passes only where nothing else can be
// done: for a timer, an attempt that is tried again, the limit of a wait.
//
// spec: R-39
func TestOneStepAtATimeSkipsTime(t *testing.T) {
	stop := perdure.NewSignal[int]("stop")
	w := perdure.Define("w", func(ctx context.Context, _ string) (string, error) {
		if err := perdure.Do(ctx, "a", func(context.Context) error { return nil },
			perdure.Retry{Attempts: 3, First: time.Hour, Factor: 1}); err != nil {
			return "", err
		}
		if _, err := stop.Wait(ctx, perdure.Within(48*time.Hour)); err == nil {
			return "stopped", nil
		}
		return "late", perdure.Do(ctx, "b", func(context.Context) error { return nil })
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		env.Step("a").Fail(2, errors.New("not now"))
		began := time.Now()
		run := perduretest.Start(env, w, "")
		for i, want := range []journal.StepStatus{
			journal.StepIsRetrying, journal.StepIsRetrying, journal.StepIsDone,
		} {
			if held := run.Held(); i == 0 && !slices.Equal(held, []string{"a"}) {
				t.Errorf("%q are held", held)
			}
			run.Executed("a", i)
			s, ok := run.Next()
			if !ok || s.Path != "a" || s.Status != want || s.Attempts != i+1 {
				t.Errorf("attempt %d: %+v, %v; want %v", i+1, s, ok, want)
			}
			if passed := time.Since(began); passed != time.Duration(i)*time.Hour {
				t.Errorf("%v have passed at attempt %d", passed, i+1)
			}
		}
		run.Waits("stop")
		if held := run.Held(); len(held) > 0 {
			t.Errorf("%q are held", held)
		}
		if passed, ok := run.Advance(); !ok || passed != 48*time.Hour {
			t.Errorf("%v, %v: the limit of the wait was to pass", passed, ok)
		}
		if held := run.Held(); !slices.Equal(held, []string{"b"}) {
			t.Errorf("%q are held", held)
		}
		if _, ok := run.Advance(); ok {
			t.Error("something was due beside the step that is held")
		}
		run.Executed("b", 0)
		run.Returns("late") // it lets everything go on
		if _, ok := run.Next(); ok {
			t.Error("a run that has ended went on")
		}
	}, w)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		run := perduretest.Start(env, w, "")
		run.Next()
		perduretest.Send(env, stop, run.ID(), 1)
		if s, ok := run.Next(); ok {
			t.Errorf("%+v went on", s)
		}
		run.Returns("stopped")
	}, w)
}

// Of steps that go on beside each other, the test chooses. The steps of children go on with those
// of their parent, and those of other runs do not.
//
// spec: R-39
func TestTheTestChoosesWhichStepGoesOn(t *testing.T) {
	kid := perdure.Define("kid", func(ctx context.Context, _ string) (int, error) {
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return 1, perdure.Do(ctx, "inner", func(context.Context) error { return nil })
	})
	w := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
		for _, key := range []string{"1", "2", "3"} {
			perdure.Async(ctx, "side", func(context.Context) (int, error) { return 1, nil },
				perdure.Key(key))
		}
		return kid.Child(ctx, "").Await(ctx)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		run, other := perduretest.Start(env, w, ""), perduretest.Start(env, w, "")
		if held := run.Held(); !slices.Equal(held, []string{"side[1]", "side[2]", "side[3]"}) {
			t.Errorf("%q are held", held)
		}
		for _, c := range []struct{ name, want string }{
			{"side[2]", "side[2]"}, {"side", "side[1]"}, {"side", "side[3]"}, {"inner", "inner"},
		} {
			if s, ok := run.Next(c.name); !ok || s.Path != c.want {
				t.Errorf("%+v, %v; want %s", s, ok, c.want)
			}
		}
		if s, ok := run.Next("side"); ok {
			t.Errorf("%+v went on", s)
		}
		run.Is(journal.Completed)
		other.Executed("side", 0)
		env.Release()
		other.Executed("side", 3)
		env.Step("inner").Executed(2)
	}, w, kid)
}

// The engine's own workflows are not held.
//
// spec: R-39
func TestABatchIsNotHeld(t *testing.T) {
	w := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
		return 1, perdure.Do(ctx, "a", func(context.Context) error { return nil })
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		run := perduretest.Start(env, w, "")
		env.Settle()
		if _, err := batch.Start(env.Context(), env.Engine(), batch.Spec{
			Order: admin.Order{Action: journal.ActionCancel}, Runs: []string{run.ID()},
		}); err != nil {
			t.Fatal(err)
		}
		env.Sleep(time.Minute)
		run.Is(journal.Cancelled)
	}, w, batch.Workflow())
}

// A suspended run goes on by no step and by no time. An attempt that is held passes its timeout.
//
// spec: R-39
func TestAHeldStepIsSuspendedAndTimesOut(t *testing.T) {
	w := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
		_, err := perdure.Step(ctx, "a", func(context.Context) (int, error) { return 1, nil },
			perdure.Timeout(time.Minute), perdure.NoRetry)
		if err != nil {
			return 0, err
		}
		return 1, perdure.Sleep(ctx, time.Hour)
	})
	waits := perdure.Define("waits", func(ctx context.Context, _ string) (int, error) {
		return perdure.NewSignal[int]("go").Wait(ctx, perdure.Within(time.Hour))
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		run := perduretest.Start(env, w, "")
		run.Next()
		if err := env.Engine().Suspend(env.Context(), run.RunID(), "holiday"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, ok := run.Next(); ok || time.Since(began) > 0 {
			t.Errorf("it went on, after %v", time.Since(began))
		}
		run.Is(journal.Suspended)

		paused := perduretest.Start(env, waits, "")
		env.Settle()
		a := admin.New(env.Engine())
		if err := a.PauseWorkflow(env.Context(), "waits", admin.Note{}); err != nil {
			t.Fatal(err)
		}
		env.Sleep(2 * time.Hour) // what it waits for is over
		if passed, ok := paused.Advance(); ok {
			t.Errorf("%v have passed", passed)
		}
		if err := a.ResumeWorkflow(env.Context(), "waits", admin.Note{}); err != nil {
			t.Fatal(err)
		}
		env.Settle()

		late := perduretest.Start(env, w, "")
		env.Settle()
		env.Sleep(time.Minute)
		if held := late.Held(); len(held) > 0 {
			t.Errorf("%q are held", held)
		}
		late.Fails(context.DeadlineExceeded)
		late.Executed("a", 0)
	}, w, waits)
}

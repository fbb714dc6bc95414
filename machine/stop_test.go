package machine_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// history returns the journal of a run.
func history(env *perduretest.Env, id string) []journal.Entry {
	var entries []journal.Entry
	if err := env.Do(func(eng *perdure.Engine) error {
		data, err := perduretest.Export(env.Context(), eng.Client, id)
		if err == nil {
			entries, err = journal.Read(bytes.NewReader(data))
		}
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return entries
}

// inOrder returns the paths of the visits that were put on the undo stack, in the order of their
// records, and those that were undone.
func inOrder(entries []journal.Entry) (done, undone []string) {
	a := journal.NewAggregate("r", "x", "m", journal.PatternMachine)
	for _, e := range entries {
		if a.Apply(e) != nil {
			return nil, nil
		}
		op := e.Op
		d := e.Detail
		if d == nil {
			continue
		}
		if d.GoesOn {
			op.Occ = 1
		}
		switch {
		case e.Kind == journal.StepCompleted && d.Undo && (d.Then == "" || d.Then == "SPLIT"):
			done = append(done, a.Path(op))
		case e.Kind == journal.StepCompensated:
			undone = append(undone, a.Path(a.About(e.Op)))
		}
	}
	return done, undone
}

// checkOrder fails the test unless everything that was done is undone, the last first.
func checkOrder(env *perduretest.Env, what string) {
	done, undone := inOrder(history(env, "x"))
	slices.Reverse(undone)
	if !slices.Equal(done, undone) {
		env.Errorf("%s: done are %v, and undone, the last first, %v", what, done, undone)
	}
}

func act(env *perduretest.Env, id string, o admin.Order) (run string) {
	env.Helper()
	if err := env.Do(func(eng *perdure.Engine) error {
		acted, err := admin.New(eng).Act(env.Context(), id, o)
		run = acted.RunID
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return run
}

// spec
func TestAMachineThatIsStoppedAtAnyTimeIsUndone(t *testing.T) {
	how := map[string]struct {
		stop   func(*perduretest.Env)
		opts   func(at time.Duration) []perdure.WorkflowOption
		status perdure.RunStatus
		undoes bool
	}{
		"cancel": {stop: func(env *perduretest.Env) {
			act(env, "x", admin.Order{Action: journal.ActionCancel})
		}, status: perdure.StatusCancelled},
		"cancel with compensation": {stop: func(env *perduretest.Env) {
			act(env, "x", admin.Order{Action: journal.ActionCancel, Compensate: true})
		}, status: perdure.StatusCancelled, undoes: true},
		"a signal Cancel": {stop: func(env *perduretest.Env) {
			perduretest.Send(env, perdure.NewSignal[int]("Cancel"), "x", 1)
		}, status: perdure.StatusCancelled, undoes: true},
		"a signal CancelWorkflow without compensation": {stop: func(env *perduretest.Env) {
			perduretest.Send(env, perdure.NewSignal[map[string]bool]("CancelWorkflow"), "x",
				map[string]bool{"runCompensations": false})
		}, status: perdure.StatusCancelled},
		"timeout": {stop: func(*perduretest.Env) {}, opts: func(
			at time.Duration) []perdure.WorkflowOption {
			return []perdure.WorkflowOption{perdure.Timeout(at)}
		}, status: perdure.StatusTimedOut, undoes: true},
		"suspend": {stop: func(env *perduretest.Env) {
			act(env, "x", admin.Order{Action: journal.ActionSuspend})
			env.Sleep(time.Hour)
			act(env, "x", admin.Order{Action: journal.ActionResume})
		}},
	}
	for name, h := range how {
		t.Run(name, func(t *testing.T) {
			stopped := 0
			for seed := range uint64(60) {
				rng := rand.New(rand.NewPCG(seed, 18))
				w := newWorld(random(rng))
				at := time.Duration(rng.IntN(120)) * time.Second
				var opts []perdure.WorkflowOption
				if h.opts != nil {
					opts = h.opts(at + time.Millisecond)
				}
				m := w.machine("m", opts...)
				perduretest.Test(t, func(env *perduretest.Env) {
					w.reset()
					run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
					env.Sleep(at)
					if h.opts == nil && run.Report().Status.IsTerminal() {
						return
					}
					h.stop(env)
					if h.status == 0 {
						if d := w.differ(w.finish(env, run), 1); d != "" {
							t.Errorf("seed %d at %v: %s", seed, at, d)
						}
						stopped++
						return
					}
					env.Sleep(time.Second)
					if got := run.Report().Status; h.opts != nil && got != h.status {
						return // it has ended before
					}
					run.Is(h.status)
					stopped++
					if h.undoes {
						checkOrder(env, fmt.Sprintf("seed %d at %v", seed, at))
					} else if len(w.undone) > 0 {
						t.Errorf("seed %d at %v: undone are %v", seed, at, w.undone)
					}
				}, m, kid)
				if t.Failed() {
					return
				}
			}
			if stopped < 10 {
				t.Errorf("only %d runs were stopped", stopped)
			}
		})
	}
}

// spec: R-8
func TestARollbackIsInTheRealOrderOfCompletion(t *testing.T) {
	several := 0
	for seed := range uint64(900) {
		w := newWorld(random(rand.New(rand.NewPCG(seed, 19))))
		m := w.machine("m")
		perduretest.Test(t, func(env *perduretest.Env) {
			if got := w.play(env, m, 1); got.Status == perdure.StatusCompensated {
				checkOrder(env, fmt.Sprint("seed ", seed))
				if len(got.Undone) > 2 {
					several++
				}
			}
		}, m, kid)
		if t.Failed() {
			return
		}
	}
	if several < 10 {
		t.Errorf("only %d rollbacks had several steps", several)
	}
}

// chain is a machine of four steps that can be undone, the last of which is followed by a failure.
// The compensation of one step fails at first.
func chain(stuck int, last string) shape {
	s := shape{visits: 3}
	for i := range 4 {
		t := state{id: fmt.Sprint("s", i), last: "done", undo: true}
		t.to = []string{fmt.Sprint("s", i+1)}
		if i == stuck {
			t.stuck = 1
		}
		s.steps = append(s.steps, t)
	}
	s.steps = append(s.steps, state{id: "s4", last: last})
	return s
}

// spec: R-9
func TestARollbackThatStallsGoesOnFromThere(t *testing.T) {
	for stuck := range 4 {
		w := newWorld(chain(stuck, "fail"))
		m := w.machine("m")
		perduretest.Test(t, func(env *perduretest.Env) {
			w.reset()
			run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
			env.Sleep(time.Minute)
			run.Is(journal.CompensationFailed)
			wait := run.Waits(fmt.Sprintf("undo:s%d#2", stuck))
			want := fmt.Sprintf("rollback incomplete: %d not yet undone", stuck+1)
			if !strings.HasPrefix(wait.Reason, want) {
				t.Errorf("it waits because of %q, want %q", wait.Reason, want)
			}
			act(env, "x", admin.Order{Action: journal.ActionResume})
			env.Sleep(time.Minute)
			run.Is(journal.Compensated)
			checkOrder(env, fmt.Sprint("stuck at ", stuck))
			if got := strings.Join(w.undone, " "); got != "s3 s2 s1 s0" {
				t.Errorf("undone are %s", got)
			}
			for path, n := range w.done {
				if n != 1 {
					t.Errorf("%s was called %d times", path, n)
				}
			}
		}, m)
	}
}

// spec
func TestARollbackThatStallsWithinSplitsGoesOnFromThere(t *testing.T) {
	stalled := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 20))
		s := random(rng)
		if !slices.ContainsFunc(s.steps, func(t state) bool { return t.last == "split" }) {
			continue
		}
		for i := range s.steps {
			s.steps[i].undo, s.steps[i].stuck = true, rng.IntN(2)
		}
		s.steps[len(s.steps)-1].last = "fail"
		w := newWorld(s)
		m := w.machine("m")
		perduretest.Test(t, func(env *perduretest.Env) {
			got := w.play(env, m, 1)
			if w.stalls == 0 {
				return
			}
			stalled++
			checkOrder(env, fmt.Sprint("seed ", seed))
			if d := w.differ(got, 1); d != "" {
				t.Errorf("seed %d: %s", seed, d)
			}
		}, m, kid)
		if t.Failed() {
			return
		}
	}
	if stalled < 10 {
		t.Errorf("only %d rollbacks have stalled", stalled)
	}
}

// spec
func TestARollbackThatStallsEndsAsItBegan(t *testing.T) {
	w := newWorld(chain(1, "done"))
	w.steps[4].calls = []string{"signal"}
	m := w.machine("m")
	perduretest.Test(t, func(env *perduretest.Env) {
		w.reset()
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		act(env, "x", admin.Order{Action: journal.ActionCancel, Compensate: true})
		env.Sleep(time.Minute)
		run.Is(journal.CompensationFailed)
		act(env, "x", admin.Order{Action: journal.ActionResume})
		env.Sleep(time.Minute)
		run.Is(journal.Cancelled)
		checkOrder(env, "cancelled")
	}, m)
}

// spec: R-10
func TestACompletedMachineIsUndoneOnDemand(t *testing.T) {
	w := newWorld(chain(-1, "done"))
	m := w.machine("m")
	perduretest.Test(t, func(env *perduretest.Env) {
		w.reset()
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		run.Is(journal.Completed)
		back := act(env, "x", admin.Order{Action: journal.ActionCompensate})
		env.Settle()
		perduretest.Get(env, m.Workflow, back).Is(journal.Compensated)
		run.Is(journal.Completed)
		if got := strings.Join(w.undone, " "); got != "s3 s2 s1 s0" {
			t.Errorf("undone are %s", got)
		}
	}, m)
}

// spec
func TestAStepThatHasSplitIsDoneAndCanBeUndone(t *testing.T) {
	undone := 0
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "b", 1)))).Split("b").
		Undo(func(context.Context, int) error { undone++; return nil })
	machine.Add(m, "b", plus(1))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		run.Is(journal.Completed)
		if s, found := run.Report().Step("a"); !found || s.Status != journal.StepIsDone {
			t.Errorf("the step is %v", s.Status)
		}
		back := act(env, "x", admin.Order{Action: journal.ActionCompensate})
		env.Settle()
		perduretest.Get(env, m.Workflow, back).Is(journal.Compensated)
	}, m)
	if undone != 1 {
		t.Errorf("it was undone %d times", undone)
	}
}

var _ = machine.End

// spec
func TestACompensationHasATimeoutAndSeesTheChildren(t *testing.T) {
	m := machine.New[int]("m", "a")
	tries := 0
	machine.Add(m, "a", func(ctx context.Context, n int) (machine.Action, error) {
		if _, ended, err := machine.OutcomeOf[int](ctx, "k"); err != nil || !ended {
			return machine.StartChild(machine.ChildOf(kid, "k", n)), err
		}
		return machine.Complete(n), nil
	}).To("b").Undo(func(ctx context.Context, _ int) error {
		out, ended, err := machine.OutcomeOf[int](ctx, "k")
		if err != nil || !ended || out.Output != 2 {
			t.Errorf("%+v, %v, %v", out, ended, err)
		}
		if tries++; tries == 1 {
			<-ctx.Done()
		}
		return ctx.Err()
	}).UndoTimeout(time.Minute).UndoRetry(perdure.Retry{Attempts: 2, NoDelay: true})
	machine.Add(m, "b", returns(machine.Fail("no", nil)))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		env.Sleep(2 * time.Minute)
		run.Is(journal.Compensated)
		if tries != 2 {
			t.Errorf("%d attempts", tries)
		}
	}, m, kid)
}

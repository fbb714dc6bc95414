package machine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// An interrupted is a machine with a split whose branch "fails" fails after a minute, while the
// others are in the middle of their steps: two rest for an hour before they are tried again.
func interrupted(undone *atomic.Int32) *machine.Machine[int] {
	hourly := perdure.Retry{Attempts: 9, First: time.Hour, Cap: time.Hour, Factor: 1}
	m := machine.New[int]("m", "a").OnError("mend")
	machine.Add(m, "a", returns(machine.Split(
		machine.BranchOf("rests", "rests", 0), machine.BranchOf("works", "works", 0),
		machine.BranchOf("ends", "ends", 0), machine.BranchOf("splits", "splits", 0),
		machine.BranchOf("late", "late", 0), machine.BranchOf("slept", "slept", 0),
		machine.BranchOf("fails", "fails", 0),
	))).Split("rests", "works", "ends", "splits", "late", "slept", "fails")
	machine.Add(m, "splits", returns(machine.Split(machine.BranchOf("in", "rests", 0)))).
		Split("rests")
	machine.Add(m, "slept", func(ctx context.Context, _ int) (machine.Action, error) {
		if slept, _, err := machine.State[bool](ctx); err != nil || !slept {
			return machine.Sleep(30 * time.Second).Keep(true), err
		}
		time.Sleep(2 * time.Minute)
		return machine.Complete(1), nil
	})
	machine.Add(m, "late", func(context.Context, int) (machine.Action, error) {
		time.Sleep(2 * time.Minute)
		return machine.Split(machine.BranchOf("in", "never", 0)), nil
	}).Split("never")
	machine.Add(m, "rests", returns(machine.Retry(hourly, nil)))
	machine.Add(m, "works", func(ctx context.Context, _ int) (machine.Action, error) {
		if n, _, err := perdure.Attempt(ctx); err != nil || n > 1 {
			time.Sleep(2 * time.Minute)
		}
		return machine.Action{}, errBad
	}).Retry(perdure.Retry{Attempts: 9, First: 30 * time.Second}).OnError("never")
	machine.Add(m, "ends", func(context.Context, int) (machine.Action, error) {
		time.Sleep(2 * time.Minute)
		return machine.Complete(1), nil
	}).To("never").Undo(func(context.Context, int) error {
		undone.Add(1)
		return nil
	})
	machine.Add(m, "never", plus(0))
	machine.Add(m, "fails", func(context.Context, int) (machine.Action, error) {
		time.Sleep(time.Minute)
		return machine.Fail("no", nil), nil
	})
	machine.Add(m, "mend", func(ctx context.Context, _ int) (machine.Action, error) {
		f, _ := machine.FailureOf(ctx)
		return machine.Fail("after "+f.Reason, nil), nil
	})
	return m
}

// spec
func TestAnErrorRouteDoesNotWaitForFurtherAttempts(t *testing.T) {
	undone := &atomic.Int32{}
	m := interrupted(undone)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(10 * time.Minute)
		run.Is(journal.Compensated)
		got := map[string]string{}
		for _, s := range run.Report().Steps {
			got[s.ID] = fmt.Sprint(s.Status, " ", s.Attempts)
		}
		for path, want := range map[string]string{
			"split.a[rests]/rests":                   "CANCELLED 1",
			"split.a[splits]/split.splits[in]/rests": "CANCELLED 1",
			"split.a[works]/works":                   "FAILED 2",
			"split.a[ends]/ends":                     "COMPENSATED 1",
			"split.a[fails]/fails":                   "FAILED 1",
			"mend":                                   "FAILED 1",
			"split.a[works]/never":                   "", "split.a[ends]/never": "",
			"split.a[slept]/slept":               "DONE 1",
			"split.a[late]/split.late[in]/never": "", "split.a[late]/late": "DONE 1",
		} {
			if got[path] != want {
				t.Errorf("%s is %q, want %q", path, got[path], want)
			}
		}
		if n := undone.Load(); n != 1 {
			t.Errorf("undone %d times", n)
		}
	}, m)
}

// spec
func TestAnErrorRouteAfterCrashesDoesNotWaitForFurtherAttempts(t *testing.T) {
	m := interrupted(&atomic.Int32{})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(30 * time.Minute)
		return run.Report().Status
	}, m)
}

// spec: R-24
func TestTheFirstFailureOfASplitIsThatOfTheRun(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "fails", 3),
		machine.BranchOf("y", "fails", 1), machine.BranchOf("z", "fails", 2)))).Split("fails")
	machine.Add(m, "fails", func(_ context.Context, n int) (machine.Action, error) {
		time.Sleep(time.Duration(n) * time.Minute)
		return machine.Fail(fmt.Sprint("no ", n), nil), nil
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(time.Hour)
		run.Is(journal.Failed)
		want := "step split.a[y]/fails failed: no 1"
		if err := run.Report().Err; err == nil || err.Error() != want {
			t.Error(err)
		}
		return nil
	}, m)
}

// spec
func TestTheStepsOfAnErrorRouteSeeTheFailure(t *testing.T) {
	sees := func(to ...machine.Branch) func(context.Context, int) (machine.Action, error) {
		return func(ctx context.Context, _ int) (machine.Action, error) {
			f, found := machine.FailureOf(ctx)
			if !found || f.Reason != "no" || f.Step != "a" {
				t.Errorf("%+v, %v", f, found)
			}
			if to != nil {
				return machine.Split(to...), nil
			}
			return machine.Complete(1), nil
		}
	}
	for name, route := range map[string]func(*machine.Machine[int], *machine.Step[int]){
		"of the machine": func(m *machine.Machine[int], _ *machine.Step[int]) { m.OnError("mend") },
		"of the step":    func(_ *machine.Machine[int], s *machine.Step[int]) { s.OnError("mend") },
	} {
		m := machine.New[int]("m", "a")
		route(m, machine.Add(m, "a", returns(machine.Fail("no", nil))))
		machine.Add(m, "mend", sees(machine.BranchOf("x", "mended", 0))).Split("mended")
		machine.Add(m, "mended", sees())
		t.Run(name, func(t *testing.T) {
			if out, err := play(t, m); err != nil || out != `{"x":1}` {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}

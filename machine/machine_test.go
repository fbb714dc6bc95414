package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// returns makes a step that returns an action.
func returns(a machine.Action) func(context.Context, int) (machine.Action, error) {
	return func(context.Context, int) (machine.Action, error) { return a, nil }
}

func plus(n int) func(context.Context, int) (machine.Action, error) {
	return machine.Do(func(_ context.Context, in int) (int, error) { return in + n, nil })
}

// spec
func TestAStepsInputIsTheOutputOfTheStepBefore(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", plus(1)).To("b")
	machine.Add(m, "b", plus(10)).To("c")
	machine.Add(m, "c", plus(100))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		if got, err := run.Result(); err != nil || string(got) != "112" {
			t.Errorf("%s, %v", got, err)
		}
	}, m)
}

// spec: R-2
func TestARunSuspendsSleepsAndYields(t *testing.T) {
	m := machine.New[int]("m", "a")
	var calls []string
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		n, _, err := machine.State[int](ctx)
		if err != nil {
			return machine.Action{}, err
		}
		n++
		calls = append(calls, fmt.Sprint(n, perdure.IdempotencyKey(ctx)[:3]))
		switch n {
		case 1:
			return machine.Yield(n), nil
		case 2:
			return machine.Sleep(time.Hour).Keep(n), nil
		case 3:
			return machine.Suspend().Keep(n), nil
		case 4:
			return machine.Suspend().Within(time.Minute, "").Keep(n), nil
		}
		if !machine.Late(ctx) {
			return machine.Fail("it is not late", nil), nil
		}
		return machine.Complete(n), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		env.Sleep(time.Hour)
		env.Settle()
		perduretest.Send(env, perdure.NewSignal[int]("go"), "x", 1)
		if got, err := run.Result(); err != nil || string(got) != "5" {
			t.Errorf("%s, %v %v", got, err, calls)
		}
	}, m)
	t.Log(calls)
}

// spec
func TestAFailureUndoesWhatIsDone(t *testing.T) {
	m := machine.New[int]("m", "a")
	var undone []string
	undo := func(name string) func(context.Context, int) error {
		return func(ctx context.Context, in int) error {
			out, _, err := machine.OutputOf[int](ctx)
			f, _ := machine.FailureOf(ctx)
			undone = append(undone, fmt.Sprint(name, in, out, f.Reason, string(f.Data)))
			return err
		}
	}
	machine.Add(m, "a", plus(1)).Undo(undo("a")).To("b")
	machine.Add(m, "b", plus(10)).Undo(undo("b")).To("c")
	machine.Add(m, "c", returns(machine.Fail("no room", 7)))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		_, err := run.Result()
		if err == nil || !strings.Contains(err.Error(), "step c failed: no room") {
			t.Error(err)
		}
		run.Is(perdure.StatusCompensated)
	}, m)
	if got := strings.Join(undone, ";"); got != "b2 12no room7;a1 2no room7" {
		t.Error(got)
	}
}

// spec: R-24
func TestASplitJoinsTheOutputsOfItsBranches(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "b", 1),
		machine.BranchOf("y", "b", 2)))).Split("b").To("join")
	machine.Add(m, "b", plus(10)).To("c")
	machine.Add(m, "c", plus(100))
	machine.Add(m, "join", machine.Do(func(_ context.Context, in map[string]int) (int, error) {
		return in["x"] + in["y"], nil
	}))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		if got, err := run.Result(); err != nil || string(got) != "223" {
			t.Errorf("%s, %v", got, err)
		}
	}, m)
}

var errNo = errors.New("no")

// spec: R-5
func TestAStepAsksToBeCalledAgain(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		n, last, err := perdure.Attempt(ctx)
		if err != nil || n > 1 && last != (n == 3) {
			return machine.Fail(fmt.Sprint("wrong", n, last), nil), err
		}
		return machine.Retry(perdure.Retry{Attempts: 3}, errNo), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		_, err := run.Result()
		t.Log(err)
		if err == nil || !strings.Contains(err.Error(), "after 3 attempts: no") {
			t.Error(err)
		}
	}, m)
}

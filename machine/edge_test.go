package machine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// spec
func TestASignalThatABranchLetsGoWakesTheOthers(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		return machine.Split(machine.BranchOf("x", "x", 0), machine.BranchOf("y", "y", 0)), nil
	}).Split("x", "y")
	machine.Add(m, "x", func(ctx context.Context, _ int) (machine.Action, error) {
		got, err := item.All(ctx)
		if len(got) == 0 || err != nil {
			return machine.Suspend(), err
		}
		time.Sleep(time.Minute)
		if len(got) == 1 { // it is for the other one
			return machine.Suspend(), nil
		}
		return machine.Complete(0), nil
	})
	calls := 0
	machine.Add(m, "y", func(ctx context.Context, _ int) (machine.Action, error) {
		calls++
		time.Sleep(time.Second)
		got, err := item.All(ctx)
		if len(got) == 0 || err != nil {
			return machine.Suspend(), err
		}
		return machine.Complete(0), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		perduretest.Send(env, item, "x", 1)
		env.Sleep(10 * time.Minute)
		run.Unread()
		if calls > 5 {
			t.Errorf("%d calls", calls)
		}
	}, m)
}

// spec
func TestASignalThatABranchLetsGoIsNotLostInACrash(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		return machine.Split(machine.BranchOf("x", "x", 0), machine.BranchOf("y", "y", 0)), nil
	}).Split("x", "y")
	machine.Add(m, "x", func(ctx context.Context, _ int) (machine.Action, error) {
		got, err := item.All(ctx)
		if len(got) == 0 || err != nil {
			return machine.Suspend(), err
		}
		time.Sleep(time.Minute)
		return machine.Suspend().Within(time.Hour, "over"), nil
	}).To("over")
	machine.Add(m, "over", plus(0))
	machine.Add(m, "y", func(ctx context.Context, _ int) (machine.Action, error) {
		time.Sleep(time.Second)
		got, err := item.All(ctx)
		if len(got) == 0 || err != nil {
			return machine.Suspend(), err
		}
		return machine.Complete(0), nil
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		perduretest.Send(env, item, "x", 1, perdure.SendKey("k"))
		env.Sleep(3 * time.Hour)
		run.Unread()
		return run.Report().Status
	}, m)
}

// spec: R-19
func TestNoTwoBranchesTakeOneOfManySignals(t *testing.T) {
	const n = 1100
	var mu sync.Mutex
	var taken []int
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		return machine.Split(machine.BranchOf("x", "x", 5), machine.BranchOf("y", "x", 0)), nil
	}).Split("x")
	machine.Add(m, "x", func(ctx context.Context, in int) (machine.Action, error) {
		got, ok, err := item.Latest(ctx)
		if err != nil {
			return machine.Action{}, err
		}
		if !ok {
			return machine.Suspend().Within(time.Hour, "over"), nil
		}
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, got)
		return machine.Complete(in).To("x"), nil
	}).To("x", "over")
	machine.Add(m, "over", plus(0))
	m.Visits(10 * n)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		act(env, "x", admin.Order{Action: journal.ActionSuspend})
		for i := range n {
			perduretest.Send(env, item, "x", i)
		}
		env.Restart()
		act(env, "x", admin.Order{Action: journal.ActionResume})
		env.Sleep(3 * time.Hour)
		run.Is(journal.Completed)
		run.Unread()
		seen := map[int]int{}
		for _, i := range taken {
			seen[i]++
		}
		if len(seen) != n || len(taken) != n {
			t.Error(len(seen), len(taken))
		}
	}, m)
}

// spec
func TestSameVersionIsForOneSuccessor(t *testing.T) {
	mk := func(n int, older ...*machine.Machine[int]) *machine.Machine[int] {
		m := machine.New[int]("m", "a").Version(n, older...)
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			if in > 1 {
				return machine.Complete(n), nil
			}
			if done, _, err := machine.State[bool](ctx); err != nil || !done {
				return machine.Sleep(time.Hour).Keep(true), err
			}
			a := machine.ContinueAsNew(in + 1)
			if in == 0 {
				a = a.SameVersion()
			}
			return a, nil
		})
		return m
	}
	v1 := mk(1)
	v2 := mk(2, v1)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, v1.Workflow, 0)
		env.Sleep(time.Minute)
		env.Deploy(v2)
		run.Returns([]byte("2"))
	}, v1)
}

// spec: R-38
func TestAMachineWithoutAVersionLeavesRunsOfAVersionAlone(t *testing.T) {
	v1 := version(1)
	v0 := version(0)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, v1.Workflow, 100, perdure.ID("x"))
		env.Sleep(time.Minute)
		env.Deploy(v0)
		env.Sleep(2 * time.Hour)
		run.Is(journal.Suspended)
		env.Deploy(version(1))
		act(env, "x", admin.Order{Action: journal.ActionResume})
		run.Returns([]byte("101"))
	}, v1)
}

// spec: R-8
func TestErrorRoutesInACircleEnd(t *testing.T) {
	m := machine.New[int]("m", "a").Visits(3)
	machine.Add(m, "a", returns(machine.Fail("a", nil))).OnError("b")
	machine.Add(m, "b", returns(machine.Fail("b", nil))).OnError("a")
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		run.Is(journal.Failed)
	}, m)
}

// spec: R-5
func TestTheDelayOfAnErrorIsWhatItAsksForUpToADay(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		72 * time.Hour: 24 * time.Hour, 2 * time.Hour: 2 * time.Hour,
	} {
		calls := 0
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			if calls++; calls == 1 {
				return machine.Action{}, perdure.RetryAfter(asked, errBad)
			}
			return machine.Complete(1), nil
		}).Retry(perdure.Retry{Attempts: 3})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
			env.Sleep(want - time.Second)
			run.Is(journal.Waiting)
			env.Sleep(2 * time.Second)
			run.Is(journal.Completed)
		}, m)
	}
}

// spec: R-29
func TestEventsOfAFailureAndOfItsRetryHaveIDsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]string{}
	calls := 0
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		if calls++; calls < 3 {
			return machine.Fail("no", nil).Emit("failed", calls), nil
		}
		return machine.Complete(1).Emit("done", 1), nil
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{m},
		Options: perdure.Options{Publisher: func(_ context.Context, e perdure.Event) error {
			mu.Lock()
			defer mu.Unlock()
			what := e.Type + string(e.Data)
			if was, ok := ids[e.ID]; ok && was != what {
				t.Errorf("%s is the ID of %s and %s", e.ID, was, what)
			}
			ids[e.ID] = what
			return nil
		}},
	}.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Sleep(time.Minute)
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(time.Minute)
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(time.Minute)
		if len(ids) != 3 {
			t.Errorf("%v", ids)
		}
	})
}

// spec: R-3
func TestACallThatGoesOnAfterItsTimeoutHasItsOwnState(t *testing.T) {
	var release, over chan bool
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		n, _, err := machine.State[int](ctx)
		if attempt, _, _ := perdure.Attempt(ctx); attempt == 1 && n == 0 {
			defer close(over)
			<-release
			for range 1000 {
				if n, found, err := machine.State[int](ctx); n != 0 || found || err != nil {
					t.Errorf("it sees %d, %v, %v", n, found, err)
					break
				}
			}
			return machine.Complete(0), nil
		}
		if n < 5 {
			return machine.Yield(n + 1), err
		}
		return machine.Complete(1), nil
	}).Timeout(time.Second).Retry(perdure.Retry{Attempts: 2, NoDelay: true})
	perduretest.Test(t, func(env *perduretest.Env) {
		release, over = make(chan bool), make(chan bool)
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(4 * time.Second)
		close(release)
		<-over
		env.Sleep(time.Minute)
		run.Is(journal.Completed)
	}, m)
}

// spec
func TestAStepThatIsSkippedGoesOnWithItsFirstTarget(t *testing.T) {
	for want, route := range map[string]func(machine.Result) string{
		"11": nil, "101": func(machine.Result) string { return "c" },
	} {
		m := machine.New[int]("m", "a")
		s := machine.Add(m, "a", returns(machine.Fail("no", nil))).To("b", "c")
		if route != nil {
			s.Route(route)
		}
		machine.Add(m, "b", plus(10))
		machine.Add(m, "c", plus(100))
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
			env.Settle()
			run.Is(journal.Failed)
			next := act(env, "x", admin.Order{Action: journal.ActionSkip, Output: []byte("1")})
			perduretest.Get(env, m.Workflow, next).Returns([]byte(want))
		}, m)
	}
}

// spec
func TestAChildOfABranchThatWasStoppedIsCancelled(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, in int) (int, error) {
		return in, perdure.Sleep(ctx, time.Hour)
	})
	m := machine.New[int]("m", "a").OnError("mend")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "x", 0),
		machine.BranchOf("y", "y", 0)))).Split("x", "y")
	machine.Add(m, "x", returns(machine.StartChild(machine.ChildOf(slow, "k", 5))))
	machine.Add(m, "y", func(ctx context.Context, _ int) (machine.Action, error) {
		if again, _, err := machine.State[bool](ctx); err != nil || again {
			return machine.Fail("no", nil), err
		}
		return machine.Sleep(time.Minute).Keep(true), nil
	})
	machine.Add(m, "mend", func(ctx context.Context, _ int) (machine.Action, error) {
		if again, _, err := machine.State[bool](ctx); err != nil || !again {
			return machine.StartChild(machine.ChildOf(slow, "k", 5)).Keep(true), err
		}
		out, ended, err := machine.OutcomeOf[int](ctx, "k")
		return machine.Complete(fmt.Sprint(ended, " ", out.Status, " ", out.Err != nil)), err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0)
		run.Returns([]byte(`"true CANCELLED true"`))
	}, m, slow)
}

// A call that was given up returns a policy after the next call has begun. That policy is not for
// the next call.
//
// spec: R-5
func TestAPolicyIsThatOfTheCallThatReturnsIt(t *testing.T) {
	var calls atomic.Int32
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			return machine.Retry(perdure.Retry{Attempts: 100}, nil), nil
		}
		time.Sleep(8 * time.Second)
		return machine.Action{}, errBad
	}).Timeout(10 * time.Second).Retry(perdure.Retry{Attempts: 2, NoDelay: true})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(time.Hour)
		run.Is(journal.Failed)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
	}, m)
}

// spec: R-6
func TestAFailureWithoutDataHasNone(t *testing.T) {
	m := machine.New[int]("m", "a").OnError("b")
	machine.Add(m, "a", returns(machine.Fail("no", nil)))
	machine.Add(m, "b", func(ctx context.Context, _ int) (machine.Action, error) {
		f, found := machine.FailureOf(ctx)
		return machine.Complete(found && f.Reason == "no" && f.Data == nil), nil
	})
	if out, err := play(t, m); err != nil || out != "true" {
		t.Errorf("%s, %v", out, err)
	}
}

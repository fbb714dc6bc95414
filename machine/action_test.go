package machine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

type fn = func(context.Context, int) (machine.Action, error)

// one is a machine with the step a and, after it, the step b.
func one(a fn, opts ...perdure.WorkflowOption) *machine.Machine[int] {
	m := machine.New[int]("m", "a", opts...)
	machine.Add(m, "a", a).To("b")
	machine.Add(m, "b", plus(0))
	return m
}

// play starts a run of a machine, and returns how it ends.
func play(t *testing.T, m *machine.Machine[int]) (out string, err error) {
	t.Helper()
	perduretest.Test(t, func(env *perduretest.Env) {
		raw, e := perduretest.Start(env, m.Workflow, 1).Result()
		out, err = string(raw), e
	}, m, kid)
	return out, err
}

// spec
func TestActionsThatAreNotPossibleFailTheStepForGood(t *testing.T) {
	panics := func(context.Context, int) (machine.Action, error) { panic("at the disco") }
	for name, c := range map[string]struct {
		do   fn
		want string
	}{
		"an unlisted step": {
			returns(machine.Complete(1).To("nowhere")), `step "nowhere" is not one of its targets`,
		},
		"a state that does not encode": {returns(machine.Yield(make(chan int))), "YIELD of step a"},
		"an output that does not encode": {
			returns(machine.Complete(func() {})), "COMPLETE of step a",
		},
		"data that does not encode": {
			returns(machine.Fail("no", make(chan int))), "FAIL of step a",
		},
		"no reason": {returns(machine.Fail("", nil)), "Fail needs a reason"},
		"no child":  {returns(machine.StartChild()), "StartChild has no child"},
		"a child without a workflow": {
			returns(machine.StartChild(machine.ChildOf[int, int](nil, "k", 1))), "has no workflow",
		},
		"two children of one key": {
			returns(machine.StartChild(machine.ChildOf(kid, "k", 1), machine.ChildOf(kid, "k", 2))),
			`two children have the key "k"`,
		},
		"a child of an odd key": {
			returns(machine.StartChild(machine.ChildOf(kid, "a b", 1))), `key "a b" is not valid`,
		},
		"an unlisted branch": {
			returns(machine.Split(machine.BranchOf("x", "b", 1))), `begins with step "b"`,
		},
		"a name that To cannot have": {returns(machine.Sleep(1).To("b")), "SLEEP has no next step"},
		"a time in the past":         {returns(machine.Sleep(-1)), "it waits for -1ns"},
		"a late step that is not listed": {
			returns(machine.Suspend().Within(1, "c")), `step "c", for the time after the deadline`,
		},
		"an event that does not encode": {
			returns(machine.Complete(1).Emit("e", make(chan int))), "event e",
		},
		"an event of an odd type": {returns(machine.Complete(1).Emit("a b", 1)), "event type"},
		"a policy that is not valid": {
			returns(machine.Retry(perdure.Retry{Attempts: -1}, nil)), "Attempts -1 is not valid",
		},
		"a panic": {panics, "at the disco"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := play(t, one(c.do))
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), "step a failed: ") {
				t.Errorf("it returns %s, %v", out, err)
			}
			for range strings.Split(c.want, "\n") {
				if strings.Contains(fmt.Sprint(err), "goroutine ") {
					t.Error("it has a stack trace")
				}
			}
		})
	}
}

// spec
func TestCheckReturnsEveryDefectAtOnce(t *testing.T) {
	m := machine.New[int]("m", "zero").OnError("nobody", errors.New("not registered")).
		Visits(0).Version(-1)
	machine.Add(m, "a", fn(nil)).To("b", "c").Split("d").OnError("e")
	machine.Add(m, "a", plus(1))
	machine.Add(m, "undo:x", plus(1)).Slice(0).Timeout(-1).Retry(perdure.Retry{Factor: 0.5})
	machine.Add(m, "b", plus(1)).Route(func(machine.Result) string { return "" }).Undo(nil).
		UndoTimeout(-1)
	type defect struct{ code, where string }
	var got []defect
	for _, i := range perdure.Check(m) {
		if i.Code == "" || i.Message == "" {
			t.Errorf("%v has no code, or no message", i)
		}
		got = append(got, defect{i.Code, i.Where})
	}
	for _, want := range []defect{
		{machine.IssueFirst, "first"}, {machine.IssueTarget, ".on-error"},
		{machine.IssueError, ".on-error"}, {machine.IssueLimit, "visits"},
		{machine.IssueVersion, "version"}, {machine.IssueFunction, "a"},
		{machine.IssueTarget, "a.to"}, {machine.IssueTarget, "a.split"},
		{machine.IssueTarget, "a.on-error"}, {machine.IssueDuplicate, "a"},
		{machine.IssueName, "undo:x"}, {machine.IssueLimit, "undo:x.slice"},
		{machine.IssueLimit, "undo:x.timeout"}, {machine.IssueLimit, "undo:x.retry"},
		{machine.IssueAmbiguous, "b.route"}, {machine.IssueFunction, "b.undo"},
		{machine.IssueLimit, "b.undo.timeout"}, {machine.IssueUnreached, "undo:x"},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no defect %v among %v", want, got)
		}
	}
	if issues := perdure.Check(machine.New[int]("none", "a")); len(issues) != 1 ||
		issues[0].Code != machine.IssueNoSteps {
		t.Errorf("without steps: %v", issues)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		var refused *definition.Error
		if err := env.Engine().Register(m); !errors.As(err, &refused) || len(refused.Issues) < 18 {
			t.Errorf("registration returns %v", err)
		}
	})
}

// spec
func TestARouteDecidesAndSeesTheStepThatIsNamed(t *testing.T) {
	m := machine.New[int]("m", "a")
	var seen machine.Result
	machine.Add(m, "a", returns(machine.Complete(7).To("b"))).To("b", "c", machine.End).
		Route(func(r machine.Result) string {
			seen = r
			var n int
			if err := r.Decode(&n); err != nil || n != 7 {
				return machine.End
			}
			return "c"
		})
	machine.Add(m, "b", plus(10))
	machine.Add(m, "c", plus(100))
	if out, err := play(t, m); err != nil || out != "107" || seen.Step != "a" || seen.Next != "b" {
		t.Errorf("it returns %s, %v; the route sees %+v", out, err, seen)
	}
	for want, m := range map[string]*machine.Machine[int]{
		"leads to step \"x\"":   one(returns(machine.Complete(1))),
		"at the disco":          one(returns(machine.Complete(1))),
		"does not say which of": machine.New[int]("m", "a"),
	} {
		switch {
		case strings.HasPrefix(want, "leads"):
			m = machine.New[int]("m", "a")
			machine.Add(m, "a", plus(1)).To("b").Route(func(machine.Result) string { return "x" })
			machine.Add(m, "b", plus(1))
		case strings.HasPrefix(want, "at"):
			m = machine.New[int]("m", "a")
			machine.Add(m, "a", plus(1)).To("b").Route(func(machine.Result) string { panic(want) })
			machine.Add(m, "b", plus(1))
		default:
			machine.Add(m, "a", plus(1)).To("b", machine.End)
			machine.Add(m, "b", plus(1))
		}
		if out, err := play(t, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v", want, out, err)
		}
	}
}

var errBad = errors.New("bad")

var _ = perdure.RegisterError("machine_test.bad", errBad)

// spec
func TestAnErrorRouteGoesOnWithTheStackKept(t *testing.T) {
	for name, c := range map[string]struct {
		on   []error
		want string
	}{
		"all":         {nil, "mended 2 bad"},
		"its class":   {[]error{errBad}, "mended 2 bad"},
		"another one": {[]error{&perdure.Error{Code: journal.CodeConflict}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var undone []string
			undo := func(name string) func(context.Context, int) error {
				return func(context.Context, int) error {
					undone = append(undone, name)
					return nil
				}
			}
			m := machine.New[int]("m", "a").OnError("mend", c.on...)
			machine.Add(m, "a", plus(1)).Undo(undo("a")).To("b")
			machine.Add(m, "b", func(context.Context, int) (machine.Action, error) {
				return machine.Action{}, errBad
			}).Undo(undo("b"))
			machine.Add(m, "mend", func(ctx context.Context, in int) (machine.Action, error) {
				f, _ := machine.FailureOf(ctx)
				if !errors.Is(f.Err, errBad) || f.Step != "b" {
					return machine.Action{}, fmt.Errorf("the failure is %+v", f)
				}
				return machine.Fail(fmt.Sprint("mended ", in, " ", f.Reason), nil), nil
			})
			_, err := play(t, m)
			want := "step mend failed: " + c.want
			if c.want == "" {
				want = "step b failed: bad"
			}
			if err == nil || err.Error() != want || fmt.Sprint(undone) != "[a]" {
				t.Errorf("it fails with %v, and undone are %v", err, undone)
			}
		})
	}
}

// spec: R-3
func TestAStepYieldsWhenItsTimeIsUp(t *testing.T) {
	m := machine.New[int]("m", "a")
	var batches []int
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		at, _, err := machine.State[int](ctx)
		n := 0
		for ; at < 10 && !machine.ShouldYield(ctx); at++ {
			time.Sleep(time.Second)
			n++
		}
		batches = append(batches, n)
		if at < 10 {
			return machine.Yield(at), err
		}
		return machine.Complete(at), err
	}).Slice(4 * time.Second)
	out, err := play(t, m)
	if err != nil || out != "10" || fmt.Sprint(batches) != "[4 4 2]" {
		t.Errorf("it returns %s, %v, in batches %v", out, err, batches)
	}
}

// spec: R-3
func TestAStepYieldsWhenItsEngineStops(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		at, _, err := machine.State[int](ctx)
		for ; at < 100 && !machine.ShouldYield(ctx); at++ {
			time.Sleep(time.Second)
		}
		if at < 100 {
			return machine.Yield(at), err
		}
		return machine.Complete(at), err
	}).Slice(time.Hour)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		env.Sleep(10 * time.Second)
		before := time.Now()
		env.Restart()
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("the engine has waited %v for the step", took)
		}
		run.Returns([]byte("100"))
		if took := time.Since(before); took > 92*time.Second {
			t.Errorf("the rest has taken %v: something was done again", took)
		}
	}, m)
}

// spec: R-5
func TestOnlyAPolicyTriesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []perdure.WorkflowOption
		retry *perdure.Retry
		do    func(n int) (machine.Action, error)
		calls int
		want  string
	}{
		"no policy": {
			do:    func(int) (machine.Action, error) { return machine.Action{}, errBad },
			calls: 1, want: "step a failed: bad",
		},
		"that of the machine": {
			opts: []perdure.WorkflowOption{perdure.Retry{Attempts: 4}},
			do:   func(int) (machine.Action, error) { return machine.Action{}, errBad }, calls: 4,
			want: "step a failed: after 4 attempts: bad",
		},
		"that of the step": {
			opts:  []perdure.WorkflowOption{perdure.Retry{Attempts: 4}},
			retry: &perdure.Retry{Attempts: 2},
			do:    func(int) (machine.Action, error) { panic("no") }, calls: 2,
			want: "step a failed: after 2 attempts: ",
		},
		"a Retry": {
			do: func(int) (machine.Action, error) {
				return machine.Retry(perdure.Retry{Attempts: 3}, nil), nil
			}, calls: 3, want: "step a failed: after 3 attempts: the step asks to be called again",
		},
		"a Fail": {
			retry: &perdure.Retry{Attempts: 9},
			do: func(n int) (machine.Action, error) {
				if n == 1 {
					return machine.Action{}, errBad
				}
				return machine.Fail("word for word", nil), nil
			}, calls: 2, want: "step a failed: word for word",
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls, attempts := 0, []int{}
			m := machine.New[int]("m", "a", c.opts...)
			s := machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
				n, _, err := perdure.Attempt(ctx)
				attempts = append(attempts, n)
				calls++
				if err != nil {
					return machine.Action{}, err
				}
				return c.do(n)
			})
			if c.retry != nil {
				s.Retry(*c.retry)
			}
			_, err := play(t, m)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || calls != c.calls ||
				attempts[len(attempts)-1] != c.calls {
				t.Errorf("%d calls, attempts %v: %v", calls, attempts, err)
			}
		})
	}
}

// spec: R-5
func TestNoDelayIsLongerThanADay(t *testing.T) {
	m := one(func(ctx context.Context, _ int) (machine.Action, error) {
		if n, _, err := perdure.Attempt(ctx); n == 1 {
			return machine.Retry(perdure.Retry{First: 100 * time.Hour}, nil), err
		}
		return machine.Complete(1), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		env.Sleep(24*time.Hour + time.Second)
		run.Is(journal.Completed)
	}, m)
}

// spec: R-6
func TestTheDataOfAFailureIsKeptOnTheStep(t *testing.T) {
	m := one(returns(machine.Fail("no stock", map[string]int{"left": 0})))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		env.Settle()
		s, found := run.Report().Step("a")
		if !found || s.Status != journal.StepIsFailed || string(s.Result) != `{"left":0}` ||
			s.Err.Error() != "no stock" {
			t.Errorf("the step is %+v", s)
		}
	}, m)
}

// spec: R-2
func TestSuspendGoesOnWithAnotherStepAfterItsDeadline(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Suspend().Within(time.Hour, "late"))).To("b", "late")
	machine.Add(m, "b", plus(10))
	machine.Add(m, "late", plus(100))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		env.Sleep(time.Minute)
		run.Is(journal.Waiting)
		run.Returns([]byte("101"))
		if s, _ := run.Report().Step("a"); s.Status != journal.StepIsSkipped {
			t.Errorf("the step is %v", s.Status)
		}
	}, m)
}

// spec: R-2
func TestAnOperatorResumesAStepThatHasSuspended(t *testing.T) {
	calls := 0
	m := one(func(ctx context.Context, _ int) (machine.Action, error) {
		if calls++; calls < 3 {
			return machine.Suspend(), nil
		}
		return machine.Complete(1), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		for range 2 {
			env.Settle()
			run.Is(journal.Waiting)
			act(env, "x", admin.Order{Action: journal.ActionResume, By: "ann", Reason: "go"})
		}
		run.Returns([]byte("1"))
		by := ""
		for _, e := range history(env, "x") {
			if e.Kind == journal.SignalNoticed && e.Detail != nil {
				by += e.Detail.By
			}
		}
		if by != "annann" || calls != 3 {
			t.Errorf("the history says %q, after %d calls", by, calls)
		}
	}, m)
}

// spec: R-23
func TestAMachineHasOneChildForEachKey(t *testing.T) {
	runs := 0
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		err := perdure.Do(ctx, "count", func(context.Context) error {
			runs++
			return nil
		})
		if n < 0 {
			return 0, errors.Join(err, errBad)
		}
		return 2 * n, err
	})
	m := machine.New[int]("m", "a")
	ask := func(ctx context.Context, in int) (machine.Action, error) {
		good, ended, err := machine.OutcomeOf[int](ctx, "good")
		if err != nil || !ended {
			return machine.StartChild(machine.ChildOf(child, "good", 21),
				machine.ChildOf(child, "bad", -1)), err
		}
		bad, _, err := machine.OutcomeOf[int](ctx, "bad")
		if bad.Status != perdure.StatusFailed || !errors.Is(bad.Err, errBad) {
			return machine.Fail(fmt.Sprintf("the bad one is %+v", bad), nil), err
		}
		return machine.Complete(in + good.Output), err
	}
	machine.Add(m, "a", ask).To("again")
	machine.Add(m, "again", func(ctx context.Context, in int) (machine.Action, error) {
		if done, _, _ := machine.State[bool](ctx); !done {
			return machine.StartChild(machine.ChildOf(child, "good", 5)).Keep(true), nil
		}
		return ask(ctx, in)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		runs = 0
		run := perduretest.Start(env, m.Workflow, 1)
		run.Returns([]byte("85"))
		return run.Report().Status
	}, m, child)
	if runs < 2 || runs > 4 {
		t.Errorf("%d children were started", runs)
	}
}

// spec: R-25
func TestAMachineContinuesAsNew(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		if in == 3 {
			return machine.Complete(in), nil
		}
		return machine.ContinueAsNew(in + 1), nil
	})
	if out, err := play(t, m); err != nil || out != "3" {
		t.Errorf("it returns %s, %v", out, err)
	}
}

// spec: R-24
func TestASplitOfNoneAndOfTenThousand(t *testing.T) {
	many := 10_000
	if testing.Short() {
		many = 1000
	}
	for _, n := range []int{0, many} {
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
			var all []machine.Branch
			for i := range n {
				all = append(all, machine.BranchOf(fmt.Sprint("b", i), "b", i))
			}
			return machine.Split(all...), nil
		}).Split("b").To("sum")
		machine.Add(m, "b", plus(1))
		machine.Add(m, "sum", machine.Do(func(_ context.Context, in map[string]int) (int, error) {
			sum := 0
			for _, v := range in {
				sum += v
			}
			return sum, nil
		}))
		if out, err := play(t, m); err != nil || out != fmt.Sprint(n*(n+1)/2) {
			t.Errorf("of %d: %s, %v", n, out, err)
		}
	}
}

// spec: R-2
func TestAMachineThatLoopsFails(t *testing.T) {
	m := machine.New[int]("m", "a").Visits(5)
	machine.Add(m, "a", plus(1)).To("b")
	machine.Add(m, "b", plus(1)).To("a")
	if out, err := play(t, m); err == nil || !strings.Contains(err.Error(),
		"step a[6] failed: the run comes to the step for the 6th time, and the limit is 5") {
		t.Errorf("it returns %s, %v", out, err)
	}
	nested := machine.New[int]("m", "a").Visits(5)
	machine.Add(nested, "a", returns(machine.Split(machine.BranchOf("x", "a", 1)))).Split("a")
	if out, err := play(t, nested); err == nil || !strings.Contains(err.Error(), "limit is 5") {
		t.Errorf("nested: it returns %s, %v", out, err)
	}
}

// spec, F-1
func TestARunWaitsWhileItsStepDoes(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	for name, a := range map[string]machine.Action{
		"sleep": machine.Sleep(time.Hour), "suspend": machine.Suspend().Within(time.Hour, ""),
		"approval": machine.WaitForApproval(approval.Ask{Key: "k", Within: time.Hour}),
		"child":    machine.StartChild(machine.ChildOf(slow, "k", 1)),
	} {
		m := one(func(ctx context.Context, in int) (machine.Action, error) {
			if again, _, err := machine.State[bool](ctx); err != nil || again {
				return machine.Complete(in), err
			}
			return a.Keep(true), nil
		}, perdure.Timeout(2*time.Hour), perdure.About{Input: []byte(`{"type":"integer"}`)})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 1)
			env.Sleep(time.Minute)
			run.Is(journal.Waiting)
			r := run.Report()
			if s, _ := r.Step("a"); r.Pattern != journal.PatternMachine ||
				s.Status != journal.StepIsRunning {
				t.Errorf("%s: the run is a %v, and its step %v", name, r.Pattern, s.Status)
			}
			run.Returns([]byte("1"))
			w := env.Engine().Workflows()[0]
			if string(w.Outline.Input) != `{"type":"integer"}` || w.Timeout != 2*time.Hour ||
				w.Outline.Diagram == nil {
				t.Errorf("the workflow is %+v", w)
			}
		}, m, slow)
	}
}

// spec: R-2, F-21
func TestOnlyASuspendedStepIsResumed(t *testing.T) {
	m := one(func(ctx context.Context, in int) (machine.Action, error) {
		if again, _, err := machine.State[bool](ctx); err != nil || again {
			return machine.Complete(in), err
		}
		return machine.Sleep(time.Hour).Keep(true), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		err := env.Engine().Resume(env.Context(), "x")
		var refused *perdure.Error
		if !errors.As(err, &refused) || refused.Code != journal.CodeWrongState {
			t.Errorf("it is resumed: %v", err)
		}
		run.Returns([]byte("1"))
	}, m)
}

// spec: R-2
func TestOnlyTheLastWaitOfAVisitIsLate(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		n, _, err := machine.State[int](ctx)
		switch late := machine.Late(ctx); {
		case err != nil:
			return machine.Action{}, err
		case late != (n == 1):
			return machine.Fail(fmt.Sprint("call ", n, " is late: ", late), nil), nil
		case n == 0:
			return machine.Suspend().Within(time.Minute, "").Keep(1), nil
		case n == 1:
			return machine.Sleep(time.Minute).Keep(2), nil
		}
		return machine.Complete(n), nil
	})
	if out, err := play(t, m); err != nil || out != "2" {
		t.Errorf("%s, %v", out, err)
	}
}

// spec: R-2
func TestAWaitThatIsTooLongSkipsItsVisit(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(_ context.Context, n int) (machine.Action, error) {
		if n == 1 {
			return machine.Complete(2).To("a"), nil
		}
		return machine.Suspend().Within(time.Minute, "b"), nil
	}).To("a", "b")
	machine.Add(m, "b", plus(1))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		run.Returns([]byte("3"))
		first, _ := run.Report().Step("a")
		second, _ := run.Report().Step("a[2]")
		if first.Status != journal.StepIsDone || second.Status != journal.StepIsSkipped {
			t.Errorf("the visits are %v and %v", first.Status, second.Status)
		}
		reason := ""
		for _, e := range history(env, "x") {
			if e.Kind == journal.StepSkipped {
				reason += e.Op.Name + e.Op.Key + ": " + e.Detail.Reason
			}
		}
		if reason != "a2: its time has passed: it goes on with b" {
			t.Errorf("the history says %q", reason)
		}
	}, m)
}

// spec
func TestARouteForTheLimitOnVisitsHasTheInput(t *testing.T) {
	m := machine.New[int]("m", "a").Visits(3).OnError("mend")
	machine.Add(m, "a", plus(1)).To("a")
	machine.Add(m, "mend", plus(100))
	if out, err := play(t, m); err != nil || out != "104" {
		t.Errorf("%s, %v", out, err)
	}
}

// spec
func TestAChildHasTheIDAndTheEndThatItIsGiven(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, n int) (int, error) {
		return n, perdure.Sleep(ctx, time.Hour)
	})
	m := machine.New[int]("m", "a", perdure.Timeout(time.Minute))
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		ends, stays := machine.ChildOf(slow, "ends", 1), machine.ChildOf(slow, "stays", 2)
		ends.Ends, ends.ID, stays.ID = true, "its-own", "another"
		return machine.StartChild(ends, stays), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0)
		env.Sleep(2 * time.Minute)
		run.Is(journal.TimedOut)
		perduretest.Get(env, slow, "its-own").Is(journal.Cancelled)
		perduretest.Get(env, slow, "another").Returns(2)
	}, m, slow)
}

// A Retry is about the next attempt only: an error after it is tried again as the step says.
//
// spec: R-5
func TestThePolicyOfARetryIsForOneAttempt(t *testing.T) {
	var did []string
	do := func(ctx context.Context, _ int) (machine.Action, error) {
		n, last, err := perdure.Attempt(ctx)
		if did = append(did, fmt.Sprint(n, " ", last)); err != nil {
			return machine.Action{}, err
		}
		if n == 1 {
			return machine.Retry(perdure.Retry{Attempts: 2, NoDelay: true}, nil), nil
		}
		return machine.Action{}, errBad
	}
	for _, c := range []struct {
		own  perdure.Retry
		want string
	}{
		{perdure.Retry{Attempts: 4, NoDelay: true}, "[1 false 2 true 3 false 4 true]"},
		{perdure.NoRetry, "[1 true 2 true]"},
	} {
		did = nil
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", do).Retry(c.own)
		if _, err := play(t, m); !errors.Is(err, errBad) || fmt.Sprint(did) != c.want {
			t.Errorf("%v, %v, want %s", err, did, c.want)
		}
	}
}

// spec
func TestASplitNamesTheStepAfterIt(t *testing.T) {
	for to, want := range map[string]string{"b": `{"x":1}`, "c": "7", machine.End: `{"x":1}`} {
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "d", 0)).To(to))).
			Split("d").To("b", "c", machine.End)
		machine.Add(m, "b", func(_ context.Context, in map[string]int) (machine.Action, error) {
			return machine.Complete(in), nil
		})
		machine.Add(m, "c", func(context.Context, map[string]int) (machine.Action, error) {
			return machine.Complete(7), nil
		})
		machine.Add(m, "d", plus(1))
		if out, err := play(t, m); err != nil || out != want {
			t.Errorf("to %s: %s, %v", to, out, err)
		}
	}
}

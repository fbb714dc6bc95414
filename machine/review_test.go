package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

func TestLimitWithStepRoutesInACircle(t *testing.T) {
	m := machine.New[int]("m", "a").Visits(3)
	machine.Add(m, "a", returns(machine.Fail("a", nil))).OnError("b")
	machine.Add(m, "b", returns(machine.Fail("b", nil))).OnError("a")
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		run.Is(journal.Failed)
	}, m)
}

func TestNoDelayOfAnErrorIsLongerThanADay(t *testing.T) {
	calls := 0
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		if calls++; calls == 1 {
			return machine.Action{}, perdure.RetryAfter(72*time.Hour, errBad)
		}
		return machine.Complete(1), nil
	}).Retry(perdure.Retry{Attempts: 3})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(25 * time.Hour)
		run.Is(journal.Completed)
	}, m)
}

func TestSiblingInBackOff(t *testing.T) {
	m := machine.New[int]("m", "a").OnError("r")
	machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
		return machine.Split(machine.BranchOf("x", "x", 0), machine.BranchOf("y", "y", 0)), nil
	}).Split("x", "y")
	machine.Add(m, "x", returns(machine.Sleep(time.Second)))
	m2 := machine.New[int]("m", "a").OnError("r")
	_ = m2
	n := 0
	machine.Add(m, "y", func(context.Context, int) (machine.Action, error) {
		if n++; n > 1 {
			return machine.Fail("no", nil), nil
		}
		return machine.Sleep(time.Second), nil
	})
	machine.Add(m, "r", plus(1))
	bad := machine.New[int]("m", "a").OnError("r")
	machine.Add(bad, "a", func(context.Context, int) (machine.Action, error) {
		return machine.Split(machine.BranchOf("x", "x", 0), machine.BranchOf("y", "y", 0)), nil
	}).Split("x", "y")
	machine.Add(bad, "x", returns(machine.Retry(perdure.Retry{Attempts: 5, First: time.Hour}, nil)))
	machine.Add(bad, "y", func(ctx context.Context, _ int) (machine.Action, error) {
		if ok, _, _ := machine.State[bool](ctx); ok {
			return machine.Fail("no", nil), nil
		}
		return machine.Sleep(time.Second).Keep(true), nil
	})
	machine.Add(bad, "r", plus(1))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, bad.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		run.Is(journal.Completed)
	}, bad)
}

func TestFailEventsAndRetriesHaveOwnIDs(t *testing.T) {
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

func TestDowngradeToNoVersion(t *testing.T) {
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

// a log of effects
type effects struct {
	mu  sync.Mutex
	all []string
}

func (e *effects) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf(format, args...))
}
func (e *effects) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := strings.Join(e.all, "\n")
	e.all = nil
	return s
}

func TestRetryOfAFailedSplitRepeatsOnlyTheBranch(t *testing.T) {
	var log effects
	bad := true
	once := 0
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		log.add("a %s", perdure.IdempotencyKey(ctx))
		return machine.Split(machine.BranchOf("x", "b", 1), machine.BranchOf("y", "b", 2),
			machine.BranchOf("z", "b", 3)), nil
	}).Split("b").To("d")
	machine.Add(m, "b", func(ctx context.Context, in int) (machine.Action, error) {
		v, err := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
		if err != nil {
			return machine.Action{}, err
		}
		n, _, _ := machine.State[int](ctx)
		log.add("b%d call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
		if n < 2 {
			return machine.Yield(n + 1), nil
		}
		if in == 3 && n < 4 {
			return machine.Sleep(time.Minute).Keep(n + 1), nil
		}
		return machine.Complete(in).To("c"), nil
	}).To("c")
	machine.Add(m, "c", func(ctx context.Context, in int) (machine.Action, error) {
		v, err := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
		if err != nil {
			return machine.Action{}, err
		}
		n, _, _ := machine.State[int](ctx)
		log.add("c%d call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
		if n < 2 {
			return machine.Yield(n + 1), nil
		}
		if bad && in == 2 {
			return machine.Fail("no", nil), nil
		}
		return machine.Complete(in), nil
	})
	machine.Add(m, "d", func(ctx context.Context, in map[string]int) (machine.Action, error) {
		log.add("d %v", in)
		return machine.Complete(1), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Sleep(10 * time.Minute)
		run.Is(journal.Failed)
		t.Log(log.take())
		bad = false
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(10 * time.Minute)
		t.Log("RETRY")
		t.Log(log.take())
	}, m)
}

func loop(log *effects, bad *bool, opts ...perdure.WorkflowOption) *machine.Machine[int] {
	once := 0
	m := machine.New[int]("m", "a", opts...)
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		v, err := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
		if err != nil {
			return machine.Action{}, err
		}
		n, _, _ := machine.State[int](ctx)
		log.add("a(%d) call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
		switch {
		case n == 0:
			return machine.Yield(1), nil
		case n == 1:
			return machine.Sleep(time.Minute).Keep(2), nil
		case in == 2 && *bad:
			return machine.Fail("no", nil), nil
		}
		return machine.Complete(in).To("b"), nil
	}).Undo(func(ctx context.Context, in int) error {
		v, err := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
		if err != nil {
			return err
		}
		log.add("undo a(%d) once %d %s", in, v, perdure.IdempotencyKey(ctx))
		return nil
	}).To("b")
	machine.Add(m, "b", func(ctx context.Context, in int) (machine.Action, error) {
		n, _, _ := machine.State[int](ctx)
		log.add("b(%d) call %d %s", in, n, perdure.IdempotencyKey(ctx))
		if n == 0 {
			return machine.Yield(1), nil
		}
		if in < 3 {
			return machine.Complete(in + 1).To("a"), nil
		}
		return machine.Complete(in).To("z"), nil
	}).To("a", "z")
	machine.Add(m, "z", func(ctx context.Context, in int) (machine.Action, error) {
		log.add("z(%d)", in)
		if *bad {
			return machine.Suspend(), nil
		}
		return machine.Complete(in), nil
	})
	return m
}

func TestRetryTimedOut(t *testing.T) {
	var log effects
	bad := true
	m := loop(&log, &bad, perdure.Timeout(time.Hour))
	_ = m
	for _, kill := range []bool{false, true} {
		log, bad2 := effects{}, false
		_ = bad2
		stop := true
		m := machine.New[int]("m", "a", perdure.Timeout(time.Hour))
		once := 0
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			v, err := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
			if err != nil {
				return machine.Action{}, err
			}
			n, _, _ := machine.State[int](ctx)
			log.add("a(%d) call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
			switch {
			case n == 0:
				return machine.Yield(1), nil
			case n == 1:
				return machine.Sleep(time.Minute).Keep(2), nil
			}
			if in == 0 {
				return machine.Complete(in + 1).To("a"), nil
			}
			return machine.Complete(in).To("s"), nil
		}).Undo(func(ctx context.Context, in int) error {
			log.add("undo a(%d) %s", in, perdure.IdempotencyKey(ctx))
			return nil
		}).To("a", "s")
		machine.Add(m, "s", func(ctx context.Context, in int) (machine.Action, error) {
			return machine.Split(machine.BranchOf("x", "b", 1), machine.BranchOf("y", "c", 1)), nil
		}).Split("b", "c").To("z").Undo(func(ctx context.Context, in int) error {
			out, found, err := machine.OutputOf[any](ctx)
			log.add("undo s %v %v %v", out, found, err)
			return nil
		})
		machine.Add(m, "b", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			log.add("b(%d) call %d %s", in, n, perdure.IdempotencyKey(ctx))
			if n == 0 {
				return machine.Yield(1), nil
			}
			return machine.Complete(in), nil
		}).Undo(func(ctx context.Context, in int) error {
			log.add("undo b(%d) %s", in, perdure.IdempotencyKey(ctx))
			return nil
		})
		machine.Add(m, "c", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("c %v", stop)
			if stop {
				return machine.Suspend(), nil
			}
			return machine.Complete(in), nil
		})
		machine.Add(m, "z", func(ctx context.Context, in any) (machine.Action, error) {
			log.add("z")
			return machine.Complete(1), nil
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
			env.Sleep(2 * time.Hour)
			run.Is(journal.TimedOut)
			t.Log(log.take())
			stop = false
			if kill {
				env.Restart()
			}
			act(env, "x", admin.Order{Action: journal.ActionRetry})
			env.Sleep(10 * time.Minute)
			t.Log("RETRY")
			t.Log(log.take())
			run.Is(journal.TimedOut)
		}, m)
	}
}

func TestSkipAndFork(t *testing.T) {
	var log effects
	bad := true
	m := loop(&log, &bad)
	m2 := m
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m2.Workflow, 1, perdure.ID("x"))
		env.Sleep(10 * time.Minute)
		_, err := run.Result()
		t.Log(run.Report().Status, err)
		t.Log(log.take())
		for _, s := range run.Report().Steps {
			t.Log("step ", s.ID)
		}
	}, m2)
}

var _ = errors.New

// spec: R-3
func TestACallThatGoesOnAfterItsTimeoutHasItsOwnState(t *testing.T) {
	release, over := make(chan bool), make(chan bool)
	calls := 0
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		calls++
		n, found, err := machine.State[int](ctx)
		if calls == 1 {
			<-release
			for range 1000 {
				if n, found, err := machine.State[int](ctx); n != 0 || found || err != nil {
					t.Errorf("it sees %d, %v, %v", n, found, err)
					break
				}
			}
			close(over)
			return machine.Complete(0), nil
		}
		if n < 5 {
			return machine.Sleep(time.Second).Keep(n + 1), err
		}
		_ = found
		return machine.Complete(1), nil
	}).Timeout(time.Second).Retry(perdure.Retry{Attempts: 2})
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

// spec: R-19
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

func TestSkipInASecondVisit(t *testing.T) {
	for _, restart := range []bool{false, true} {
		var log effects
		bad := true
		m := machine.New[int]("m", "a")
		undos := false
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			v, _ := perdure.Once(ctx, "v", func() (int, error) { return in*10 + n, nil })
			log.add("a(%d) call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
			switch {
			case n < 2:
				return machine.Yield(n + 1), nil
			case in == 2 && bad:
				return machine.Fail("no", nil), nil
			case in < 3:
				return machine.Complete(in + 1).To("a"), nil
			}
			return machine.Complete(in).To("z"), nil
		}).To("a", "z")
		machine.Add(m, "z", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("z(%d)", in)
			return machine.Complete(in), nil
		})
		_ = undos
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
			env.Sleep(10 * time.Minute)
			run.Is(journal.Failed)
			for _, s := range run.Report().Steps {
				t.Log("step ", s.ID, s.Status)
			}
			t.Log(log.take())
			if restart {
				env.Restart()
			}
			for _, name := range []string{"", "a[2]#3", "a[2]"} {
				err := env.Do(func(eng *perdure.Engine) error {
					_, err := admin.New(eng).Act(env.Context(), "x", admin.Order{
						Action: journal.ActionSkip, Step: name, Output: []byte("3")})
					return err
				})
				t.Log("skip ", name, err)
				if err == nil {
					break
				}
			}
			env.Sleep(10 * time.Minute)
			t.Log(log.take())
			r := perduretest.Get(env, m.Workflow, "x")
			t.Log(r.Report().Status, r.Report().Err)
		}, m)
	}
}

func TestForkFromAStepWithKey(t *testing.T) {
	for _, from := range []string{"a", "a[2]", "b[2]", "split.s[x]/c", "a[2]#2"} {
		var log effects
		m := machine.New[int]("m", "a")
		once := 0
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			v, _ := perdure.Once(ctx, "v", func() (int, error) { once++; return once, nil })
			log.add("a(%d) call %d once %d %s", in, n, v, perdure.IdempotencyKey(ctx))
			if n < 2 {
				return machine.Yield(n + 1), nil
			}
			return machine.Complete(in + 1), nil
		}).To("b").Undo(func(context.Context, int) error { return nil })
		machine.Add(m, "b", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("b(%d) %s", in, perdure.IdempotencyKey(ctx))
			if in == 2 {
				return machine.Complete(in).To("a"), nil
			}
			return machine.Complete(in).To("s"), nil
		}).To("a", "s")
		machine.Add(m, "s", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("s(%d) %s", in, perdure.IdempotencyKey(ctx))
			return machine.Split(machine.BranchOf("x", "c", 1), machine.BranchOf("y", "c", 2)), nil
		}).Split("c").To("z")
		machine.Add(m, "c", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			log.add("c(%d) call %d %s", in, n, perdure.IdempotencyKey(ctx))
			if n < 1 {
				return machine.Yield(n + 1), nil
			}
			return machine.Complete(in + 1), nil
		})
		machine.Add(m, "z", func(ctx context.Context, in map[string]int) (machine.Action, error) {
			log.add("z %v", in)
			return machine.Complete(1), nil
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
			env.Sleep(10 * time.Minute)
			run.Is(journal.Completed)
			log.take()
			err := env.Do(func(eng *perdure.Engine) error {
				_, err := admin.New(eng).Act(env.Context(), "x", admin.Order{
					Action: journal.ActionFork, Step: from})
				return err
			})
			env.Sleep(10 * time.Minute)
			t.Logf("FORK %s: %v\n%s", from, err, log.take())
		}, m)
	}
}

func TestDocumentRetry(t *testing.T) {
	bad := true
	calls := 0
	doc := perdure.Define("doc", func(ctx context.Context, in any) (int, error) {
		return perdure.Step(ctx, "s", func(context.Context) (int, error) {
			if calls++; bad {
				return 0, perdure.Permanent(errBad)
			}
			return 5, nil
		})
	})
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", machine.Do(func(context.Context, int) (machine.DocumentInput, error) {
		return machine.DocumentInput{Workflow: "doc"}, nil
	})).To("d")
	machine.Add(m, "d", machine.Document)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Sleep(10 * time.Minute)
		run.Is(journal.Failed)
		bad = false
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(10 * time.Minute)
		r := perduretest.Get(env, m.Workflow, "x")
		t.Log(r.Report().Status, r.Report().Err, calls)
		r.Is(journal.Completed)
	}, m, doc)
}

func TestContinueAsNewInABranch(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(_ context.Context, in int) (machine.Action, error) {
		if in > 0 {
			return machine.Complete(in), nil
		}
		return machine.Split(machine.BranchOf("x", "x", 0), machine.BranchOf("y", "y", 0)), nil
	}).Split("x", "y")
	machine.Add(m, "x", returns(machine.ContinueAsNew(7)))
	machine.Add(m, "y", returns(machine.Suspend()))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(10 * time.Minute)
		t.Log(run.Report().Status, run.Report().Err)
		r := perduretest.Get(env, m.Workflow, "x")
		t.Log(r.Report().Status, r.Report().Err)
	}, m)
}

func TestRetryTakesSignalsAgain(t *testing.T) {
	var log effects
	stop := true
	m := machine.New[int]("m", "a", perdure.Timeout(time.Hour))
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		got, err := item.All(ctx)
		log.add("a %v", got)
		if len(got) == 0 || err != nil {
			return machine.Suspend(), err
		}
		return machine.Complete(1), nil
	}).Undo(func(context.Context, int) error { log.add("undo a"); return nil }).To("b")
	machine.Add(m, "b", func(ctx context.Context, in int) (machine.Action, error) {
		got, _ := item.All(ctx)
		log.add("b %v", got)
		if stop {
			return machine.Sleep(2 * time.Hour), nil
		}
		return machine.Complete(1), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		perduretest.Send(env, item, "x", 1)
		env.Sleep(time.Minute)
		perduretest.Send(env, item, "x", 2)
		env.Sleep(2 * time.Hour)
		run.Is(journal.TimedOut)
		t.Log(log.take())
		stop = false
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(10 * time.Minute)
		t.Log(log.take())
		r := perduretest.Get(env, m.Workflow, "x")
		t.Log(r.Report().Status)
	}, m)
}

func TestSplitOfManyAndNone(t *testing.T) {
	for _, n := range []int{0, 10000} {
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", func(_ context.Context, in int) (machine.Action, error) {
			var all []machine.Branch
			for i := range n {
				all = append(all, machine.BranchOf(fmt.Sprint("b", i), "x", i))
			}
			return machine.Split(all...), nil
		}).Split("x").To("z")
		machine.Add(m, "x", plus(1)).Undo(func(context.Context, int) error { return nil })
		machine.Add(m, "z", func(_ context.Context, in map[string]int) (machine.Action, error) {
			if len(in) != n {
				t.Error(len(in))
			}
			return machine.Fail("no", 1), nil
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			began := time.Now()
			_ = began
			run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
			env.Sleep(10 * time.Minute)
			t.Log(n, run.Report().Status)
		}, m)
	}
}

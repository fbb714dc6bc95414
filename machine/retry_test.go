package machine_test

import (
	"context"
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

// effects is a list of what functions have done.
type effects struct {
	mu  sync.Mutex
	all []string
}

func (e *effects) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf(format, args...))
}

// take returns the list, and empties it.
func (e *effects) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := strings.Join(e.all, "; ")
	e.all = nil
	return s
}

// spec
func TestTheRetryOfAFailedSplitRepeatsOnlyTheCallThatFailed(t *testing.T) {
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
		id := run.RunID()
		calls := log.take()
		bad = false
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(10 * time.Minute)
		last := calls[strings.LastIndex(calls, "c2 call 2"):]
		last, _, _ = strings.Cut(last, ";") // with the value that Once has recorded
		want := last + "; d map[x:1 y:2 z:3]"
		if got := log.take(); got != want || !strings.HasSuffix(last, id+"/split.a[y]/c") {
			t.Errorf("done are %s, want %s", got, want)
		}
	}, m)
}

// spec
func TestTheRetryInASecondVisitOfASplit(t *testing.T) {
	var log effects
	bad := true
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		log.add("a %d %s", in, perdure.IdempotencyKey(ctx))
		return machine.Split(machine.BranchOf("x", "x", in), machine.BranchOf("y", "y", in)), nil
	}).Split("x", "y").To("j")
	machine.Add(m, "x", func(ctx context.Context, in int) (machine.Action, error) {
		log.add("x %d %s", in, perdure.IdempotencyKey(ctx))
		return machine.Complete(1), nil
	})
	machine.Add(m, "y", func(ctx context.Context, in int) (machine.Action, error) {
		v, _ := perdure.Once(ctx, "v", func() (string, error) { return fmt.Sprint(in, bad), nil })
		log.add("y %d %s once %s", in, perdure.IdempotencyKey(ctx), v)
		if ok, _, _ := machine.State[bool](ctx); !ok {
			return machine.Sleep(time.Minute).Keep(true), nil
		}
		if in == 2 && bad {
			return machine.Fail("no", nil), nil
		}
		return machine.Complete(in), nil
	})
	machine.Add(m, "j", func(ctx context.Context, in map[string]int) (machine.Action, error) {
		log.add("j %v %s", in, perdure.IdempotencyKey(ctx))
		if in["y"] == 2 {
			return machine.Complete(2).To(machine.End), nil
		}
		return machine.Complete(in["y"] + 1).To("a"), nil
	}).To("a", machine.End)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Sleep(time.Hour)
		run.Is(journal.Failed)
		id := run.RunID()
		log.take()
		bad = false
		act(env, "x", admin.Order{Action: journal.ActionRetry})
		env.Sleep(10 * time.Minute)
		want := "y 2 " + id + "/split.a[y]#2/y once 2 true; j map[x:1 y:2] " + id + "/j[2]"
		if got := log.take(); got != want {
			t.Errorf("done are %s, want %s", got, want)
		}
		r := perduretest.Get(env, m.Workflow, "x")
		r.Is(journal.Completed)
	}, m)
}

// spec: R-15
func TestAForkFromAStepHasNewKeys(t *testing.T) {
	for _, from := range []string{"a", "a[2]", "b[2]", "split.s[x]/c"} {
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
			got := log.take()
			if err != nil || strings.Contains(got, run.RunID()+"/") ||
				!strings.Contains(got, "/"+from) {
				t.Errorf("a fork from %s: %v, done are %s", from, err, got)
			}
		}, m)
	}
}

// spec
func TestTheRetryOfARunThatWasCancelledInASplit(t *testing.T) {
	for _, comp := range []bool{false, true} {
		var log effects
		bad := true
		m := machine.New[int]("m", "o")
		machine.Add(m, "o", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("o %d %s", in, perdure.IdempotencyKey(ctx))
			return machine.Complete(1), nil
		}).Undo(func(context.Context, int) error { log.add("undo o"); return nil }).To("a")
		machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("a %d %s", in, perdure.IdempotencyKey(ctx))
			return machine.Split(machine.BranchOf("x", "x", in), machine.BranchOf("y", "y", in),
				machine.BranchOf("z", "z", in)), nil
		}).Split("x", "y", "z").To("j")
		machine.Add(m, "x", func(ctx context.Context, in int) (machine.Action, error) {
			log.add("x %d %s", in, perdure.IdempotencyKey(ctx))
			return machine.Complete(1), nil
		}).Undo(func(context.Context, int) error { log.add("undo x"); return nil })
		machine.Add(m, "y", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			log.add("y %d %s", n, perdure.IdempotencyKey(ctx))
			if n == 0 {
				return machine.Yield(1), nil
			}
			if bad {
				time.Sleep(2 * time.Hour)
			}
			return machine.Complete(in), nil
		}).Undo(func(context.Context, int) error { log.add("undo y"); return nil })
		machine.Add(m, "z", func(ctx context.Context, in int) (machine.Action, error) {
			n, _, _ := machine.State[int](ctx)
			log.add("z %d %s", n, perdure.IdempotencyKey(ctx))
			if n == 0 {
				return machine.Sleep(time.Hour).Keep(1), nil
			}
			return machine.Complete(in), nil
		})
		machine.Add(m, "j", func(ctx context.Context, in map[string]int) (machine.Action, error) {
			log.add("j %v %s", in, perdure.IdempotencyKey(ctx))
			return machine.Complete(1), nil
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
			env.Sleep(time.Minute)
			act(env, "x", admin.Order{Action: journal.ActionCancel, Compensate: comp})
			env.Sleep(3 * time.Hour)
			run.Is(journal.Cancelled)
			id := run.RunID()
			log.take()
			bad = false
			act(env, "x", admin.Order{Action: journal.ActionRetry})
			env.Sleep(3 * time.Hour)
			got := log.take()
			if strings.Contains(got, "x 1 "+id+"/") || strings.Contains(got, "o 1 "+id+"/") ||
				comp != strings.Contains(got, "x 1 ") || !strings.Contains(got, "y 1 "+id+"/") {
				t.Errorf("compensated: %v, done are %s", comp, got)
			}
			r := perduretest.Get(env, m.Workflow, "x")
			r.Is(journal.Completed)
		}, m)
	}
}

// spec: R-28
func TestTheRetryOfADocumentGoesOnWithItsRun(t *testing.T) {
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
		r.Is(journal.Completed)
	}, m, doc)
}

// spec
func TestAStepThatIsDoneAgainFindsTheSignalsThatItHadTaken(t *testing.T) {
	for action, want := range map[journal.Action]string{
		journal.ActionRetry: `"[1 2] [3]"`, journal.ActionSkip: `" [3]"`,
		journal.ActionFork: `"[1 2] [3]"`,
	} {
		bad := true
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", returns(machine.Complete(0))).To("b")
		machine.Add(m, "b", func(ctx context.Context, _ int) (machine.Action, error) {
			got, err := item.All(ctx)
			switch {
			case err != nil:
				return machine.Action{}, err
			case len(got) < 2:
				return machine.Suspend(), nil
			case bad:
				return machine.Fail("no", nil), nil
			}
			return machine.Complete(fmt.Sprint(got)), nil
		}).To("c")
		machine.Add(m, "c", func(ctx context.Context, before string) (machine.Action, error) {
			got, err := item.All(ctx)
			if len(got) == 0 || err != nil {
				return machine.Suspend(), err
			}
			return machine.Complete(fmt.Sprint(before, " ", got)), nil
		})
		t.Run(string(action), func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				bad = true
				run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
				for i := range 2 {
					perduretest.Send(env, item, "x", i+1, perdure.SendKey(fmt.Sprint(i)))
					env.Sleep(time.Minute)
				}
				run.Is(journal.Failed)
				bad = false
				order := admin.Order{Action: action}
				switch action {
				case journal.ActionSkip:
					order.Step, order.Output = "b", []byte(`""`)
				case journal.ActionFork:
					order.Step = "b"
				}
				next := perduretest.Get(env, m.Workflow, act(env, run.RunID(), order))
				perduretest.Send(env, item, "x", 1, perdure.SendKey("0")) // once more
				env.Sleep(time.Minute)
				perduretest.Send(env, item, "x", 3, perdure.SendKey("3"))
				env.Sleep(time.Minute)
				next.Returns([]byte(want))
				return nil
			}, m)
		})
	}
}

// A step is named as the report shows it, also if it has waited before it failed, and whether the
// operator names it or not.
//
// spec: B-8, R-40
func TestAVisitIsSkippedByThePathOfItsStep(t *testing.T) {
	m := machine.New[int]("m", "b")
	machine.Add(m, "b", func(ctx context.Context, _ int) (machine.Action, error) {
		if n, _, err := machine.State[int](ctx); n < 2 {
			return machine.Yield(n + 1), err
		}
		return machine.Fail("no", nil), nil
	}).To("c")
	machine.Add(m, "c", plus(1))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
		env.Sleep(time.Minute)
		run.Is(journal.Failed)
		runs := map[string]bool{}
		for _, step := range []string{"", "b", ""} {
			runs[act(env, run.RunID(), admin.Order{
				Action: journal.ActionSkip, Step: step, Output: []byte("1"),
			})] = true
		}
		if len(runs) != 1 {
			t.Errorf("there are the runs %v", runs)
		}
		for id := range runs {
			next := perduretest.Get(env, m.Workflow, id)
			next.Returns([]byte("2"))
			if o := next.Report().Steps; len(o) == 0 || o[0].Status != journal.StepIsSkipped {
				t.Errorf("the steps are %v", o)
			}
		}
	}, m)
}

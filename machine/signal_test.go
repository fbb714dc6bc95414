package machine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

var item = perdure.NewSignal[int]("item")

// A step reads a signal and returns one action after the other. The signal is there as long as no
// action takes it, and no later step sees it, nor a second delivery of it.
//
// spec
func TestSignalsAreTakenWithTheRecordOfTheirStep(t *testing.T) {
	for name, c := range map[string]struct {
		takes  bool
		action func(ctx context.Context) machine.Action // after reading
	}{
		"complete": {true, func(context.Context) machine.Action { return machine.Complete(0) }},
		"split": {true, func(context.Context) machine.Action {
			return machine.Split(machine.BranchOf("x", "look", 0))
		}},
		"fail": {true, func(context.Context) machine.Action { return machine.Fail("no", 1) }},
		"continue as new": {true, func(context.Context) machine.Action {
			return machine.ContinueAsNew(1)
		}},
		"yield": {false, func(context.Context) machine.Action { return machine.Yield(1) }},
		"sleep": {false, func(context.Context) machine.Action {
			return machine.Sleep(1).Keep(1)
		}},
		"suspend": {false, func(context.Context) machine.Action {
			return machine.Suspend().Within(time.Second, "").Keep(1)
		}},
		"child": {false, func(context.Context) machine.Action {
			return machine.StartChild(machine.ChildOf(kid, "k", 1)).Keep(1)
		}},
		"retry": {false, func(ctx context.Context) machine.Action {
			if n, _, _ := perdure.Attempt(ctx); n > 1 {
				return machine.Yield(1)
			}
			return machine.Retry(perdure.Retry{}, nil)
		}},
		"error": {false, func(context.Context) machine.Action { return machine.Action{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after []int
			m := machine.New[int]("m", "a")
			machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
				if in == 1 {
					return machine.Complete(0), nil // the successor
				}
				again, _, err := machine.State[int](ctx)
				all, e := item.All(ctx)
				if len(all) == 0 && e == nil {
					return machine.Suspend(), nil
				}
				if err != nil || e != nil || again == 1 {
					before = all
					return machine.Complete(0), e
				}
				before = nil
				if a := c.action(ctx); name != "error" {
					return a, nil
				}
				return machine.Action{}, errBad
			}).Split("look").To("look").OnError("look")
			machine.Add(m, "look", machine.Do(func(ctx context.Context, _ any) (int, error) {
				all, err := item.All(ctx)
				after = append(after, all...)
				return 0, err
			}))
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				before, after = nil, nil
				var run any
				r := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
				for range 2 {
					perduretest.Send(env, item, "x", 7, perdure.SendKey("once"))
				}
				env.Sleep(time.Minute)
				run = r.Report().Status
				perduretest.Send(env, item, "x", 8, perdure.SendKey("end"))
				switch {
				case c.takes && len(after) > 0:
					t.Errorf("a later step sees %v", after)
				case !c.takes && name != "error" && fmt.Sprint(before) != "[7]":
					t.Errorf("the next call of the step sees %v", before)
				case !c.takes && name == "error" && fmt.Sprint(slices.Compact(after)) != "[7]":
					t.Errorf("the step after the error sees %v", after)
				}
				return run
			}, m, kid)
		})
	}
}

// spec: R-19
func TestNoTwoBranchesReadOneSignal(t *testing.T) {
	for seed := range uint64(20) {
		rng, outside := rand.New(rand.NewPCG(seed, 20)), rand.New(rand.NewPCG(seed, 21))
		branches, signals := 2+rng.IntN(4), 10+rng.IntN(30)
		var mu sync.Mutex
		var taken []int
		now := map[int]int{} // how many calls go on that have read a signal
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
			var all []machine.Branch
			for i := range branches {
				all = append(all, machine.BranchOf(fmt.Sprint("b", i), "b", i))
			}
			return machine.Split(all...), nil
		}).Split("b")
		machine.Add(m, "b", func(ctx context.Context, _ int) (machine.Action, error) {
			got, err := item.All(ctx)
			if err != nil {
				return machine.Action{}, err
			}
			mu.Lock()
			for _, n := range got {
				if now[n]++; now[n] > 1 {
					t.Errorf("seed %d: two branches have signal %d", seed, n)
				}
			}
			pause, action := time.Duration(rng.IntN(5))*time.Second, rng.IntN(4)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				for _, n := range got {
					now[n]--
				}
			}()
			time.Sleep(pause)
			switch {
			case slices.Contains(got, -1) && len(got) == 1:
				return machine.Sleep(time.Second), nil // not for it: others are still to come
			case len(got) == 0:
				return machine.Suspend().Within(time.Minute, "over"), nil
			case action == 0:
				return machine.Yield(nil), nil
			case action == 1:
				return machine.Sleep(time.Second), nil
			}
			mu.Lock()
			taken = append(taken, got...)
			mu.Unlock()
			return machine.Complete(0).To("b"), nil
		}).To("b", "over")
		machine.Add(m, "over", plus(0))
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, m.Workflow, 0, perdure.ID("x"))
			for i := range signals {
				env.Sleep(time.Duration(outside.IntN(3000)) * time.Millisecond)
				perduretest.Send(env, item, "x", i)
				if outside.IntN(8) == 0 {
					env.Restart()
				}
			}
			env.Sleep(10 * time.Minute)
			run.Is(journal.Completed)
			run.Unread()
		}, m)
		slices.Sort(taken)
		if len(taken) < signals || len(slices.Compact(taken)) != signals {
			t.Errorf("seed %d: taken are %v of %d", seed, taken, signals)
		}
	}
}

// spec
func TestEventsOfACallThatGoesOnAreNotPublished(t *testing.T) {
	var mu sync.Mutex
	var told []string
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		n, _, err := machine.State[int](ctx)
		if e := perdure.Emit(ctx, fmt.Sprint("call", n), n); err != nil || e != nil {
			return machine.Action{}, e
		}
		switch n {
		case 0:
			return machine.Yield(1), nil
		case 1:
			return machine.Suspend().Within(time.Second, "").Keep(2), nil
		}
		return machine.Split(machine.BranchOf("x", "b", 1)).Emit("split", 1), nil
	}).Split("b").To("c")
	machine.Add(m, "b", returns(machine.Complete(1).Emit("done", 1)))
	machine.Add(m, "c", func(context.Context, any) (machine.Action, error) {
		return machine.Fail("no", nil).Emit("failed", 1), nil
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{m},
		Options: perdure.Options{Publisher: func(_ context.Context, e perdure.Event) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Type)
			return nil
		}},
	}.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Sleep(time.Minute)
	})
	if got := strings.Join(told, " "); got != "call2 split done failed" {
		t.Errorf("told are %s", got)
	}
}

// spec: R-8
func TestACompensationReadsSignals(t *testing.T) {
	seen := ""
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", plus(1)).Undo(func(ctx context.Context, _ int) error {
		all, err := item.All(ctx)
		seen = fmt.Sprint(all)
		return err
	}).To("b")
	machine.Add(m, "b", func(context.Context, int) (machine.Action, error) {
		return machine.Suspend().Within(time.Second, "c"), nil
	}).To("c")
	machine.Add(m, "c", returns(machine.Fail("no", nil)))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		perduretest.Send(env, item, "x", 9)
		env.Sleep(time.Minute)
		run.Is(journal.Compensated)
	}, m)
	if seen != "[9]" {
		t.Errorf("it has seen %s", seen)
	}
}

// spec: R-19
func TestACallThatWasGivenUpClaimsNothing(t *testing.T) {
	var seen []int
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", func(ctx context.Context, _ int) (machine.Action, error) {
		n, _, err := perdure.Attempt(ctx)
		again, _, e := machine.State[bool](ctx)
		switch {
		case err != nil || e != nil:
			return machine.Action{}, err
		case n == 1 && !again:
			time.Sleep(5 * time.Second) // past its timeout
			_, err := item.All(ctx)
			return machine.Action{}, err
		case !again:
			return machine.Sleep(20 * time.Second).Keep(true), nil
		}
		seen, err = item.All(ctx)
		return machine.Complete(0), err
	}).Timeout(time.Second).Retry(perdure.Retry{Attempts: 2})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		perduretest.Send(env, item, "x", 9)
		env.Sleep(time.Minute)
		run.Is(journal.Completed)
	}, m)
	if fmt.Sprint(seen) != "[9]" {
		t.Errorf("the call after it has seen %v", seen)
	}
}

package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
)

func newEngine(t *testing.T) *perdure.Engine {
	t.Helper()
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// A trip is a workflow whose code runs sagas.
type trip struct {
	shop
	w *perdure.Workflow[string, string]
}

// newTrip makes a trip: a saga for each of two days, then a saga that may fail.
func newTrip() *trip {
	t := &trip{}
	day1, first := t.member("day1")
	day2, _ := t.member("day2")
	end, _ := t.member("end")
	t.w = perdure.Define("trip", func(ctx context.Context, how string) (string, error) {
		one, err := day1.Inline(ctx, "day", any(1), perdure.Key("1"))
		if err != nil {
			return "", err
		}
		two, err := day2.Inline(ctx, "day", any(2), perdure.Key("2"))
		if err != nil {
			return "", err
		}
		last, err := end.Inline(ctx, "end", any(3))
		if err != nil {
			return "", err
		}
		out, found, err := first.Of(one)
		said := fmt.Sprint(out, found, err, one.Err(), two.Err(), blame(last.Err()),
			last.FailedSteps(), last.CompensatedSteps())
		if last.Err() == nil {
			return said, perdure.Sleep(ctx, 20*time.Millisecond)
		}
		return said, errors.Join(two.Undo(ctx), one.Undo(ctx))
	})
	return t
}

// spec: F-44
func TestAWorkflowRunsSagasWhereverItCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		fails []string
		left  string
		says  string
	}{
		"nothing fails": {
			nil, of("day1", "day2", "end"), "result of day1/firsttrue <nil> <nil> <nil>none[] []",
		},
		"the last": {
			[]string{"end/each[y]"},
			"",
			"result of day1/firsttrue <nil> <nil> <nil>step each[y][each[y]] [each[x] first]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrip()
			s.fails = set(c.fails)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				s.reset()
				run := perduretest.Start(env, s.w, "")
				run.Returns(c.says)
				s.check(env, run.ID())
				if left := s.effects(); left != c.left {
					env.Errorf("there is %q, want %q", left, c.left)
				}
				return nil
			}, s.w)
		})
	}
}

// spec: F-44, L-10
func TestAWorkflowThatIsCancelledUndoesItsSagas(t *testing.T) {
	for _, fails := range [][]string{nil, {"end/each[y]"}} {
		for after := time.Duration(
			0); after < 150*time.Millisecond; after += 2700 * time.Microsecond {
			s := newTrip()
			s.fails = set(fails)
			perduretest.Test(t, func(env *perduretest.Env) {
				s.reset()
				run := perduretest.Start(env, s.w, "")
				env.Sleep(after)
				if refused := cancel(env, run.ID()); !refused {
					run.Fails(&perdure.Error{Code: perdure.CodeCancelled})
					if left := s.effects(); left != "" {
						env.Errorf("cancelled after %v, there is %q", after, left)
					}
				}
				_, _ = run.Result()
				s.check(env, run.ID())
			}, s.w)
		}
	}
}

// spec: F-44
func TestASagaWithIssuesIsNotRunInline(t *testing.T) {
	bad := saga.New[int]("bad").Policy("odd")
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := bad.Inline(ctx, "part", 1)
		var issues *definition.Error
		if !errors.As(err, &issues) || len(issues.Issues) != 2 {
			return 0, perdure.Permanent(fmt.Errorf("it gave %w", err))
		}
		return len(issues.Issues), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) { perduretest.Start(env, w, 1).Returns(2) }, w)
}

// paying is a saga with a keyed step, and a step over a list with a key for each clone. It notes
// the idempotency key of each charge, by the value that the step keeps for itself.
func paying(charged map[string]string) *saga.Saga[int] {
	var mu sync.Mutex
	charge := func(ctx context.Context, _ int) (int, error) {
		key := perdure.IdempotencyKey(ctx)
		receipt, err := perdure.Once(ctx, "receipt", func() (string, error) {
			return "receipt of " + key, nil
		})
		if err != nil {
			return 0, err
		}
		mu.Lock()
		defer mu.Unlock()
		charged[receipt] = key
		return 1, nil
	}
	pay := saga.New[int]("pay")
	saga.Add(pay, "charge", charge).Key("charge")
	saga.Add(pay, "again", charge).Key("charge").Order(1)
	saga.AddEach(pay, "each", func(int) []int { return []int{1, 2} }, charge).Key("one").Order(2)
	return pay
}

// Parts of a run are separate executions: a key that one part has used is new in another part,
// wherever in the run it is.
//
// spec: F-28, F-33, F-44
func TestAKeyIsOfItsPart(t *testing.T) {
	charged := map[string]string{}
	pay := paying(charged)
	buy := saga.Compose[int]("buy")
	saga.Include(buy, "a", pay)
	saga.Include(buy, "a.b", pay)
	twice := func(ctx context.Context) (int, error) {
		for range 2 {
			if _, err := pay.Inline(ctx, "pay", 1); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	parts := map[string]struct {
		count int
		code  func(ctx context.Context) error
	}{
		"in two branches": {4, func(ctx context.Context) error {
			left, right := perdure.Go(ctx, "left", twice), perdure.Go(ctx, "right", twice)
			_, err := left.Await(ctx)
			_, other := right.Await(ctx)
			return errors.Join(err, other)
		}},
		"nested": {3, func(ctx context.Context) error {
			within, err := perdure.Scope(ctx, "pay")
			if err != nil {
				return err
			}
			_, err = pay.Inline(within, "pay", 1)
			_, other := twice(ctx)
			return errors.Join(err, other)
		}},
		"in a loop": {4, func(ctx context.Context) error {
			for _, key := range []perdure.Key{"1", "1.charge", "2", "1"} {
				if _, err := pay.Inline(ctx, "pay", 1, key); err != nil {
					return err
				}
			}
			return nil
		}},
		"in a clean-up": {2, func(ctx context.Context) error {
			_, err := pay.Inline(ctx, "pay", 1)
			return errors.Join(
				err, perdure.Finally(ctx, "finally", func(ctx context.Context) error {
					_, err := pay.Inline(ctx, "pay", 1)
					return err
				}))
		}},
	}
	play := func(t *testing.T, w perdure.Definition, start func(*perduretest.Env) error,
		count int) {
		t.Helper()
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			clear(charged)
			if err := start(env); err != nil || len(charged) != 3*count {
				env.Errorf("charged %v, %v", charged, err)
			}
			return nil
		}, w)
	}
	t.Run("in a composition", func(t *testing.T) {
		play(t, buy, func(env *perduretest.Env) error {
			_, err := perduretest.Start(env, buy.Workflow, 1).Result()
			return err
		}, 2)
	})
	for name, c := range parts {
		t.Run(name, func(t *testing.T) {
			w := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
				return 0, c.code(ctx)
			})
			play(t, w, func(env *perduretest.Env) error {
				_, err := perduretest.Start(env, w, 1).Result()
				return err
			}, c.count)
		})
	}
}

// Compensations of parts have their own keys too, in the run's code and in its clean-ups.
//
// spec: F-28, R-15, F-44
func TestCompensationsOfPartsHaveTheirOwnKeys(t *testing.T) {
	var mu sync.Mutex
	undone := map[string]bool{}
	pay := saga.New[int]("pay")
	charge := saga.Add(pay, "charge", nothing).Undo(func(ctx context.Context, _, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		undone[perdure.IdempotencyKey(ctx)] = true
		return nil
	})
	saga.Add(pay, "bad", func(context.Context, int) (int, error) { return 0, errBroken }).
		After(charge)
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		for range 2 {
			if _, err := pay.Inline(ctx, "pay", 1); err != nil {
				return 0, err
			}
		}
		return 0, perdure.Finally(ctx, "finally", func(ctx context.Context) error {
			_, err := pay.Inline(ctx, "pay", 1)
			return err
		})
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		clear(undone)
		run := perduretest.Start(env, whole, 1)
		if _, err := run.Result(); err != nil || len(undone) != 3 {
			env.Errorf("undone by %v, %v", undone, err)
		}
		patterntest.Letters(env, 3)
		return nil
	}, whole)
}

// spec: F-31
func TestAPartThatNobodyCouldDecideOnIsRefused(t *testing.T) {
	long := strings.Repeat("x", 140)
	pay := saga.New[int]("pay").ParkOnUndoError()
	saga.Add(pay, long, nothing).Undo(func(context.Context, int, int) error { return nil })
	buy := saga.Compose[int]("buy")
	saga.Include(buy, long, pay)
	if err := newEngine(t).Register(buy); err == nil ||
		!strings.Contains(err.Error(), "too long together for an operator") {
		t.Errorf("registered: %v", err)
	}
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		_, err := pay.Inline(ctx, long, 1)
		return 0, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, whole, 1).Fails(&perdure.Error{Code: perdure.CodeInvalid})
	}, whole)
}

// Mistakes in a definition are found without an engine, as Register finds them.
//
// spec: F-8
func TestADefinitionIsCheckedWithoutRegistering(t *testing.T) {
	one, graph, whole := saga.New[int]("one"), dag.New[int]("graph"), saga.Compose[int]("whole")
	saga.Add(one, "a", nothing).Timeout(-time.Second)
	saga.Add(one, "a", nothing)
	dag.Add(graph, "b", nothing)
	dag.Add(graph, "b", nothing)
	for _, def := range []perdure.Definition{one, graph, whole} {
		issues := perdure.Check(def)
		var refused *definition.Error
		if err := newEngine(t).Register(def); !errors.As(err, &refused) || len(issues) == 0 ||
			fmt.Sprint(refused.Issues) != fmt.Sprint(issues) {
			t.Errorf("checked: %v, registered: %v", issues, err)
		}
	}
}

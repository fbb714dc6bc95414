package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A bank books each payment that it is asked for, and does not know keys.
type bank struct {
	mu     sync.Mutex
	booked map[string]int
}

func (b *bank) book(what string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.booked[what]++
		return what, nil
	}
}

func (b *bank) has(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked[what] > 0
}

// Payments are booked in sequence, beside the workflow, and in a branch. If a payment was
// interrupted, the workflow asks the bank whether it is booked, and pays if it is not.
func payments(b *bank) *perdure.Workflow[int, string] {
	pay := func(ctx context.Context, what string, got error) error {
		if !errors.Is(got, effect.ErrInterrupted) {
			return got
		}
		is, err := perdure.Step(ctx, "look", func(context.Context) (bool, error) {
			return b.has(what), nil
		}, perdure.Key(what))
		if err != nil || is {
			return err
		}
		_, err = perdure.Step(ctx, "again", b.book(what), perdure.Key(what), effect.AtMostOnce)
		return err
	}
	return perdure.Define("payments", func(ctx context.Context, _ int) (string, error) {
		beside := perdure.Async(ctx, "beside", b.book("beside"), effect.AtMostOnce)
		branch := perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
			_, err := perdure.Step(ctx, "inside", b.book("inside"), effect.AtMostOnce)
			return "", pay(ctx, "inside", err)
		})
		for _, name := range []string{"first", "second"} {
			_, err := perdure.Step(ctx, name, b.book(name), effect.AtMostOnce)
			if err := pay(ctx, name, err); err != nil {
				return "", err
			}
		}
		_, err := beside.Await(ctx)
		if err := pay(ctx, "beside", err); err != nil {
			return "", err
		}
		_, err = branch.Await(ctx)
		return "paid", err
	})
}

// spec: B-22
func TestAPaymentIsBookedOnceWhereverTheEngineDies(t *testing.T) {
	b := &bank{}
	def := payments(b)
	interrupted := 0
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		b.mu.Lock()
		b.booked = map[string]int{}
		b.mu.Unlock()
		run := perduretest.Start(env, def, 0)
		run.Returns("paid")
		for _, s := range run.Report().Steps {
			if errors.Is(s.Err, effect.ErrInterrupted) {
				interrupted++
			}
		}
		return fmt.Sprint(b.booked)
	}, def)
	if want := "map[beside:1 first:1 inside:1 second:1]"; fmt.Sprint(b.booked) != want {
		t.Errorf("booked is %v, want %s", b.booked, want)
	}
	if interrupted == 0 {
		t.Error("no crash has interrupted a payment")
	}
}

// The start is durable before the body is called, and not later.
//
// spec: B-22
func TestTheStartIsDurableBeforeTheBodyIsCalled(t *testing.T) {
	var env *perduretest.Env
	recorded := false
	def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			entries, err := env.Engine().History(ctx, "w-1", 0, 100)
			recorded = err == nil && slices.ContainsFunc(entries, func(e journal.Entry) bool {
				return e.Kind == journal.StepStarted && e.Op.Name == "s"
			})
			return 1, nil
		}, effect.AtMostOnce)
	})
	perduretest.Test(t, func(e *perduretest.Env) {
		env = e
		perduretest.Start(env, def, 0).Returns(1)
		if !recorded {
			env.Error("the body was called before its start was durable")
		}
	}, def)
}

// spec: B-22
func TestWhereAtMostOnceMeansNothingItIsRefused(t *testing.T) {
	do := func(opts ...perdure.StepOption) func(context.Context, func()) error {
		return func(ctx context.Context, call func()) error {
			return perdure.Do(ctx, "s", func(context.Context) error { call(); return nil }, opts...)
		}
	}
	for name, c := range map[string]struct {
		do   func(context.Context, func()) error
		want string
	}{
		"retry": {
			do(effect.AtMostOnce, perdure.Retry{Attempts: 2}),
			"step s: a step that runs at most once cannot have a retry policy",
		},
		"retry first": {
			do(perdure.NoRetry, effect.AtMostOnce),
			"step s: a step that runs at most once cannot have a retry policy",
		},
		"transaction": {
			func(ctx context.Context, call func()) error {
				_, err := perdure.StepTx(ctx, "s", noDatabase{},
					func(context.Context, int) (int, error) { call(); return 0, nil },
					effect.AtMostOnce)
				return err
			},
			"step s: a step in a transaction cannot have effect.AtMostOnce",
		},
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			def := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				err := c.do(ctx, func() { called = true })
				var e *perdure.Error
				if !errors.As(err, &e) || e.Code != journal.CodeInvalid || e.Hint == "" {
					t.Errorf("it is %v", err)
				}
				return fmt.Sprint(err), nil
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				out, err := perduretest.Start(env, def, 0).Result()
				if !strings.Contains(out, c.want) || err != nil || called {
					env.Errorf("it is %q, %v; called: %v", out, err, called)
				}
			}, def)
		})
	}
}

// A noDatabase has transactions that are never begun.
type noDatabase struct{ perdure.Transactions[int] }

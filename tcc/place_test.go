package tcc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// Two parts of a run that are the same TCC have different names for an operator.
//
// spec: F-38, F-44
func TestPartsThatAreParkedAreDecidedApart(t *testing.T) {
	def := pair("pay", "confirm:a").Park()
	whole := perdure.Define("whole", func(ctx context.Context, in int) (string, error) {
		var all []*perdure.Future[string]
		for _, key := range []string{"one", "two"} {
			all = append(all, perdure.Go(ctx, key, func(ctx context.Context) (string, error) {
				e, err := def.Inline(ctx, in, perdure.Key(key))
				return e.Status.String(), err
			}))
		}
		first, err := all[0].Await(ctx)
		second, err2 := all[1].Await(ctx)
		return first + " " + second, errors.Join(err, err2)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, whole, 7, perdure.ID("x"))
		env.Sleep(time.Minute)
		for name, choice := range map[string]string{
			"confirm:pay.one.a": "handled",
			"confirm:pay.two.a": "skip",
		} {
			if err := env.Do(func(eng *perdure.Engine) error {
				return eng.Decide(env.Context(), "x", name, perdure.Decision{Choice: choice})
			}); err != nil {
				env.Fatal(err)
			}
		}
		run.Returns("CONFIRMED CANCELED")
		return nil
	}, whole)
}

// Parts of a run have their own idempotency keys, wherever in the run they are.
//
// spec: F-28, R-15, F-44
func TestPartsHaveTheirOwnKeys(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]bool{}
	note := func(ctx context.Context, _ int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		keys[perdure.IdempotencyKey(ctx)] = true
		return 0, nil
	}
	then := func(ctx context.Context, in, _ int) error { _, err := note(ctx, in); return err }
	pay := tcc.New[int]("pay")
	tcc.Add(pay, "a", note).Confirm(then).Cancel(then)
	twice := func(ctx context.Context) (int, error) {
		_, err := pay.Inline(ctx, 7)
		_, again := pay.Inline(ctx, 7)
		return 0, errors.Join(err, again)
	}
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		left, right := perdure.Go(ctx, "left", twice), perdure.Go(ctx, "right", twice)
		_, err := left.Await(ctx)
		_, other := right.Await(ctx)
		_, own := twice(ctx)
		return 0, errors.Join(err, other, own, perdure.Finally(ctx, "finally",
			func(ctx context.Context) error {
				_, err := twice(ctx)
				return err
			}))
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		clear(keys)
		if _, err := perduretest.Start(env, whole, 7).Result(); err != nil || len(keys) != 2*8 {
			env.Errorf("keys %v, %v", keys, err)
		}
		return nil
	}, whole)
}

// spec: F-38
func TestAPartThatNobodyCouldDecideOnIsRefused(t *testing.T) {
	def := pair("pay").Park()
	whole := perdure.Define("whole", func(ctx context.Context, in int) (int, error) {
		_, err := def.Inline(ctx, in, perdure.Key(strings.Repeat("k", 250)))
		return 0, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, whole, 7).Fails(&perdure.Error{Code: perdure.CodeInvalid})
	}, whole)
}

package saga_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// A saga that is retried from its dead letter repeats the steps that were undone, under new keys,
// and the steps that have failed. Effects that were not undone still exist.
//
// spec: P-4, F-29
func TestASagaIsRetriedFromTheFailedStep(t *testing.T) {
	type input struct{ Boxes []string }
	var l patterntest.Ledger
	did := func(what string) func(context.Context, struct{}) (string, error) {
		return func(ctx context.Context, _ struct{}) (string, error) {
			return what, l.Book(ctx, what)
		}
	}
	def := saga.New[input]("order")
	reserve := saga.Add(def, "reserve", did("reserve")).Undo(
		func(ctx context.Context, _ struct{}, _ string) error { return l.Book(ctx, "release") })
	look := saga.Add(def, "look", did("look")) // it has no compensation
	saga.AddEach(def, "pack", func(in input) []string { return in.Boxes },
		func(ctx context.Context, box string) (string, error) {
			return box, l.Book(ctx, "pack "+box)
		}).After(reserve, look).Undo(func(ctx context.Context, box, _ string) error {
		return l.Book(ctx, "unpack "+box)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset("pack b")
		run := perduretest.Start(env, def.Workflow, input{[]string{"a", "b", "c"}},
			perdure.ID("ord-1"))
		if _, err := run.Result(); err == nil {
			env.Error("it does not fail")
		}
		if got, want := l.String(), "look 1, pack a 1, pack c 1, release 1, reserve 1, unpack a "+
			"1, unpack c 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		letter := patterntest.Letters(env, 1)[0]
		if letter.Step != "pack[1]" || letter.Status != perdure.StatusRunning {
			env.Errorf("the letter is about %q, which failed %v", letter.Step, letter.Status)
		}
		l.Break()
		if r := patterntest.Retry(env, letter); r.Status != perdure.StatusCompleted {
			env.Errorf("retried, it is %v: %v", r.Status, r.Err)
		}
		if got, want := l.String(), "look 1, pack a 2, pack b 1, pack c 2, release 1, reserve 2, "+
			"unpack a 1, unpack c 1"; got != want {
			env.Errorf("retried, took effect: %s, want %s", got, want)
		}
		patterntest.Letters(env, 0)
		return nil
	}, def)
}

// Steps of one part of a run that were undone are repeated in that part alone, even if steps of
// other parts have the same names.
//
// spec: P-4, F-44
func TestARetryRedoesWhatWasUndoneAndNothingOfThatName(t *testing.T) {
	var l patterntest.Ledger
	pay := saga.New[string]("pay")
	saga.Add(pay, "notify", func(ctx context.Context, in string) (string, error) {
		return in, l.Book(ctx, "notify "+in)
	}).
		Undo(func(ctx context.Context, in, _ string) error { return l.Book(ctx, "un-notify "+in) })
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		if _, err := perdure.Step(ctx, "notify", func(ctx context.Context) (int, error) {
			return 0, l.Book(ctx, "top")
		}); err != nil {
			return 0, err
		}
		var parts []*saga.Part
		for _, name := range []string{"one", "two"} {
			part, err := pay.Inline(ctx, name, name)
			if err != nil {
				return 0, err
			}
			parts = append(parts, part)
		}
		_, err := perdure.Step(ctx, "last", func(ctx context.Context) (int, error) {
			return 0, l.Book(ctx, "last")
		})
		if err != nil {
			if err := parts[1].Undo(ctx); err != nil {
				return 0, err
			}
		}
		return 0, err
	}, deadletter.Automatic(true))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset("last")
		_, _ = perduretest.Start(env, whole, 7, perdure.ID("x")).Result()
		l.Break()
		if r := patterntest.Retry(
			env, patterntest.Letters(env, 1)[0]); r.Status != perdure.StatusCompleted {
			env.Errorf("retried, it is %v: %v", r.Status, r.Err)
		}
		if got, want := l.String(),
			"last 1, notify one 1, notify two 2, top 1, un-notify two 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		return nil
	}, whole)
}

// A failure that the code has handled stays as it was when a later failure is retried.
//
// spec: P-4
func TestARetryLeavesWhatWasDealtWith(t *testing.T) {
	var l patterntest.Ledger
	first := saga.New[int]("first")
	saga.Add(first, "try-it", func(ctx context.Context, _ int) (int, error) {
		return 0, l.Book(ctx, "try-it")
	})
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		part, err := first.Inline(ctx, "first", 1)
		if err != nil {
			return 0, err
		}
		if part.Err() != nil {
			if _, err := perdure.Step(ctx, "plan-b", func(ctx context.Context) (int, error) {
				return 0, l.Book(ctx, "plan-b")
			}); err != nil {
				return 0, err
			}
		}
		return perdure.Step(ctx, "last", func(ctx context.Context) (int, error) {
			return 0, l.Book(ctx, "last")
		})
	}, deadletter.Automatic(true))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset("try-it", "last")
		run := perduretest.Start(env, whole, 7, perdure.ID("x"))
		_, _ = run.Result()
		l.Break()
		for _, letter := range patterntest.Letters(env, 2) {
			if letter.Step == "last" {
				if r := patterntest.Retry(env, letter); r.Status != perdure.StatusCompleted {
					env.Errorf("retried, it is %v: %v", r.Status, r.Err)
				}
			}
		}
		if got, want := l.String(), "last 1, plan-b 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		return nil
	}, whole)
}

// An error that a callback suppresses has no dead letter.
//
// spec: P-4, F-9
func TestASuppressedErrorHasNoLetter(t *testing.T) {
	def := saga.New[int]("saga").On(pattern.Callback{
		Failure: func(context.Context, error) (bool, error) { return true, nil },
	})
	saga.Add(def, "a", func(context.Context, int) (int, error) { return 0, errBroken })
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		_, err := perduretest.Start(env, def.Workflow, 1).Result()
		patterntest.Letters(env, 0)
		return err
	}, def)
}

// A step that begins after a sibling has failed, because the limiter has room for it, and then
// succeeds and is not undone, is not run again by a retry.
//
// spec: F-18, F-29, P-4
func TestARetriedSagaKeepsWhatBeganBesideTheFailure(t *testing.T) {
	var l patterntest.Ledger
	def := saga.New[int]("order").Backpressure(backpressure.Limit(1))
	for _, id := range []string{"bad", "keeps", "undone"} {
		s := saga.Add(def, id, func(ctx context.Context, _ int) (string, error) {
			return id, l.Book(ctx, id)
		})
		if id == "undone" {
			s.Undo(func(ctx context.Context, _ int, _ string) error { return l.Book(ctx, "undo") })
		}
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset("bad")
		_, _ = perduretest.Start(env, def.Workflow, 7, perdure.ID("x")).Result()
		l.Retried(env, "bad, keeps, undo, undone", perdure.StatusCompleted, "bad, undone")
	}, def)
}

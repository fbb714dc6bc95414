package saga_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// A saga that is retried from its dead letter does again what was undone, under new
// keys, and what has failed; what was not undone is there still.
//
// spec: P-4, F-29
func TestASagaIsRetriedFromTheFailedStep(t *testing.T) {
	type input struct{ Boxes []string }
	var l patterntest.Ledger
	did := func(what string) func(context.Context, struct{}) (string, error) {
		return func(ctx context.Context, _ struct{}) (string, error) { return what, l.Book(ctx, what) }
	}
	def := saga.New[input]("order")
	reserve := saga.Add(def, "reserve", did("reserve")).Undo(func(ctx context.Context, _ struct{}, _ string) error { return l.Book(ctx, "release") })
	look := saga.Add(def, "look", did("look")) // nothing undoes it
	saga.AddEach(def, "pack", func(in input) []string { return in.Boxes }, func(ctx context.Context, box string) (string, error) {
		return box, l.Book(ctx, "pack "+box)
	}).After(reserve, look).Undo(func(ctx context.Context, box, _ string) error { return l.Book(ctx, "unpack "+box) })
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset("pack b")
		run := perduretest.Start(env, def.Workflow, input{[]string{"a", "b", "c"}}, perdure.ID("ord-1"))
		if _, err := run.Result(); err == nil {
			env.Error("it does not fail")
		}
		if got, want := l.String(), "look 1, pack a 1, pack c 1, release 1, reserve 1, unpack a 1, unpack c 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		letter := patterntest.Letters(env, 1)[0]
		if letter.Step != "pack[1]" {
			env.Errorf("the letter is about %q", letter.Step)
		}
		l.Break()
		if r := patterntest.Retry(env, letter); r.Status != perdure.StatusCompleted {
			env.Errorf("retried, it is %v: %v", r.Status, r.Err)
		}
		if got, want := l.String(), "look 1, pack a 2, pack b 1, pack c 2, release 1, reserve 2, unpack a 1, unpack c 1"; got != want {
			env.Errorf("retried, took effect: %s, want %s", got, want)
		}
		patterntest.Letters(env, 0)
		return nil
	}, def)
}

package tcc_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// A TCC that could neither be confirmed nor cancelled is retried from the top: its
// participants try again, under new keys.
//
// spec: P-4, F-40
func TestATCCThatHasFailedIsRetried(t *testing.T) {
	var l patterntest.Ledger
	def := tcc.New[int]("pay").Retry(perdure.NoRetry)
	for _, id := range []string{"a", "b"} {
		tcc.Add(def, id, func(ctx context.Context, _ int) (string, error) { return id, l.Book(ctx, "try "+id) }).
			Confirm(func(ctx context.Context, _ int, _ string) error { return l.Book(ctx, "confirm "+id) }).
			Cancel(func(ctx context.Context, _ int, _ string) error { return l.Book(ctx, "cancel "+id) })
	}
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset("confirm b", "cancel a")
		run := perduretest.Start(env, def.Workflow, 7, perdure.ID("x"))
		_, _ = run.Result()
		run.Is(perdure.StatusFailed)
		if got, want := l.String(), "cancel b 1, confirm a 1, try a 1, try b 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		l.Break()
		letter := patterntest.Letters(env, 1)[0]
		if letter.Step != "a" {
			env.Errorf("the letter is about %q", letter.Step)
		}
		if r := patterntest.Retry(env, letter); r.Status != perdure.StatusConfirmed {
			env.Errorf("retried, it is %v: %v", r.Status, r.Err)
		}
		if got, want := l.String(), "cancel b 1, confirm a 2, confirm b 1, try a 2, try b 2"; got != want {
			env.Errorf("retried, took effect: %s, want %s", got, want)
		}
		patterntest.Letters(env, 0)
		return nil
	}, def)
}

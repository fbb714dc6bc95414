package tcc_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// A TCC that could neither be confirmed nor cancelled continues to cancel when it is retried:
// nobody tries again while something may be held.
//
// spec: P-4, F-40
func TestATCCThatHasFailedIsRetried(t *testing.T) {
	var l patterntest.Ledger
	def := tcc.New[int]("pay").Retry(perdure.NoRetry)
	for _, id := range []string{"a", "b"} {
		tcc.Add(def, id, func(ctx context.Context, _ int) (string, error) {
			return id, l.Book(ctx, "try "+id)
		}).
			Confirm(func(ctx context.Context, _ int, _ string) error {
				return l.Book(ctx, "confirm "+id)
			}).
			Cancel(func(ctx context.Context, _ int, _ string) error {
				return l.Book(ctx, "cancel "+id)
			})
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
		if r := patterntest.Retry(env, letter); r.Status != perdure.StatusCanceled {
			env.Errorf("retried, it is %v: %v", r.Status, r.Err)
		}
		if got, want := l.String(),
			"cancel a 1, cancel b 1, confirm a 1, try a 1, try b 1"; got != want {
			env.Errorf("retried, took effect: %s, want %s", got, want)
		}
		patterntest.Letters(env, 0)
		return nil
	}, def)
}

// If one of two TCCs in a stopped run was confirmed and the other cancelled, a retry makes the
// cancelled TCC try again, under new keys, and does not touch the confirmed TCC.
//
// spec: P-4, F-38, F-44
func TestARetryRedoesTheTCCThatWasCalledOff(t *testing.T) {
	var l patterntest.Ledger
	hangs := true
	part := func(name string, ids ...string) *tcc.TCC[int] {
		def := tcc.New[int](name).Retry(perdure.NoRetry)
		for _, id := range ids {
			tcc.Add(def, id, func(ctx context.Context, _ int) (string, error) {
				if id == "z" && hangs {
					<-ctx.Done()
					return "", context.Cause(ctx)
				}
				return id, l.Book(ctx, "try "+id)
			}).
				Confirm(func(ctx context.Context, _ int, _ string) error {
					return l.Book(ctx, "confirm "+id)
				}).
				Cancel(func(ctx context.Context, _ int, _ string) error {
					return l.Book(ctx, "cancel "+id)
				})
		}
		return def
	}
	first, second := part("first", "x"), part("second", "y", "z")
	whole := perdure.Define("whole", func(ctx context.Context, in int) (string, error) {
		one, err := first.Inline(ctx, in)
		if err != nil {
			return "", err
		}
		two, err := second.Inline(ctx, in)
		return one.Status.String() + " " + two.Status.String(), err
	}, perdure.Timeout(time.Minute))
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset()
		run := perduretest.Start(env, whole, 7, perdure.ID("x"))
		_, _ = run.Result()
		run.Is(journal.TimedOut)
		if got, want := l.String(),
			"cancel y 1, cancel z 1, confirm x 1, try x 1, try y 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		hangs = false
		again, err := env.Engine().Retry(env.Context(), "x")
		if err != nil {
			env.Fatal(err)
		}
		out, err := again.Result(env.Context())
		if string(out) != `"CONFIRMED CONFIRMED"` || err != nil {
			env.Errorf("retried, it gives %s, %v", out, err)
		}
		if got, want := l.String(), "cancel y 1, cancel z 1, confirm x 1, confirm y 1, confirm z "+
			"1, try x 1, try y 2, try z 1"; got != want {
			env.Errorf("retried, took effect: %s, want %s", got, want)
		}
	}, whole)
}

// A composition with a member that could not be cancelled writes a dead letter, unless a callback
// suppresses the failure. For an optional member it always writes a dead letter, because an effect
// of the member may remain.
//
// spec: P-4, F-9, F-42
func TestLettersOfACompositionOfTCCs(t *testing.T) {
	for name, c := range map[string]struct {
		optional, suppress bool
		status             perdure.RunStatus
		want               []string
	}{
		"failed":     {false, false, perdure.StatusFailed, []string{"m/a"}},
		"suppressed": {false, true, perdure.StatusConfirmed, nil},
		"optional":   {true, false, perdure.StatusConfirmed, []string{"m/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			def := tcc.Compose[int]("composed")
			m := tcc.Include(def, "m", pair("member", "try:b", "cancel:a"),
				func(in int) (int, error) { return in, nil })
			if c.optional {
				m.Optional()
			}
			def.On(pattern.Callback{Failure: func(context.Context, error) (bool, error) {
				return c.suppress, nil
			}})
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				run := perduretest.Start(env, def.Workflow, 7)
				_, _ = run.Result()
				run.Is(c.status)
				var got []string
				for _, l := range patterntest.Letters(env, len(c.want)) {
					got = append(got, l.Step)
				}
				if !slices.Equal(got, c.want) {
					env.Errorf("the letters are about %q, want %q", got, c.want)
				}
				return nil
			}, def)
		})
	}
}

// A participant that cancels after another participant could not does not cancel again when the TCC
// is retried.
//
// spec: F-18, F-40, P-4
func TestARetriedTCCKeepsWhatBeganBesideTheFailure(t *testing.T) {
	var l patterntest.Ledger
	def := tcc.New[int]("pay").Retry(perdure.NoRetry)
	for _, id := range []string{"a", "b"} {
		tcc.Add(def, id, func(ctx context.Context, _ int) (string, error) {
			return id, l.Book(ctx, "try "+id)
		}).
			Confirm(func(ctx context.Context, _ int, _ string) error {
				return l.Book(ctx, "confirm "+id)
			}).
			Cancel(func(ctx context.Context, _ int, _ string) error {
				return l.Book(ctx, "cancel "+id)
			})
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset("confirm a", "cancel b")
		_, _ = perduretest.Start(env, def.Workflow, 7, perdure.ID("x")).Result()
		l.Retried(env, "cancel a, cancel b, confirm a, confirm b, try a, try b",
			perdure.StatusCanceled, "cancel b")
	}, def)
}

package saga_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// calling is a saga that calls six times at once, unless a policy prevents it, and fails each
// time.
func calling(p backpressure.Policy) *saga.Saga[int] {
	def := saga.New[int]("calling").Backpressure(p)
	saga.AddEach(def, "call", func(int) []int { return []int{0, 1, 2, 3, 4, 5} },
		func(context.Context, int) (int, error) { return 0, errBroken })
	return def
}

// refusals counts the steps that an open breaker has refused.
func refusals(r report.Run) (n int) {
	for _, s := range r.Steps {
		if open := (*backpressure.OpenError)(nil); errors.As(s.Err, &open) {
			n++
		}
	}
	return n
}

// The policy that a start names holds for that run alone, also after a crash.
//
// spec: P-12
func TestAStartNamesThePolicyOfItsRun(t *testing.T) {
	def := calling(nil)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		for want, opts := range map[int][]perdure.StartOption{
			4: {backpressure.Named("circuit-breaker-aggressive")},
			0: nil,
		} {
			run := perduretest.Start(env, def.Workflow, 1, opts...)
			_, _ = run.Result()
			var r report.Run
			if err := env.Do(func(eng *perdure.Engine) (err error) {
				r, err = eng.Report(env.Context(), run.ID())
				return err
			}); err != nil {
				env.Fatal(err)
			}
			if n := refusals(r); n != want || len(r.Headers) != 0 {
				env.Errorf("%d steps are refused, want %d; the headers are %v", n, want, r.Headers)
			}
		}
		return nil
	}, def)
}

// An option of Inline names the policy of a part.
//
// spec: P-12
func TestAPartHasThePolicyThatItNames(t *testing.T) {
	part := calling(backpressure.Limit(1))
	whole := perdure.Define("whole", func(ctx context.Context, name string) (int, error) {
		p, err := part.Inline(ctx, "part", 1, backpressure.Named(name))
		if err != nil {
			return 0, err
		}
		return len(p.FailedSteps()), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, whole, "circuit-breaker-aggressive")
		if n, err := run.Result(); err != nil || n != 6 {
			env.Error(n, err)
		}
		if err := env.Do(func(eng *perdure.Engine) error {
			r, err := eng.Report(env.Context(), run.ID())
			if n := refusals(r); n != 4 {
				env.Errorf("%d steps are refused, want 4", n)
			}
			return err
		}); err != nil {
			env.Error(err)
		}
		if _, err := perduretest.Start(env, whole, "nobody").Result(); !errors.Is(
			err, &perdure.Error{Code: perdure.CodeNotFound}) {
			env.Error(err)
		}
	}, whole)
}

// Two calls are refused: with a name that no policy has, and of a workflow that does nothing
// under a policy. An engine that does not know the name parks the run.
//
// spec: P-12
func TestAPolicyNameThatMeansNothingIsRefusedAtTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def, code := calling(nil), perdure.Define("code", nothing)
		members, eng := saga.Compose[int]("members"), newEngine(t)
		saga.Include(members, "calling", def)
		if err := eng.Register(def, code, members); err != nil {
			t.Fatal(err)
		}
		batched := backpressure.Named("batched")
		_, unknown := def.Start(t.Context(), eng, 1, backpressure.Named("nobody"))
		if !errors.Is(unknown, &perdure.Error{Code: perdure.CodeNotFound}) {
			t.Errorf("an unknown name: %v", unknown)
		}
		_, ofCode := code.Start(t.Context(), eng, 1, batched)
		_, ofMembers := members.Start(t.Context(), eng, 1, batched)
		_, byName := eng.Start(t.Context(), "gone", []byte("1"), batched)
		_, empty := def.Start(t.Context(), eng, 1, backpressure.Named(""))
		_, scope := perdure.Scope(t.Context(), "scope", batched)
		for what, err := range map[string]error{
			"code":      ofCode,
			"members":   ofMembers,
			"not known": byName,
			"empty":     empty,
			"scope":     scope,
		} {
			if e := (*perdure.Error)(nil); !errors.As(err, &e) || e.Code != perdure.CodeInvalid ||
				what != "empty" && e.Hint == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// spec: P-12
func TestAnEngineWithoutThePolicyParksTheRun(t *testing.T) {
	defer backpressure.Reset()
	def := saga.New[int]("saga")
	saga.Add(def, "a", func(ctx context.Context, n int) (int, error) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return n, ctx.Err()
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		register := func() {
			if err := backpressure.Register("mine", backpressure.Limit(1)); err != nil {
				env.Fatal(err)
			}
		}
		register()
		run := perduretest.Start(env, def.Workflow, 1, backpressure.Named("mine"))
		env.Sleep(time.Second)
		backpressure.Reset()
		env.Crash()
		env.Settle()
		run.Is(journal.Suspended)
		register()
		if err := env.Engine().Resume(env.Context(), run.ID()); err != nil {
			env.Fatal(err)
		}
		if _, err := run.Result(); err != nil {
			env.Error(err)
		}
	}, def)
}

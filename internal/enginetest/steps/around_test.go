package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

type aroundKey struct{}

func TestWhatGoesAroundStepsIsCalledForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []string
		body := func(ctx context.Context) (string, error) {
			if ctx.Value(aroundKey{}) != "given" {
				t.Error("the body did not get the context that it was called with")
			}
			if n, _, err := perdure.Attempt(ctx); n == 1 || err != nil {
				return "", errors.Join(world.ErrOdd, err)
			}
			return "done", perdure.Emit(ctx, "e", 1)
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			if _, err := perdure.Step(ctx, "s", body, perdure.Key("k")); err != nil {
				return "", err
			}
			return perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
				return perdure.Async(ctx, "beside", body).Await(ctx)
			}).Await(ctx)
		})
		w := world.With(t, perdure.Options{Interceptor: func(
			ctx context.Context, s perdure.StepInfo, body func(context.Context) error,
		) error {
			err := body(context.WithValue(ctx, aroundKey{}, "given"))
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprint(s.Run.WorkflowID, " ", s.Step, " ", s.Attempt, " ",
				err))
			return err
		}}, wf)
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(t.Context()); out != "done" || err != nil {
			t.Errorf("got %q, %v", out, err)
		}
		w.Crash()
		w.End()
		want := []string{
			"x s[k] 1 odd", "x s[k] 2 <nil>", "x branch/beside 1 odd", "x branch/beside 2 <nil>",
		}
		if !slices.Equal(calls, want) {
			t.Errorf("got the calls %q, want %q", calls, want)
		}
	})
}

var errOther = errors.New("other")

func init() {
	if err := perdure.RegisterError("test.around", errOther); err != nil {
		panic(err)
	}
}

func TestWhatGoesAroundAStepGivesItsError(t *testing.T) {
	type wrapper = func(ctx context.Context, body func(context.Context) error) error
	for name, c := range map[string]struct {
		body     error // the error of the step's body
		around   wrapper
		says     string // text in the error of the step; empty: there is no error
		is       error
		not      error
		attempts int
	}{
		"the body's": {world.ErrOdd,
			func(ctx context.Context, body func(context.Context) error) error {
				return body(ctx)
			}, "odd", world.ErrOdd, errOther, 2},
		"wrapped": {world.ErrOdd,
			func(ctx context.Context, body func(context.Context) error) error {
				return fmt.Errorf("around: %w", body(ctx))
			}, "around: odd", world.ErrOdd, errOther, 2},
		"replaced": {world.ErrOdd,
			func(ctx context.Context, body func(context.Context) error) error {
				_ = body(ctx)
				return errOther
			}, "other", errOther, world.ErrOdd, 2},
		"replaced by one of the same code": {
			&perdure.Error{Code: journal.CodeConflict, Message: "inner"},
			func(ctx context.Context, body func(context.Context) error) error {
				_ = body(ctx)
				return &perdure.Error{Code: journal.CodeConflict, Message: "outer"}
			}, "outer", &perdure.Error{Code: journal.CodeConflict}, world.ErrOdd, 2,
		},
		"of a success": {nil, func(ctx context.Context, body func(context.Context) error) error {
			return errors.Join(body(ctx), errOther)
		}, "other", errOther, world.ErrOdd, 2},
		"permanent": {world.ErrOdd,
			func(ctx context.Context, body func(context.Context) error) error {
				return perdure.Permanent(body(ctx))
			}, "odd", world.ErrOdd, errOther, 1},
		"around one that is permanent": {perdure.Permanent(world.ErrOdd), func(
			ctx context.Context, body func(context.Context) error,
		) error {
			return fmt.Errorf("around: %w", body(ctx))
		}, "around: odd", world.ErrOdd, errOther, 1},
		"that it keeps to itself": {world.ErrOdd, func(
			ctx context.Context, body func(context.Context) error,
		) error {
			_ = body(ctx)
			return nil
		}, "odd", world.ErrOdd, errOther, 2},
		"without a call": {nil, func(context.Context, func(context.Context) error) error {
			return errOther
		}, "other", errOther, world.ErrOdd, 2},
		"neither a call nor one": {
			nil, func(context.Context, func(context.Context) error) error { return nil },
			"has not returned", &perdure.Error{Code: journal.CodeMisuse}, world.ErrOdd, 2,
		},
		"a panic": {nil, func(context.Context, func(context.Context) error) error {
			panic("at the disco")
		}, "at the disco", nil, world.ErrOdd, 2},
		"nothing": {nil, func(ctx context.Context, body func(context.Context) error) error {
			return body(ctx)
		}, "", nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := 0
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					n, err := perdure.Step(ctx, "s", world.Work("s", 0, c.body),
						perdure.Retry{Attempts: 2, First: time.Second})
					seen++
					switch {
					case c.says == "" && err != nil, c.says != "" &&
						(err == nil || !strings.Contains(err.Error(), c.says)):
						t.Errorf("the step gave %d, %v; want an error that says %q", n, err, c.says)
					case c.is != nil && !errors.Is(err, c.is):
						t.Errorf("error %v is not %v", err, c.is)
					case c.not != nil && errors.Is(err, c.not):
						t.Errorf("error %v is %v", err, c.not)
					}
					return n, perdure.Sleep(ctx, time.Hour)
				})
				var mu sync.Mutex
				attempts := 0
				w := world.With(t, perdure.Options{IdleTimeout: -1, Interceptor: func(
					ctx context.Context, _ perdure.StepInfo, body func(context.Context) error,
				) error {
					mu.Lock()
					attempts++
					mu.Unlock()
					return c.around(ctx, body)
				}}, wf)
				defer w.End()
				world.Start(w, wf, 0)
				// the run is unloaded and is replayed: the error is the same
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if attempts != c.attempts || seen != 2 {
					t.Errorf("%d attempts, want %d; workflow code saw the outcome %d times",
						attempts, c.attempts, seen)
				}
			})
		})
	}
}

func TestABodyThatPanickedHasNotReturnedWhateverGoesAroundItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) { panic("odd") },
				perdure.NoRetry)
		})
		w := world.With(t, perdure.Options{Interceptor: func(
			ctx context.Context, _ perdure.StepInfo, body func(context.Context) error,
		) error {
			defer func() { _ = recover() }()
			return body(ctx)
		}}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(t.Context())
		world.CodeIs(t, err, journal.CodeMisuse)
	})
}

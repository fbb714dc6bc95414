package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// surroundings are workflows around a part, which they end after a while if it has not ended
// before.
func surroundings(after time.Duration,
	inline func(ctx context.Context) error) map[string]*perdure.Workflow[int, int] {
	beside := func(ctx context.Context) *perdure.Future[int] {
		return perdure.Go(ctx, "beside", func(ctx context.Context) (int, error) {
			return 0, inline(ctx)
		})
	}
	define := func(code func(ctx context.Context) error) *perdure.Workflow[int, int] {
		return perdure.Define("around", func(ctx context.Context, _ int) (int, error) {
			return 0, code(ctx)
		})
	}
	return map[string]*perdure.Workflow[int, int]{
		"its branch is cancelled": define(func(ctx context.Context) error {
			part := beside(ctx)
			if err := perdure.Sleep(ctx, after); err != nil {
				return err
			}
			if _, err := part.Cancel(ctx, "enough"); err != nil {
				return err
			}
			return perdure.Sleep(ctx, time.Hour)
		}),
		"the branch around its branch is cancelled": define(func(ctx context.Context) error {
			outer := perdure.Go(ctx, "outer", func(ctx context.Context) (int, error) {
				return beside(ctx).Await(ctx)
			})
			if err := perdure.Sleep(ctx, after); err != nil {
				return err
			}
			_, err := outer.Cancel(ctx, "enough")
			return err
		}),
		"the run fails beside it": define(func(ctx context.Context) error {
			beside(ctx)
			return errors.Join(perdure.Sleep(ctx, after), errBroken)
		}),
		"a branch fails the run": define(func(ctx context.Context) error {
			perdure.Go(ctx, "failing", func(ctx context.Context) (int, error) {
				return 0, errors.Join(perdure.Sleep(ctx, after), perdure.Fail(ctx, errBroken))
			})
			return inline(ctx)
		}),
		"the run succeeds without it": define(func(ctx context.Context) error {
			beside(ctx)
			return perdure.Sleep(ctx, after)
		}),
	}
}

// A part that is in progress when the code around it ends is undone, at every point.
//
// spec: F-29, F-44
func TestAPartIsUndoneWhenWhatIsAroundItEndsIt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for after := 100 * time.Microsecond; after <
			60*time.Millisecond; after += 2700 * time.Microsecond {
			s := &shop{fails: map[string]bool{"pay/each[y]": fails}}
			pay, _ := s.member("pay")
			ended := false
			inline := func(ctx context.Context) error {
				_, err := pay.Inline(ctx, "pay", any(1))
				ended = err == nil
				return err
			}
			for name, w := range surroundings(after, inline) {
				perduretest.Test(t, func(env *perduretest.Env) {
					s.reset()
					ended = false
					run := perduretest.Start(env, w, 1)
					_, _ = run.Result()
					left := ""
					if ended && !fails {
						left = of("pay")
					}
					if got := s.effects(); got != left {
						env.Errorf("%s after %v, there is %q, want %q", name, after, got, left)
					}
					s.check(env, run.ID())
				}, w)
			}
		}
	}
}

// A part in a step of a graph that passes its timeout is undone, even if the graph continues long
// after it, and at any point of a crash.
//
// spec: F-29, F-44
func TestAPartInAStepThatPassesItsTimeoutIsUndone(t *testing.T) {
	s := &shop{fails: map[string]bool{}}
	pay, _ := s.member("pay")
	g := dag.New[int]("graph")
	dag.AddBranch(g, "pay", func(ctx context.Context, _ int) (int, error) {
		_, err := pay.Inline(ctx, "pay", any(1))
		return 0, errors.Join(err, perdure.Sleep(ctx, time.Hour))
	}).Timeout(20 * time.Millisecond)
	dag.Add(g, "long", func(ctx context.Context, _ int) (int, error) {
		return 0, sleep(ctx, time.Minute)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		s.reset()
		run := perduretest.Start(env, g.Workflow, 1)
		env.Sleep(30 * time.Second)
		if left := s.effects(); left != "" {
			env.Errorf("there is %q before the graph has ended", left)
		}
		run.Fails(&perdure.Error{Code: perdure.CodeTimedOut})
		s.check(env, run.ID())
		return nil
	}, g)
}

// A step that succeeded before the branch was cancelled is undone, even if the saga has not read
// its end: its result came while other code of the run had the turn.
//
// spec: F-29, F-44
func TestAStepThatWasDoneBeforeItsBranchWasCancelledIsUndone(t *testing.T) {
	s := &shop{fails: map[string]bool{}}
	pay, _ := s.member("pay")
	w := perdure.Define("around", func(ctx context.Context, _ int) (int, error) {
		part := perdure.Go(ctx, "beside", func(ctx context.Context) (int, error) {
			_, err := pay.Inline(ctx, "pay", any(1))
			return 0, err
		})
		if err := perdure.Sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		<-time.After(8 * time.Millisecond) // the first step ends meanwhile
		cancelled, err := part.Cancel(ctx, "enough")
		if !cancelled {
			err = errors.Join(err, errBroken)
		}
		return 0, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		s.reset()
		run := perduretest.Start(env, w, 1)
		run.Returns(0)
		if left := s.effects(); left != "" {
			env.Errorf("there is %q", left)
		}
		if r := s.check(env, run.ID()); r.Undo == nil || len(r.Undo.Steps) != 1 {
			env.Errorf("undone is %+v", r.Undo)
		}
	}, w)
}

// A graph whose step passed its timeout is retried: the part in it begins anew, and steps that were
// undone are done again under new keys.
//
// spec: F-29, P-4, R-15
func TestAPartThatWasUndoneInAStepIsRetriedUnderNewKeys(t *testing.T) {
	for name, undo := range map[string]time.Duration{
		"undone before the graph fails": 0,
		"undone as the graph ends":      2 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			var l patterntest.Ledger
			slow := false
			pay := saga.New[int]("pay")
			charge := saga.Add(pay, "charge", func(ctx context.Context, _ int) (int, error) {
				return 1, l.Book(ctx, "charge")
			}).
				Undo(func(ctx context.Context, _, _ int) error {
					return errors.Join(sleep(ctx, undo), l.Book(ctx, "undo charge"))
				})
			saga.Add(pay, "wait", func(ctx context.Context, _ int) (int, error) {
				if slow {
					<-ctx.Done()
				}
				return 0, context.Cause(ctx)
			}).After(charge)
			g := dag.New[int]("graph", perdure.NoRetry)
			dag.AddBranch(g, "pay", func(ctx context.Context, _ int) (int, error) {
				_, err := pay.Inline(ctx, "pay", 1)
				return 0, err
			}).Timeout(time.Minute)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset()
				slow = true
				perduretest.Start(env, g.Workflow, 1, perdure.ID("x")).
					Fails(&perdure.Error{Code: perdure.CodeTimedOut})
				if got := l.String(); got != "charge 1, undo charge 1" {
					env.Errorf("took effect: %s", got)
				}
				slow = false
				if r := patterntest.Retry(
					env, patterntest.Letters(env, 1)[0]); r.Status != perdure.StatusCompleted {
					env.Errorf("retried, it is %v: %v", r.Status, r.Err)
				}
				if got := l.String(); got != "charge 2, undo charge 1" {
					env.Errorf("retried, took effect: %s", got)
				}
				return nil
			}, g)
		})
	}
}

// A part whose context the author has bounded is undone when the context ends, whatever the part
// does then, even after a crash. The run continues.
//
// spec: F-29
func TestAPartIsUndoneWhenTheContextAroundItEnds(t *testing.T) {
	var l patterntest.Ledger
	for name, after := range map[string]bool{"in a row": true, "beside": false} {
		t.Run(name, func(t *testing.T) {
			def := saga.New[int]("pay")
			book := func(what string) func(context.Context, int, string) error {
				return func(ctx context.Context, _ int, _ string) error { return l.Book(ctx, what) }
			}
			quick := saga.Add(def, "quick", func(ctx context.Context, _ int) (string, error) {
				return "", l.Book(ctx, "quick")
			}).Undo(book("undo quick"))
			slow := saga.Add(def, "slow", func(ctx context.Context, _ int) (string, error) {
				select {
				case <-ctx.Done():
					return "", context.Cause(ctx)
				case <-time.After(time.Hour):
					return "", l.Book(ctx, "slow")
				}
			}).Undo(book("undo slow"))
			if after {
				slow.After(quick)
			}
			whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
				short, stop := context.WithTimeout(ctx, time.Minute)
				defer stop()
				part, err := def.Inline(short, "pay", 1)
				if !errors.Is(err, context.DeadlineExceeded) || part == nil {
					return 0, fmt.Errorf("inline returns %v, %w", part, err)
				}
				return perdure.Step(ctx, "go-on", func(ctx context.Context) (int, error) {
					return 7, l.Book(ctx, "go-on")
				})
			})
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset()
				run := perduretest.Start(env, whole, 1)
				run.Returns(7)
				if got, want := l.String(), "go-on 1, quick 1, undo quick 1"; got != want {
					env.Errorf("took effect: %s, want %s", got, want)
				}
				patterntest.Letters(env, 0)
				return nil
			}, whole)
		})
	}
}

// A part that has succeeded in a bounded context is undone when the run ends beside its branch, as
// any other part is.
//
// spec: F-29
func TestAPartInABoundedContextIsUndoneWithItsBranch(t *testing.T) {
	var l patterntest.Ledger
	def := saga.New[int]("pay")
	saga.Add(def, "quick", func(ctx context.Context, _ int) (string, error) {
		return "", l.Book(ctx, "quick")
	}).
		Undo(func(ctx context.Context, _ int, _ string) error { return l.Book(ctx, "undo quick") })
	whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
		perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
			short, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			if _, err := def.Inline(short, "pay", 1); err != nil {
				return 0, err
			}
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		_ = perdure.Sleep(ctx, 2*time.Minute)
		return 0, errors.New("it fails beside")
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		l.Reset()
		_, _ = perduretest.Start(env, whole, 1).Result()
		if got, want := l.String(), "quick 1, undo quick 1"; got != want {
			env.Errorf("took effect: %s, want %s", got, want)
		}
		return nil
	}, whole)
}

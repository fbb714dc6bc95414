package dag_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/perduretest"
)

// A graph that is retried goes on from the steps that have failed. If nothing was undone, the steps
// have the keys that they had: an effect of a failed attempt does not happen twice. Steps that were
// undone are done again, under new keys.
//
// spec: P-4, F-20
func TestAGraphIsRetriedFromTheFailedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		undoes        bool
		failed, again string
	}{
		"nothing is undone": {false, "a 1, b 1, wait 1", "a 1, b 1, c 1, d 1, e 1, wait 1"},
		"a is undone": {
			true, "a 1, b 1, undo a 1, wait 1", "a 2, b 1, c 1, d 1, e 1, undo a 1, wait 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l patterntest.Ledger
			did := func(what string) func(context.Context, none) (string, error) {
				return func(ctx context.Context, _ none) (string, error) {
					return what, l.Book(ctx, what)
				}
			}
			g := dag.New[int]("g", perdure.NoRetry)
			a := dag.Add(g, "a", did("a"))
			if c.undoes {
				a.Undo(func(ctx context.Context, _ none, _ string) error {
					return l.Book(ctx, "undo a")
				})
			}
			b := dag.Add(g, "b", did("b")).After(a)
			wait := dag.Add(g, "wait", did("wait")).After(a).WaitTimer("t", time.Hour)
			bad := dag.Add(g, "c", did("c")).After(a)
			worse := dag.Add(g, "d", did("d")).After(a)
			dag.Add(g, "e", did("e")).After(b, wait, bad, worse)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset("c", "d")
				_, _ = perduretest.Start(env, g.Workflow, 7, perdure.ID("x")).Result()
				if got := l.String(); got != c.failed {
					env.Errorf("took effect: %s, want %s", got, c.failed)
				}
				l.Break()
				letter := patterntest.Letters(env, 2)[0]
				if letter.Status != perdure.StatusRunning {
					env.Errorf("the letter is about a step that failed %v", letter.Status)
				}
				r := patterntest.Retry(env, letter)
				if r.Status != perdure.StatusCompleted {
					env.Errorf("retried, it is %v: %v", r.Status, r.Err)
				}
				if got := l.String(); got != c.again {
					env.Errorf("retried, took effect: %s, want %s", got, c.again)
				}
				patterntest.Letters(env, 0)
				return nil
			}, g)
		})
	}
}

// A step that failed because of its gate, its child or its branch is retried with it: the step
// waits for the gate again, the child is retried, and the failed steps of a branch are done again.
//
// spec: P-4, F-17, F-18
func TestAGraphIsRetriedFromWhatItsStepsWaitedFor(t *testing.T) {
	var l patterntest.Ledger
	slow := false
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		if slow {
			return 0, perdure.Sleep(ctx, 3*time.Hour)
		}
		return perdure.Step(ctx, "work", func(ctx context.Context) (int, error) {
			return 1, l.Book(ctx, "child")
		}, perdure.NoRetry)
	})
	inner := func(ctx context.Context, _ none) (int, error) {
		if slow {
			return 0, perdure.Sleep(ctx, 3*time.Hour)
		}
		if _, err := perdure.Step(ctx, "good", func(ctx context.Context) (int, error) {
			return 1, l.Book(ctx, "good")
		}, perdure.NoRetry); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "bad", func(ctx context.Context) (int, error) {
			return 1, l.Book(ctx, "bad")
		}, perdure.NoRetry)
	}
	for name, c := range map[string]struct {
		add    func(g *dag.Graph[int])
		broken []string
		slow   bool
		want   string
	}{
		"signal": {
			add: func(g *dag.Graph[int]) {
				dag.Add(g, "x", does(1, nil)).WaitSignal("go", time.Hour)
			},
		},
		"all": {add: func(g *dag.Graph[int]) {
			dag.Add(g, "x", does(1, nil)).WaitAll(time.Hour, dag.Signal("go"),
				dag.Timer("t", time.Minute))
		}},
		"child": {
			add: func(g *dag.Graph[int]) {
				dag.AddChild(g, "x", child, func(none) int { return 1 })
			},
			broken: []string{"child"},
			want:   "child 1",
		},
		"child, slow": {
			add: func(g *dag.Graph[int]) {
				dag.AddChild(g, "x", child, func(none) int { return 1 }).Timeout(time.Hour)
			},
			slow: true,
			want: "child 1",
		},
		"branch": {
			add:    func(g *dag.Graph[int]) { dag.AddBranch(g, "x", inner) },
			broken: []string{"bad"},
			want:   "bad 1, good 1",
		},
		"branch, slow": {
			add:  func(g *dag.Graph[int]) { dag.AddBranch(g, "x", inner).Timeout(time.Hour) },
			slow: true,
			want: "bad 1, good 1",
		},
		"branch, in time": {
			add:    func(g *dag.Graph[int]) { dag.AddBranch(g, "x", inner).Timeout(time.Hour) },
			broken: []string{"bad"},
			want:   "bad 1, good 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := dag.New[int]("g", perdure.NoRetry)
			c.add(g)
			perduretest.Test(t, func(env *perduretest.Env) {
				l.Reset(c.broken...)
				slow = c.slow
				_, _ = perduretest.Start(env, g.Workflow, 7, perdure.ID("x")).Result()
				l.Break()
				slow = false
				letter := patterntest.Letters(env, 1)[0]
				if _, err := admin.New(env.Engine()).RetryDeadLetter(env.Context(),
					letter.ID); err != nil {
					env.Fatal(err)
				}
				env.Sleep(time.Minute)
				send(env, "x", "go", "1")
				env.Sleep(2 * time.Hour)
				r := reportOf(env, "x")
				if r.Status != perdure.StatusCompleted || l.String() != c.want {
					env.Errorf("retried, it is %v: %v, took effect: %s, want %s", r.Status, r.Err,
						l.String(), c.want)
				}
				patterntest.Letters(env, 0)
			}, g, child)
		})
	}
}

// A step may begin after another step of its layer has failed for good: behind a gate, in a branch,
// or when the policy has room for it. If it succeeds before the graph fails, a retry does not run
// it again, and does not wait again at its gates.
//
// spec: F-18, F-20, P-4
func TestARetriedGraphKeepsWhatBeganBesideTheFailure(t *testing.T) {
	var l patterntest.Ledger
	did := func(what string) func(context.Context, none) (string, error) {
		return func(ctx context.Context, _ none) (string, error) { return what, l.Book(ctx, what) }
	}
	inner := func(ctx context.Context, _ none) (string, error) {
		for _, what := range []string{"one", "two"} {
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			if _, err := perdure.Step(ctx, what, func(ctx context.Context) (string, error) {
				return what, l.Book(ctx, what)
			}); err != nil {
				return "", err
			}
		}
		return "in", nil
	}
	g := dag.New[int]("g", perdure.NoRetry).Backpressure(backpressure.Limit(3))
	all := []dag.Dependency{
		dag.Add(g, "bad", did("bad")), dag.Add(g, "timer", did("timer")).WaitTimer("t", time.Hour),
		dag.AddBranch(g, "inline", inner), dag.Add(g, "later", did("later")),
		dag.Add(g, "signal", did("signal")).WaitSignal("go", 2*time.Hour),
	}
	dag.Add(g, "last", did("last")).After(all...)
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset("bad")
		run := perduretest.Start(env, g.Workflow, 7, perdure.ID("x"))
		env.Sleep(30 * time.Minute)
		if err := env.Do(func(eng *perdure.Engine) error {
			_, err := perdure.NewSignal[int]("go").Send(env.Context(), eng, "x", 1)
			return err
		}); err != nil {
			env.Fatal(err)
		}
		_, _ = run.Result()
		l.Retried(env, "bad, later, one, signal, timer, two", perdure.StatusCompleted, "bad, last")
	}, g)
}

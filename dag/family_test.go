package dag_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// A kin is a workflow that is a child in the tests below, with the definitions that must be
// registered with it, and with its expected effects before and after a retry.
type kin struct {
	child  *perdure.Workflow[int, int]
	others []perdure.Definition
	before string
	after  string
}

// kindred makes one workflow of each kind. Each does "one", and fails by "two" while "two" is
// broken.
func kindred(l *patterntest.Ledger) map[string]kin {
	does := func(what string) func(context.Context, none) (int, error) {
		return func(ctx context.Context, _ none) (int, error) { return 1, l.Book(ctx, what) }
	}
	code := perdure.Define("code", func(ctx context.Context, _ int) (int, error) {
		for _, what := range []string{"one", "two"} {
			if _, err := perdure.Step(ctx, what, func(ctx context.Context) (int, error) {
				return 1, l.Book(ctx, what)
			}); err != nil {
				return 0, err
			}
		}
		return 1, nil
	}, deadletter.Automatic(true))
	graph := dag.New[int]("graph")
	one := dag.Add(graph, "one", does("one"))
	dag.Add(graph, "two", does("two")).After(one)
	pay := saga.New[int]("pay")
	first := saga.Add(pay, "one", does("one")).Undo(func(ctx context.Context, _ none, _ int) error {
		return l.Book(ctx, "undo one")
	})
	saga.Add(pay, "two", does("two")).After(first)
	both := tcc.New[int]("both")
	for _, id := range []string{"one", "two"} {
		tcc.Add(both, id, does(id)).
			Confirm(func(ctx context.Context, _ none, _ int) error {
				return l.Book(ctx, "confirm "+id)
			}).
			Cancel(func(ctx context.Context, _ none, _ int) error {
				return l.Book(ctx, "cancel "+id)
			})
	}
	nested := wrapped("nested", code)
	return map[string]kin{
		"code": {code, nil, "one 1", "one 1, two 1"},
		"graph": {
			wrapped("of-graph", graph.Workflow),
			[]perdure.Definition{graph},
			"one 1",
			"one 1, two 1",
		},
		"saga": {
			wrapped("of-saga", pay.Workflow),
			[]perdure.Definition{pay},
			"one 1, undo one 1",
			"one 2, two 1, undo one 1",
		},
		"tcc": {
			wrapped("of-tcc", both.Workflow),
			[]perdure.Definition{both},
			"cancel one 1, one 1",
			"cancel one 1, confirm one 1, confirm two 1, one 2, two 1",
		},
		"nested": {nested, []perdure.Definition{code}, "one 1", "one 1, two 1"},
	}
}

// wrapped returns a workflow that has another workflow as its child.
func wrapped[O any](name string, wf *perdure.Workflow[int, O]) *perdure.Workflow[int, int] {
	return perdure.Define(name, func(ctx context.Context, n int) (int, error) {
		out, err := wf.Child(ctx, n).Outcome(ctx)
		switch {
		case err != nil:
			return 0, err
		case out.Err == nil && !out.Status.IsSuccess():
			return 0, fmt.Errorf("it is %v", out.Status)
		}
		return 1, out.Err
	}, deadletter.Automatic(true))
}

// The parent or the child may be retried first: the steps that succeeded are done once, and no dead
// letter stays. The parent is a code workflow or a graph.
//
// spec: F-18, P-4
func TestARetryOfARunWithAChildRetriesThatChild(t *testing.T) {
	var l patterntest.Ledger
	for name, k := range kindred(&l) {
		graph := dag.New[int]("g")
		before := dag.Add(graph, "before", func(ctx context.Context, _ none) (int, error) {
			return 1, l.Book(ctx, "before")
		})
		dag.AddChild(graph, "x", k.child, func(none) int { return 1 }).After(before)
		code := perdure.Define("parent", func(ctx context.Context, n int) (int, error) {
			if _, err := perdure.Step(ctx, "before", func(ctx context.Context) (int, error) {
				return 1, l.Book(ctx, "before")
			}); err != nil {
				return 0, err
			}
			return k.child.Child(ctx, n).Await(ctx)
		}, deadletter.Automatic(true))
		for parent, def := range map[string]perdure.Definition{"graph": graph, "code": code} {
			all := append([]perdure.Definition{def, k.child}, k.others...)
			for order, first := range map[string]bool{"parent first": true, "child first": false} {
				t.Run(name+" of "+parent+", "+order, func(t *testing.T) {
					test := func(env *perduretest.Env) any {
						l.Reset("two")
						start(env, def)
						env.Sleep(time.Hour)
						if got, want := l.String(), "before 1, "+
							k.before; sorted(got) != sorted(want) {
							env.Errorf("took effect: %s, want %s", got, want)
						}
						l.Break()
						retryAll(env, first)
						if s := reportOf(env, "x").Status; s != perdure.StatusCompleted {
							env.Errorf("retried, it is %v", s)
						}
						if got, want := l.String(), "before 1, "+
							k.after; sorted(got) != sorted(want) {
							env.Errorf("retried, took effect: %s, want %s", got, want)
						}
						patterntest.Letters(env, 0)
						return nil
					}
					if name == "code" {
						perduretest.CrashEverywhere(t, test, all...)
						return
					}
					perduretest.Test(t, func(env *perduretest.Env) { test(env) }, all...)
				})
			}
		}
	}
}

// start starts the run x of a parent of any kind.
func start(env *perduretest.Env, def perdure.Definition) {
	if g, ok := def.(*dag.Graph[int]); ok {
		perduretest.Start(env, g.Workflow, 7, perdure.ID("x"))
		return
	}
	perduretest.Start(env, def.(*perdure.Workflow[int, int]), 7, perdure.ID("x"))
}

// retryAll retries every dead letter, one after the other, until there is none. It retries the dead
// letter of run x first or last.
func retryAll(env *perduretest.Env, first bool) {
	env.Helper()
	for range 5 {
		var all []deadletter.Letter
		err := env.Do(func(eng *perdure.Engine) (err error) {
			// newest first: the newest is that of the parent
			all, _, err = admin.New(eng).DeadLetters(env.Context(), admin.DeadLetterQuery{})
			return err
		})
		if err != nil {
			env.Fatal(err)
		}
		for i := range all {
			l := all[i]
			if !first {
				l = all[len(all)-1-i]
			}
			err := env.Do(func(eng *perdure.Engine) error {
				_, err := admin.New(eng).RetryDeadLetter(env.Context(), l.ID)
				switch journal.CodeOf(err) {
				case journal.CodeNotFound, journal.CodeWrongState, journal.CodeConflict:
					return nil // it is settled, or a retry of it goes on
				}
				return err
			})
			if err != nil {
				env.Fatal(err)
			}
			env.Sleep(time.Hour)
		}
	}
}

func sorted(list string) string {
	all := strings.Split(list, ", ")
	slices.Sort(all)
	return strings.Join(all, ", ")
}

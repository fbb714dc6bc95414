package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// spec: B-9
func TestASecondStartJoinsTheOpenRunOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Singleton: limit.Join, Key: keyOf})
		w := world.New(t, def)
		defer w.End()
		first := world.StartAndSettle(w, def, "a/1")
		second := world.StartAndSettle(w, def, "a/2", perdure.ID("second"))
		other := world.StartAndSettle(w, def, "b/3")
		if second.RunID() != first.RunID() || second.New() {
			t.Errorf("the second start returned run %s, new: %v", second.RunID(), second.New())
		}
		if other.RunID() == first.RunID() || !other.New() {
			t.Errorf("the start with another key returned run %s", other.RunID())
		}
		d := w.Describe("second")
		if d.Head.Status != journal.ContinuedAsNew ||
			string(d.State.Successor) != first.RunID() {
			t.Errorf("the run of the second start is %v, and its successor %s", d.Head.Status,
				d.State.Successor)
		}
		own, err := w.Engine.Get(t.Context(), string(d.Head.ID))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := own.Result(t.Context()); err != nil || string(out) != `"a/1"` {
			t.Errorf("it has the result %s, %v", out, err)
		}
		if out, err := second.Result(t.Context()); err != nil || out != "a/1" {
			t.Errorf("the second start has the result %s, %v", out, err)
		}
		third := world.StartAndSettle(w, def, "a/4")
		if out, err := third.Result(t.Context()); err != nil || out != "a/4" || !third.New() {
			t.Errorf("the start after the end: %s, %v, new: %v", out, err, third.New())
		}
		if out, err := other.Result(t.Context()); err != nil || out != "b/3" {
			t.Errorf("the start with another key: %s, %v", out, err)
		}
		if g.most["a"] != 1 {
			t.Errorf("%d runs of a key were open", g.most["a"])
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestAChildThatJoinsARunEndsLikeIt(t *testing.T) {
	for name, fails := range map[string]bool{"completed": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := perdure.Define("one", func(ctx context.Context, in string) (string, error) {
					if err := perdure.Sleep(ctx, time.Minute); err != nil || !fails {
						return in, err
					}
					return "", perdure.Fail(ctx, errors.New("no luck"))
				}, limit.Control{Singleton: limit.Join})
				parent := perdure.Define("parent",
					func(ctx context.Context, in string) (string, error) {
						return one.Child(ctx, in).Await(ctx)
					})
				w := world.New(t, one, parent)
				defer w.End()
				first := world.StartAndSettle(w, one, "1")
				parents := []*perdure.Run[string]{
					world.StartAndSettle(w, parent, "2"), world.StartAndSettle(w, parent, "3"),
				}
				for _, run := range append(parents, first) {
					out, err := run.Result(t.Context())
					if fails != (err != nil) || !fails && out != "1" {
						t.Errorf("%q, %v", out, err)
					}
				}
				noSlots(t, w)
			})
		})
	}
}

// spec: B-9
func TestALaterStartReplacesTheOpenRunOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := perdure.Define("job", func(ctx context.Context, in string) (string, error) {
			info, err := perdure.InfoOf(ctx)
			if err != nil {
				return "", err
			}
			key, _, _ := strings.Cut(in, "/")
			g.enter(info.RunID, key)
			err = perdure.Finally(ctx, "leave", func(ctx context.Context) error {
				err := perdure.Sleep(ctx, 10*time.Second) // it takes its time
				g.leave(info.RunID)
				return err
			})
			if err != nil {
				return "", err
			}
			return in, perdure.Sleep(ctx, time.Minute)
		}, limit.Control{Singleton: limit.Replace, Key: keyOf})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for i := range 5 {
			runs = append(runs, world.StartAndSettle(w, def, fmt.Sprint("a/", i)))
		}
		other := world.StartAndSettle(w, def, "b/1")
		for i, run := range runs {
			out, err := run.Result(t.Context())
			if last := i == len(runs)-1; last && (err != nil || out != "a/4") ||
				!last && journal.CodeOf(err) != journal.CodeCancelled {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
		}
		if out, err := other.Result(t.Context()); err != nil || out != "b/1" {
			t.Errorf("the run with another key: %q, %v", out, err)
		}
		if g.most["a"] != 1 || len(g.order) != 3 {
			t.Errorf("%d were open at a time, and begun %v", g.most["a"], g.order)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestNoTwoRunsOfASingletonAreOpenWhateverCrashes(t *testing.T) {
	for name, mode := range map[string]limit.Singleton{
		"join": limit.Join, "replace": limit.Replace,
	} {
		t.Run(name, func(t *testing.T) {
			world.OverCrashes(t, 8, func() world.Scenario {
				g := newGauge()
				def := job(g, limit.Control{Singleton: mode, Key: keyOf, Concurrency: 2})
				parent := perdure.Define("parent",
					func(ctx context.Context, in string) (string, error) {
						return def.Child(ctx, in).Await(ctx)
					})
				ids := []string{"a/1", "b/1", "a/2", "a/3", "b/2"}
				return world.Scenario{
					Workflows: []perdure.Definition{def, parent},
					Begin: func(w *world.World) error {
						for i, id := range ids {
							wf := def
							if i == 2 {
								wf = parent
							}
							_, err := wf.Start(context.Background(), w.Engine, id, perdure.ID(id),
								perdure.Dedup(time.Hour))
							if err != nil {
								return err
							}
						}
						return nil
					},
					Over: func(w *world.World) bool {
						for _, id := range ids {
							s, err := w.Engine.Statuses(context.Background(), id)
							if err != nil || !s[0].Found || !s[0].Head.Status.IsTerminal() {
								return false
							}
						}
						return true
					},
					Check: func(t *testing.T, w *world.World, _ int) {
						outs := map[string]string{}
						for _, id := range ids {
							run, err := w.Engine.Get(t.Context(), id)
							world.NoError(t, err)
							out, err := run.Result(t.Context())
							if mode == limit.Join && err != nil ||
								err != nil && journal.CodeOf(err) != journal.CodeCancelled {
								t.Errorf("%s: %v", id, err)
							}
							outs[id] = string(out)
							if wrong := world.Audit(w.Describe(id), w.History(id)); wrong != nil {
								t.Error(wrong)
							}
						}
						joins := outs["a/2"] == `"a/1"` && outs["b/2"] == `"b/1"`
						if mode == limit.Join && !joins ||
							mode == limit.Replace && outs["b/2"] != `"b/2"` {
							t.Errorf("the results are %v", outs)
						}
						noSlots(t, w)
					},
				}
			})
		})
	}
}

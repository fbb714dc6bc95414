package ends

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
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// parentEnds are the ways in which parents in these tests end.
var parentEnds = map[string]journal.Status{
	"returns": journal.Completed, "fails": journal.Failed, "cancels": journal.Cancelled,
	"is cancelled": journal.Cancelled,
	"times out":    journal.TimedOut, "compensated": journal.Compensated,
	"canceled": journal.Canceled,
}

// ending returns a workflow that starts a child with each policy and ends later, with the children
// started in a branch and with clean-ups on request.
func ending(how string, branch, cleansUp bool,
	child *perdure.Workflow[int, int]) *perdure.Workflow[int, int] {
	start := func(ctx context.Context) (int, error) {
		child.Child(ctx, 1, perdure.Key("stays"))
		child.Child(ctx, 2, perdure.Key("ends"), perdure.ChildEnds)
		child.Child(ctx, 3, perdure.Key("detached"), perdure.ChildDetached)
		return 0, nil
	}
	return perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		if cleansUp {
			if err := perdure.Finally(ctx, "always", func(ctx context.Context) error {
				return perdure.Sleep(ctx, time.Second)
			}); err != nil {
				return 0, err
			}
		}
		if branch {
			perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				_, _ = start(ctx)
				return 0, perdure.Sleep(ctx, 1000*time.Minute)
			})
		} else if _, err := start(ctx); err != nil {
			return 0, err
		}
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		switch how {
		case "fails":
			return 0, world.ErrOdd
		case "cancels":
			return 0, perdure.Cancel(ctx, "no more")
		case "compensated":
			return 0, pattern.End(ctx, journal.Compensated, 0, world.ErrOdd)
		case "canceled":
			return 0, pattern.End(ctx, journal.Canceled, 0, nil)
		case "returns":
			return 1, nil
		}
		return 0, perdure.Sleep(ctx, 1000*time.Minute)
	}, perdure.Timeout(3*time.Minute))
}

// spec, L-12
func TestPolicySaysWhatBecomesOfAChildWhenItsParentEnds(t *testing.T) {
	children := map[string]func(context.Context, int) (int, error){
		"runs": func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 200*time.Minute, nil))
		},
		"rests": func(ctx context.Context, _ int) (int, error) {
			return 5, perdure.Sleep(ctx, 200*time.Minute)
		},
		"ended": func(ctx context.Context, _ int) (int, error) { return 5, nil },
	}
	for how, end := range parentEnds {
		for does, body := range children {
			for variant := range 4 {
				branch, cleansUp := variant&1 != 0, variant&2 != 0
				t.Run(fmt.Sprintf("%s/child %s/branch=%v/clean-up=%v", how, does, branch, cleansUp),
					func(t *testing.T) {
						child := perdure.Define("child", body)
						parent := ending(how, branch, cleansUp, child)
						world.InBothModes(t, func(t *testing.T, w *world.World) {
							run, err := parent.Start(context.Background(), w.Engine, 0)
							if err != nil {
								t.Fatal(err)
							}
							time.Sleep(2 * time.Minute)
							if how == "is cancelled" {
								if err := w.Engine.Cancel(context.Background(), run.ID(),
									"by hand"); err != nil {
									t.Fatal(err)
								}
							}
							time.Sleep(2 * time.Minute)
							if s := w.Status(run.ID()); s != end {
								t.Errorf("the parent is %v, want %v", s, end)
							}
							checkChildren(w, end, does == "ended")
							time.Sleep(300 * time.Minute)
							all, _, err := w.Engine.List(context.Background(),
								perdure.Query{Workflow: "child"})
							if err != nil || len(all) != 3 {
								t.Fatal(len(all), err)
							}
							for _, h := range all {
								w.History(string(h.ID))
								if !h.Status.IsTerminal() {
									t.Errorf("child %s does not end: %v", h.ID, h.Status)
								}
							}
							w.History(run.ID())
						}, parent, child)
					})
			}
		}
	}
}

// checkChildren checks that the children have the states that their policies prescribe, soon after
// their parent's end.
func checkChildren(w *world.World, end journal.Status, ended bool) {
	w.T.Helper()
	all, _, err := w.Engine.List(context.Background(), perdure.Query{Workflow: "child"})
	if err != nil || len(all) != 3 {
		w.T.Fatal(len(all), err)
	}
	for _, h := range all {
		d, err := w.Engine.Describe(context.Background(), string(h.ID))
		if err != nil {
			w.T.Fatal(err)
		}
		policy := map[string]string{
			"1": "stays",
			"2": "ends",
			"3": "detached",
		}[string(d.State.Payload)]
		cancelled := policy == "ends" || policy == "stays" && end == journal.Cancelled
		switch {
		case ended && h.Status != journal.Completed, !ended &&
			cancelled != (h.Status == journal.Cancelled), !ended && !cancelled &&
			h.Status.IsTerminal():
			w.T.Errorf("child that %s is %v", policy, h.Status)
		case (policy == "detached") != (h.Parent == 0):
			w.T.Errorf("child that %s has parent %d", policy, h.Parent)
		}
	}
}

// spec
func TestCancelOfAChildReachesItOnce(t *testing.T) {
	world.OverCrashes(t, 4, func() world.Scenario {
		l := world.NewLedger()
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
			if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "undo", l.Effect("undo", time.Second))
				return err
			}); err != nil {
				return 0, err
			}
			return 1, perdure.Sleep(ctx, 1000*time.Hour)
		})
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (told, error) {
			c := child.Child(ctx, 0)
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return told{}, err
			}
			if err := errors.Join(c.Cancel(ctx, "enough"), c.Cancel(ctx, "again")); err != nil {
				return told{}, err
			}
			got, err := toldOf(c.Outcome(ctx))
			if err == nil {
				err = c.Cancel(ctx, "late")
			}
			return got, err
		})
		return world.Scenario{
			Workflows: []perdure.Definition{parent, child},
			Begin: func(w *world.World) error {
				_, err := parent.Start(context.Background(), w.Engine, 0, perdure.ID("p"))
				return err
			},
			Over: func(w *world.World) bool { return w.Status("p").IsTerminal() },
			Check: func(t *testing.T, w *world.World, crashes int) {
				run, err := parent.Get(context.Background(), w.Engine, "p")
				if err != nil {
					t.Fatal(err)
				}
				got, err := run.Result(context.Background())
				want := told{
					Status: journal.Cancelled, Code: journal.CodeCancelled,
					Err: "workflow cancelled: enough",
				}
				if got != want || err != nil {
					t.Errorf("%+v %v", got, err)
				}
				w.History("p")
				for _, h := range w.Children("p") {
					w.History(string(h.ID))
				}
				for key, n := range l.Calls() {
					if n > 1+crashes || len(l.Calls()) != 1 {
						t.Errorf("%s was made %d times", key, n)
					}
				}
			},
		}
	})
}

// spec
func TestParentsEndIsAppliedOnceOverCrashes(t *testing.T) {
	world.OverCrashes(t, 6, func() world.Scenario {
		l := world.NewLedger()
		leaf := perdure.Define("leaf", func(ctx context.Context, n int) (int, error) {
			if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "undo", l.Effect(fmt.Sprint("undo ", n), time.Second))
				return err
			}); err != nil {
				return 0, err
			}
			return 1, perdure.Sleep(ctx, 1000*time.Hour)
		})
		middle := perdure.Define("middle", func(ctx context.Context, n int) (int, error) {
			leaf.Child(ctx, n)
			return leaf.Child(ctx, n+1).Await(ctx)
		})
		root := perdure.Define("root", func(ctx context.Context, _ int) (int, error) {
			leaf.Child(ctx, 100, perdure.ChildDetached)
			middle.Child(ctx, 1)
			return middle.Child(ctx, 3).Await(ctx)
		})
		return world.Scenario{
			Workflows: []perdure.Definition{root, middle, leaf},
			Begin: func(w *world.World) error {
				if _, err := root.Start(context.Background(), w.Engine, 0,
					perdure.ID("p")); err != nil {
					return err
				}
				time.Sleep(time.Minute)
				return w.Engine.Cancel(context.Background(), "p", "enough")
			},
			Over: func(w *world.World) bool {
				open, _, err := w.Engine.List(context.Background(), perdure.Query{Open: true})
				return err == nil && len(open) == 1
			},
			Check: func(t *testing.T, w *world.World, crashes int) {
				all, _, err := w.Engine.List(context.Background(), perdure.Query{})
				if err != nil || len(all) != 8 {
					t.Fatal(len(all), err)
				}
				ended := map[journal.Number]time.Time{}
				for _, h := range all {
					ended[h.Number] = h.Ended
				}
				for _, h := range all {
					w.History(string(h.ID))
					if detached := h.Workflow == "leaf" &&
						h.Parent == 0; detached == (h.Status == journal.Cancelled) {
						t.Errorf("%s is %v", h.Workflow, h.Status)
					}
					if p := ended[h.Parent]; h.Parent != 0 && h.Ended.Before(p) {
						t.Errorf("%s ended before its parent", h.Workflow)
					}
				}
				if len(l.Order()) != 4 {
					t.Errorf("undone: %v", l.Order())
				}
				for key, n := range l.Calls() {
					if n > 1+crashes {
						t.Errorf("%s was made %d times", key, n)
					}
				}
			},
		}
	})
}

// chained is a child that continues as new a few times before it ends, or waits to
// be cancelled in its last run.
func chained() *perdure.Workflow[int, int] {
	return perdure.Define("chained", func(ctx context.Context, n int) (int, error) {
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		switch {
		case n > 3:
			return n, nil
		case n == 0:
			return 0, perdure.Sleep(ctx, 1000*time.Hour)
		case n < 0:
			return 0, perdure.ContinueAsNew(ctx, n+1)
		}
		return 0, perdure.ContinueAsNew(ctx, n+1)
	})
}

// spec
func TestParentHearsOfTheLastRunOfAChildsChain(t *testing.T) {
	child := chained()
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (told, error) {
		return toldOf(child.Child(ctx, 1).Outcome(ctx))
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, got, err := world.Result(w, parent, 0)
		if err != nil || got != (told{Status: journal.Completed, Output: 4}) {
			t.Errorf("%+v %v", got, err)
		}
		if n := len(w.Children(run.ID())); n != 4 {
			t.Errorf("%d runs of the child", n)
		}
		w.History(run.ID())
	}, parent, child)
}

// spec
func TestChildThatContinuedAsNewIsCancelledWithItsParent(t *testing.T) {
	for _, by := range []string{"the parent's end", "Child.Cancel"} {
		t.Run(by, func(t *testing.T) {
			child := chained()
			parent := perdure.Define("parent", func(ctx context.Context, _ int) (told, error) {
				c := child.Child(ctx, -2)
				if by == "Child.Cancel" {
					if err := perdure.Sleep(ctx, time.Hour); err != nil {
						return told{}, err
					}
					if err := c.Cancel(ctx, "enough"); err != nil {
						return told{}, err
					}
				}
				return toldOf(c.Outcome(ctx))
			})
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				run, err := parent.Start(context.Background(), w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if by != "Child.Cancel" {
					if err := w.Engine.Cancel(context.Background(), run.ID(),
						"enough"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				if s := w.Status(run.ID()); !s.IsTerminal() {
					t.Errorf("the parent is %v", s)
				}
				runs := w.Children(run.ID())
				if len(runs) != 3 || runs[2].Status != journal.Cancelled {
					t.Errorf("the child's runs: %+v", runs)
				}
			}, parent, child)
		})
	}
}

// spec: R-23
func TestParentThatEndedHearsNothing(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		child.Child(ctx, 0)
		return 2, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, out, err := world.Result(w, parent, 0)
		if out != 2 || err != nil {
			t.Fatal(out, err)
		}
		before := len(w.History(run.ID()))
		time.Sleep(2 * time.Hour)
		if h := w.Children(run.ID())[0]; h.Status != journal.Completed {
			t.Errorf("the child is %v", h.Status)
		}
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || d.Head.Status != journal.Completed || len(w.History(run.ID())) != before ||
			len(d.Unread) != 0 {
			t.Errorf("%+v %v", d.Head, err)
		}
	}, parent, child)
}

// spec: R-23
func TestDetachedChildHasStartedWhenItIsAwaited(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
		c := child.Child(ctx, 0, perdure.ChildDetached)
		before, err := perdure.Now(ctx)
		if err != nil {
			return "", err
		}
		_, _ = c.Outcome(ctx)
		after, err := perdure.Now(ctx)
		if err == nil && !after.Equal(before) {
			err = fmt.Errorf("it waited for %v", after.Sub(before))
		}
		return c.RunID(), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		_, id, err := world.Result(w, parent, 0)
		if err != nil {
			t.Fatal(err)
		}
		run, err := child.Get(context.Background(), w.Engine, string(id))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 1 || err != nil {
			t.Error(out, err)
		}
	}, parent, child)
}

// spec: R-23, L-11
func TestChildOfACancelledBranchIsCancelled(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 100*time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
		var in *perdure.Child[int]
		b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
			in = child.Child(ctx, 0)
			return in.Await(ctx)
		})
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		if _, err := b.Cancel(ctx, "not needed"); err != nil {
			return "", err
		}
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		_, e1 := b.Await(ctx)
		o, e2 := in.Outcome(ctx)
		if o.Status != 0 {
			return "", fmt.Errorf("the outcome has status %v", o.Status)
		}
		return fmt.Sprintf("%v; %v", e1, e2), nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, out, err := world.Result(w, parent, 0)
		if err != nil || !strings.Contains(out, "branch b cancelled: not needed") ||
			strings.HasSuffix(out, "<nil>") {
			t.Errorf("%q %v", out, err)
		}
		if h := w.Children(run.ID())[0]; h.Status != journal.Cancelled {
			t.Errorf("the child is %v", h.Status)
		}
		w.History(run.ID())
	}, parent, child)
}

// spec: R-23
func TestOutcomeOfAChildThatIsAwaitedTooShort(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (told, error) {
		c := child.Child(ctx, 0)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if o, err := c.Outcome(short); !errors.Is(err, context.DeadlineExceeded) {
			return told{}, fmt.Errorf("got %+v, %w", o, err)
		}
		return toldOf(c.Outcome(ctx))
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		_, got, err := world.Result(w, parent, 0)
		if err != nil || got != (told{Status: journal.Completed, Output: 1}) {
			t.Errorf("%+v %v", got, err)
		}
	}, parent, child)
}

// spec: R-11
func TestParentOfManyIsCancelled(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		return 1, perdure.Sleep(ctx, 1000*time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		for i := range n {
			child.Child(ctx, i)
		}
		return 1, perdure.Sleep(ctx, 1000*time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{parent, child}}
		w.Options.Build, w.Options.Capacity = "test", 100_000
		w.Begin()
		defer w.End()
		run, err := parent.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := w.Engine.Cancel(context.Background(), run.ID(), "enough"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancelled, q := 0, perdure.Query{
			Parent:   run.RunID(),
			Statuses: []journal.Status{journal.Cancelled},
			Limit:    1000,
		}
		for {
			heads, next, err := w.Engine.List(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			cancelled += len(heads)
			if q.After = next; next.IsZero() {
				break
			}
		}
		if cancelled != n {
			t.Errorf("%d of %d children are cancelled", cancelled, n)
		}
	})
}

// spec: R-23
func TestManyChildrenThatEndAtOnceAreAllHeardOf(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 1500
	}
	child := perdure.Define("child", func(ctx context.Context, i int) (int, error) {
		return i, perdure.Sleep(ctx, time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		var all []*perdure.Child[int]
		for i := range n {
			all = append(all, child.Child(ctx, i))
		}
		if err := perdure.Sleep(ctx, 2*time.Hour); err != nil {
			return 0, err
		}
		sum := 0
		for _, c := range all {
			i, err := c.Await(ctx)
			if err != nil {
				return 0, err
			}
			sum += i
		}
		return sum, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, parent, child)
		defer w.End()
		_, out, err := world.Result(w, parent, 0)
		if out != n*(n-1)/2 || err != nil {
			t.Error(out, err)
		}
	})
}

// spec: R-23
func TestObserversHearOfADetachedChildWhoseIDIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
			c := child.Child(ctx, 0, perdure.ChildDetached, perdure.ID("x"))
			return c.RunID(), nil
		})
		w := world.New(t, child, parent)
		defer w.End()
		world.Start(w, child, 0, perdure.ID("x"))
		_, id, err := world.Result(w, parent, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.Seen(observe.ChildEnded); len(n) != 1 || n[0].Other != id ||
			!strings.Contains(n[0].Err, "held by run") {
			t.Errorf("of %s observers heard %+v", id, n)
		}
	})
}

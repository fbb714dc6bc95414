package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// An outing is a parent whose child waits for a signal, "go", between two steps, while the
// parent may fail by a step of its own.
type outing struct {
	*hands
	parent, child *perdure.Workflow[int, int]
}

func newOuting(policy ...perdure.ChildOption) *outing {
	o := &outing{hands: newHands()}
	o.child = perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		if _, err := perdure.Step(ctx, "first", o.step("first"), perdure.NoRetry); err != nil {
			return 0, err
		}
		if _, err := perdure.NewSignal[int]("go").Wait(ctx); err != nil {
			return 0, err
		}
		_, err := perdure.Step(ctx, "second", o.step("second"), perdure.NoRetry)
		return n + 1, err
	}, deadletter.Automatic(true))
	o.parent = perdure.Define("parent", func(ctx context.Context, n int) (int, error) {
		c := o.child.Child(ctx, n, policy...)
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		if _, err := perdure.Step(ctx, "own", o.step("own"), perdure.NoRetry); err != nil {
			return 0, err
		}
		return c.Await(ctx)
	}, deadletter.Automatic(true))
	return o
}

// sendGo lets the child go on.
func sendGo(w *world.World, child journal.Head) {
	w.T.Helper()
	if _, err := w.Engine.Send(w.T.Context(), string(child.ID), "go", []byte("1")); err != nil {
		w.T.Fatal(err)
	}
}

// A child that is open when its parent is retried goes on, and the retry learns of its end, also if
// the child ended in between, and however it ended.
//
// spec: F-18, P-4
func TestARetryAdoptsAChildThatIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		early, late bool   // the child ends before, or after, its parent is retried
		broken      string // in the child
	}{
		"it ends later":            {late: true},
		"it has ended meanwhile":   {early: true},
		"it fails later":           {late: true, broken: "second"},
		"it has failed meanwhile":  {early: true, broken: "second"},
		"it was retried meanwhile": {early: true, broken: "second"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOuting()
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				o.breaks("own", c.broken)
				o.did()
				old := world.Start(w, o.parent, 7, perdure.ID("x"))
				ends(t, old, "own is broken")
				child := w.Children("x")[0]
				if c.early {
					sendGo(w, child)
					time.Sleep(time.Minute)
				}
				o.breaks(c.broken)
				if c.early {
					o.breaks()
				}
				if name == "it was retried meanwhile" {
					if _, err := w.Engine.Retry(t.Context(), string(child.ID)); err != nil {
						t.Fatal(err)
					}
				}
				again := retry(w, o.parent, "x")
				time.Sleep(time.Minute)
				if c.late {
					sendGo(w, child)
				}
				if c.late && c.broken != "" {
					ends(t, again, "second is broken")
					o.breaks()
					again = retry(w, o.parent, "x")
				}
				if out := ends(t, again, ""); out != 8 {
					t.Errorf("its output is %d", out)
				}
				if did := o.did(); !slices.Equal(did, []string{"first", "own", "second"}) &&
					!slices.Equal(did, []string{"first", "second", "own"}) {
					t.Errorf("what was done is %v", did)
				}
				if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
					t.Errorf("there are left %+v", left)
				}
				w.History(again.RunID())
			}, o.parent, o.child)
		})
	}
}

// The steps of a child that is retried with its parent keep their keys, and its dead letter is
// settled with its parent's. One more retry, of either dead letter, starts nothing.
//
// spec: F-18, P-4
func TestARetryOfALetterRetriesTheChildOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		whole := perdure.Define("whole", func(ctx context.Context, n int) (string, error) {
			return order.Child(ctx, n, perdure.ID("ord-1")).Await(ctx)
		}, deadletter.Automatic(true))
		w := world.New(t, whole, order)
		defer w.End()
		ends(t, world.Start(w, whole, 7, perdure.ID("x")), "charge is broken")
		key, child := s.keys["charge"], w.Children("x")[0]
		all := letters(w, admin.DeadLetterQuery{})
		if len(all) != 2 {
			t.Fatalf("the letters are %+v", all)
		}
		s.breaks("ship")
		retryLetter(w, all[0].ID, "ship is broken")
		if s.keys["charge"] != key {
			t.Errorf("the key of charge is %s, and was %s", s.keys["charge"], key)
		}
		synctest.Wait()
		s.breaks()
		for _, l := range letters(w, admin.DeadLetterQuery{}) {
			if _, err := admin.New(w.Engine).RetryDeadLetter(t.Context(), l.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		// of the parent, where the child was retried first
		for _, l := range letters(w, admin.DeadLetterQuery{}) {
			retryLetter(w, l.ID, "")
		}
		if did := s.did(); !slices.Equal(did, []string{"reserve", "charge", "ship"}) {
			t.Errorf("what was done is %v", did)
		}
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are left %+v", left)
		}
		line := w.Chain("ord-1")
		if last := line[len(line)-1]; last.Status != journal.Completed ||
			last.Chain != child.Number {
			t.Errorf("the child is %+v, and its first run was %+v", last, child)
		}
	})
}

// A child that was cancelled with its parent goes on with it. While the cancel of the child is
// still to come, its parent is not retried.
//
// spec: F-18, P-4
func TestARetryOfACancelledRunRetriesTheChildThatWasCancelledWithIt(t *testing.T) {
	o := newOuting()
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		o.did()
		world.Start(w, o.parent, 7, perdure.ID("x"))
		time.Sleep(time.Hour)
		child := w.Children("x")[0]
		if err := w.Engine.Cancel(t.Context(), "x", "no"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := w.Status(string(child.ID)); s != journal.Cancelled {
			t.Fatalf("the child is %v", s)
		}
		again := retry(w, o.parent, "x")
		time.Sleep(time.Minute)
		sendGo(w, child)
		if out := ends(t, again, ""); out != 8 {
			t.Errorf("its output is %d", out)
		}
		if did := o.did(); !slices.Equal(did, []string{"first", "own", "second"}) {
			t.Errorf("what was done is %v", did)
		}
	}, o.parent, o.child)
}

// spec: F-18, P-4
func TestAParentIsNotRetriedWhileItsChildIsBeingCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
			err := perdure.OnCancel(ctx, "tidy", func(ctx context.Context) error {
				return perdure.Sleep(ctx, time.Hour)
			})
			if err == nil {
				err = perdure.Sleep(ctx, 10*time.Hour)
			}
			return 1, err
		})
		parent := perdure.Define("parent", func(ctx context.Context, n int) (int, error) {
			return slow.Child(ctx, n).Await(ctx)
		})
		w := world.New(t, parent, slow)
		defer w.End()
		world.Start(w, parent, 7, perdure.ID("x"))
		time.Sleep(time.Minute)
		if err := w.Engine.Cancel(t.Context(), "x", "no"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		_, err := w.Engine.Retry(t.Context(), "x")
		world.CodeIs(t, err, journal.CodeConflict)
		time.Sleep(2 * time.Hour)
		again := retry(w, parent, "x")
		if out := ends(t, again, ""); out != 1 {
			t.Errorf("its output is %d", out)
		}
	})
}

// A child that began in a branch beside the failed one is not begun again, also if it began after
// the failure.
//
// spec: F-18, P-4
func TestARetryKeepsTheChildrenOfOtherBranches(t *testing.T) {
	s := newHands()
	child := perdure.Define("child", func(ctx context.Context, n int) (string, error) {
		return perdure.Step(ctx, "child", s.step(fmt.Sprint("child ", n)), perdure.NoRetry)
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		bad := perdure.Go(ctx, "bad", func(ctx context.Context) (string, error) {
			return perdure.Step(ctx, "bad", s.step("bad"), perdure.NoRetry)
		})
		good := perdure.Go(ctx, "good", func(ctx context.Context) (string, error) {
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return child.Child(ctx, 1).Await(ctx)
		})
		_, err := good.Await(ctx)
		_, failed := bad.Await(ctx)
		if failed != nil {
			_, _ = child.Child(ctx, 2).Await(ctx) // it makes good for that
		}
		return 0, errors.Join(err, failed)
	}, deadletter.Automatic(true))
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		s.breaks("bad")
		s.did()
		ends(t, world.Start(w, parent, 7, perdure.ID("x")), "bad is broken")
		again := retry(w, parent, "x")
		ends(t, again, "bad is broken")
		if did := s.did(); !slices.Equal(did, []string{"child 1", "child 2", "child 2"}) {
			t.Errorf("what was done is %v", did)
		}
	}, parent, child)
}

// A child that began in a branch after this had heard of something is not begun again, because that
// would be another run with keys of its own: one that has completed, one that is open, and one that
// has failed. A step that was done there is done again, under its key.
//
// spec: F-18, P-4
func TestARetryKeepsTheChildrenOfABranchThatHasHeard(t *testing.T) {
	for name, c := range map[string]struct {
		broken string // in the child
		open   bool   // the child is, when its parent is retried
	}{
		"it has completed": {},
		"it has failed":    {broken: "second"},
		"it is open":       {open: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOuting()
			o.parent = perdure.Define("hears", func(ctx context.Context, n int) (int, error) {
				if err := perdure.SetVariable(ctx, "of-all", "yes"); err != nil {
					return 0, err
				}
				bad := perdure.Async(ctx, "bad", o.step("bad"), perdure.NoRetry)
				hears := perdure.Go(ctx, "hears", func(ctx context.Context) (int, error) {
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return 0, err
					}
					if _, _, err := perdure.Variable[string](ctx, "of-all"); err != nil {
						return 0, err
					}
					if _, err := perdure.Step(ctx, "mail", o.step("mail")); err != nil {
						return 0, err
					}
					return perdure.Go(ctx, "deep", func(ctx context.Context) (int, error) {
						return o.child.Child(ctx, n).Await(ctx)
					}).Await(ctx)
				})
				if _, err := bad.Await(ctx); err != nil {
					return 0, errors.Join(err, perdure.Sleep(ctx, time.Hour))
				}
				return hears.Await(ctx)
			}, deadletter.Automatic(true))
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				o.breaks("bad", c.broken)
				o.did()
				old := world.Start(w, o.parent, 7, perdure.ID("x"))
				time.Sleep(2 * time.Minute)
				child := w.Children("x")[0]
				if !c.open {
					sendGo(w, child)
				}
				ends(t, old, "bad is broken")
				o.breaks()
				again := retry(w, o.parent, "x")
				time.Sleep(time.Minute)
				// one that was begun anew would wait for it
				for _, begun := range append(w.Children("x"), child) {
					sendGo(w, begun)
				}
				if out := ends(t, again, ""); out != 8 {
					t.Errorf("its output is %d", out)
				}
				did := o.did()
				slices.Sort(did)
				if !slices.Equal(did, []string{"bad", "first", "mail", "mail", "second"}) {
					t.Errorf("what was done is %v", did)
				}
				if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
					t.Errorf("there are left %+v", left)
				}
			}, o.parent, o.child)
		})
	}
}

// What was given up at the end of a run, or at the cancellation of a branch, goes on in the retry:
// an open child, which ends with its parent or does not, and a step.
//
// spec: F-18, P-4
func TestARetryGoesOnWithWhatWasGivenUp(t *testing.T) {
	o := newOuting()
	tidy := func(ctx context.Context) error {
		return perdure.Finally(ctx, "tidy", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "tidy", o.step("tidy"))
			return err
		})
	}
	await := func(ctx context.Context) (int, error) {
		c := o.child.Child(ctx, 7)
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		if _, err := perdure.Step(ctx, "own", o.step("own"), perdure.NoRetry); err != nil {
			return 0, err
		}
		return c.Await(ctx)
	}
	// The code cancels a branch when its own step has failed, and then compensates for that.
	cancels := func(ctx context.Context, do func(ctx context.Context) (int, error)) (int, error) {
		b := perdure.Go(ctx, "branch", do)
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		if _, err := perdure.Step(ctx, "own", o.step("own"), perdure.NoRetry); err != nil {
			b.Cancel(ctx, "own has failed")
			_, sorry := perdure.Step(ctx, "sorry", o.step("sorry"))
			return 0, errors.Join(err, sorry)
		}
		return b.Await(ctx)
	}
	for name, code := range map[string]func(ctx context.Context, _ int) (int, error){
		"a child that nobody awaits any more": func(ctx context.Context, _ int) (int, error) {
			return await(ctx)
		},
		"a child while it is tidied up": func(ctx context.Context, _ int) (int, error) {
			if err := tidy(ctx); err != nil {
				return 0, err
			}
			return await(ctx)
		},
		"a child of a branch": func(ctx context.Context, _ int) (int, error) {
			return cancels(ctx, func(ctx context.Context) (int, error) {
				return o.child.Child(ctx, 7).Await(ctx)
			})
		},
		"a wait in a branch of a branch": func(ctx context.Context, _ int) (int, error) {
			return cancels(ctx, func(ctx context.Context) (int, error) {
				return perdure.Go(ctx, "deep", func(ctx context.Context) (int, error) {
					return 8, perdure.Sleep(ctx, time.Hour)
				}).Await(ctx)
			})
		},
		"a step of a branch": func(ctx context.Context, _ int) (int, error) {
			return cancels(ctx, func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "slow", func(ctx context.Context) (int, error) {
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
					}
					return 8, ctx.Err()
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := perdure.Define("gives-up", code)
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				o.breaks("own")
				ends(t, world.Start(w, parent, 7, perdure.ID("x")), "own is broken")
				children := w.Children("x")
				o.breaks()
				time.Sleep(time.Minute)
				again := retry(w, parent, "x")
				time.Sleep(2 * time.Minute)
				for _, child := range append(children, w.Children("x")...) {
					sendGo(w, child)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
				defer cancel()
				if out, err := again.Result(ctx); out != 8 || err != nil {
					t.Errorf("it gives %d, %v", out, err)
				}
			}, parent, o.child)
		})
	}
}

// A retry fails if a child is not in the store any more; a child that never began is begun.
//
// spec: F-18, P-4
func TestARetryNeedsItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("work")
		child := perdure.Define("child", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "work", s.step("work"), perdure.NoRetry)
		}, perdure.Retention{Period: time.Hour})
		slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		})
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
			return child.Child(ctx, 1, perdure.ID("c")).Await(ctx)
		}, perdure.Retention{Period: 1000 * time.Hour})
		w := &world.World{
			T:         t,
			DB:        memory.New(),
			Workflows: []perdure.Definition{parent, child, slow},
		}
		w.Begin()
		defer w.End()
		holds := world.Start(w, slow, 1, perdure.ID("c"))
		ends(t, world.Start(w, parent, 1, perdure.ID("x")), "held by another run")
		ends(t, holds, "")
		ends(t, retry(w, parent, "x"), "work is broken")
		time.Sleep(100 * time.Hour)
		s.breaks()
		_, err := w.Engine.Retry(t.Context(), "x")
		world.CodeIs(t, err, journal.CodeNotFound)
	})
}

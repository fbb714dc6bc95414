package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/store"
)

// soon is the time in which one engine may react to another one.
const soon = 50 * time.Millisecond

// spec: L-19
func TestAWaiterOnAnotherEngineHearsOfTheEndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Minute)
		c := world.NewCluster(t, 2, wf)
		defer c.End()
		began := time.Now()
		runs := launched(t, c.Nodes[0], wf, 3)
		outputs(t, c.Nodes[1], runs)
		if late := time.Since(began) - time.Minute; late > soon {
			t.Errorf("it heard of the ends %v late", late)
		}
	})
}

// spec: L-19
func TestAWaiterHearsOfTheEndWithinASweepWhereNobodySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Minute)
		c := world.NewCluster(t, 0)
		defer c.End()
		for range 2 {
			w := c.Node(wf)
			w.Options.Sweep = 5 * time.Second
			// hides Watch
			w.Wrap = func(s store.Store) store.Store { return struct{ store.Store }{s} }
			w.Begin()
		}
		began := time.Now()
		runs := launched(t, c.Nodes[0], wf, 3)
		outputs(t, c.Nodes[1], runs)
		if late := time.Since(began) - time.Minute; late > 5*time.Second {
			t.Errorf("it heard of the ends %v late", late)
		}
	})
}

// spec: L-4, L-19, B-4
func TestAStartFindsTheRunThatAnotherEngineHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Minute)
		other := perdure.Define("other", func(context.Context, int) (int, error) { return 0, nil })
		c := world.NewCluster(t, 2, wf, other)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		first := launched(t, a, wf, 1)[0]
		second, err := wf.Start(t.Context(), b.Engine, 99, perdure.ID("run-1"))
		if err != nil || second.New() || second.RunID() != first.RunID() {
			t.Fatalf("the start gave run %v, new %v, %v", second.RunID(), second.New(), err)
		}
		_, err = other.Start(t.Context(), b.Engine, 1, perdure.ID("run-1"))
		world.CodeIs(t, err, journal.CodeConflict)
		if out, err := second.Result(t.Context()); out != 2 || err != nil {
			t.Error(out, err)
		}
	})
}

// listens is a workflow that returns what happens to it.
var listens = perdure.Define("listens", func(ctx context.Context, _ int) (string, error) {
	word, err := perdure.NewSignal[string]("word").Wait(ctx)
	if err != nil {
		return "", err
	}
	if word == "park" {
		d, err := perdure.Park(ctx, "what", "for an operator", "this", "that")
		return d.Choice, err
	}
	if word == "sleep" {
		_, err := perdure.Timer(ctx, "long", time.Hour).Await(ctx)
		return fmt.Sprint(word, " ", err), nil
	}
	return word, nil
})

// say sends a word to a run of listens, from a node.
func say(t *testing.T, w *world.World, id, word string) {
	t.Helper()
	if _, err := perdure.NewSignal[string]("word").Send(t.Context(), w.Engine, id,
		word); err != nil {
		t.Fatal(err)
	}
}

// spec: L-19, R-17
func TestCommandsReachARunWhicheverEngineHasIt(t *testing.T) {
	ctx := context.Background()
	for name, do := range map[string]func(
		t *testing.T, b *world.World,
	) (wait time.Duration, want string, code journal.Code){
		"a signal": func(t *testing.T, b *world.World) (time.Duration, string, journal.Code) {
			say(t, b, "run", "hello")
			return soon, `"hello"`, ""
		},
		"a cancel": func(t *testing.T, b *world.World) (time.Duration, string, journal.Code) {
			if err := b.Engine.Cancel(ctx, "run", "enough"); err != nil {
				t.Error(err)
			}
			return soon, "", journal.CodeCancelled
		},
		"a suspend and a resume": func(
			t *testing.T, b *world.World,
		) (time.Duration, string, journal.Code) {
			if err := b.Engine.Suspend(ctx, "run", "wait"); err != nil {
				t.Error(err)
			}
			time.Sleep(soon)
			d, err := b.Engine.Describe(ctx, "run")
			if err != nil || d.Head.Status != journal.Suspended {
				t.Errorf("the run is %v, %v", d.Head.Status, err)
			}
			say(t, b, "run", "resumed")
			time.Sleep(time.Minute)
			if err := b.Engine.Resume(ctx, "run"); err != nil {
				t.Error(err)
			}
			return soon, `"resumed"`, ""
		},
		"a decision": func(t *testing.T, b *world.World) (time.Duration, string, journal.Code) {
			say(t, b, "run", "park")
			time.Sleep(soon)
			if err := b.Engine.Decide(ctx, "run", "what", perdure.Decision{
				Choice: "that",
			}); err != nil {
				t.Error(err)
			}
			return soon, `"that"`, ""
		},
		"the end of a timer": func(t *testing.T, b *world.World) (time.Duration, string,
			journal.Code) {
			say(t, b, "run", "sleep")
			time.Sleep(soon)
			if err := b.Engine.CancelTimer(ctx, "run", "long", "now"); err != nil {
				t.Error(err)
			}
			return soon, "", ""
		},
	} {
		for _, idle := range []time.Duration{time.Hour, -1} { // it stays in memory, or is unloaded
			t.Run(fmt.Sprint(name, ", idle ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := world.NewCluster(t, 0)
					defer c.End()
					a, b := c.Node(listens), c.Node()
					for _, w := range c.Nodes {
						w.Options.IdleTimeout = idle
						w.Begin()
					}
					if _, err := listens.Start(ctx, a.Engine, 1, perdure.ID("run")); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					wait, want, code := do(t, b)
					asked := time.Now()
					run, err := b.Engine.Get(ctx, "run")
					if err != nil {
						t.Fatal(err)
					}
					out, err := run.Result(ctx)
					if took := time.Since(asked); took > wait {
						t.Errorf("it took %v", took)
					}
					switch {
					case code != "":
						world.CodeIs(t, err, code)
					case err != nil || want != "" && string(out) != want:
						t.Errorf("the run gave %s, %v", out, err)
					}
					a.History("run")
					err = b.Engine.Cancel(ctx, "run", "too late")
					if code != journal.CodeCancelled {
						world.CodeIs(t, err, journal.CodeWrongState)
					} else if err != nil {
						t.Errorf("to cancel it once more gives %v", err)
					}
				})
			})
		}
	}
}

// spec: L-19
func TestParentAndChildMayBeOnDifferentEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		child := works(l, time.Minute)
		parent := perdure.Define("parent", func(ctx context.Context, n int) (int, error) {
			return child.Child(ctx, n, perdure.ID(fmt.Sprint("child-", n))).Await(ctx)
		})
		c := world.NewCluster(t, 0)
		defer c.End()
		a, b := c.Node(parent), c.Node(child)
		a.Begin()
		b.Begin()
		began := time.Now()
		first, err := parent.Start(t.Context(), a.Engine, 1)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := first.Result(t.Context()); out != 2 || err != nil {
			t.Error(out, err)
		}
		if late := time.Since(began) - time.Minute; late > 2*soon {
			t.Errorf("it was %v late", late)
		}
		second, err := parent.Start(t.Context(), a.Engine, 2, perdure.ID("second"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := b.Engine.Cancel(t.Context(), "second", "enough"); err != nil {
			t.Fatal(err)
		}
		_, err = second.Result(t.Context())
		world.CodeIs(t, err, journal.CodeCancelled)
		time.Sleep(soon)
		d, err := a.Engine.Describe(t.Context(), "child-2")
		if err != nil || d.Head.Status != journal.Cancelled {
			t.Errorf("the child is %v, %v", d.Head.Status, err)
		}
		if ended := l.ends("long 2"); len(ended) != 1 {
			t.Errorf("the context of the child's step has ended with %v", ended)
		}
	})
}

// spec: B-5
func TestAnEngineWithoutAWorkflowNeverClaimsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		wf := works(l, time.Minute)
		c := world.NewCluster(t, 0)
		defer c.End()
		a, b := c.Node(wf), c.Node(listens)
		a.Begin()
		b.Begin()
		run, err := b.Engine.Start(t.Context(), "works", []byte("1"), perdure.ID("run-1"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Kill(a)
		for range 100 {
			time.Sleep(time.Second)
			heads, _, err := c.DB.Find(t.Context(), store.Filter{WorkflowID: "run-1"})
			if err != nil || len(heads) != 1 {
				t.Fatal(heads, err)
			}
			d, err := b.Engine.Describe(t.Context(), "run-1")
			if owner := heads[0].Owner; err != nil || owner != 0 &&
				time.Since(heads[0].Created) > world.Lease+2*time.Second {
				t.Fatalf("engine %d has it: %v, %v", owner, d.Why, err)
			}
		}
		if n := len(l.times("long 1")); n != 1 {
			t.Fatalf("its step was executed %d times", n)
		}
		third := c.Node(wf)
		third.Begin()
		joined := time.Now()
		if out, err := run.Result(t.Context()); string(out) != "2" || err != nil {
			t.Error(string(out), err)
		}
		if took := time.Since(joined); took > time.Minute+2*soon {
			t.Errorf("with an engine that knows it, it took %v", took)
		}
	})
}

// spec: R-13, B-5
func TestTwoBuildsWorkSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func(name string) *perdure.Workflow[int, int] {
			return perdure.Define("rolling", func(ctx context.Context, n int) (int, error) {
				if name == "new" {
					if _, err := perdure.Step(ctx, "check", func(context.Context) (int, error) {
						return 0, nil
					}, perdure.Added); err != nil {
						return 0, err
					}
				}
				if err := perdure.Sleep(ctx, time.Minute); err != nil {
					return 0, err
				}
				return perdure.Step(ctx, "double", func(context.Context) (int, error) {
					return 2 * n, nil
				})
			})
		}
		c := world.NewCluster(t, 0)
		defer c.End()
		var workflows []*perdure.Workflow[int, int]
		for _, name := range []string{"old", "new"} {
			workflows = append(workflows, build(name))
			w := c.Node(workflows[len(workflows)-1])
			w.Options.Build = name
			w.Begin()
		}
		var runs []*perdure.Run[int]
		for i := range 20 {
			run, err := workflows[i%2].Start(t.Context(), c.Nodes[i%2].Engine, i)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
		}
		for i, run := range runs {
			if out, err := run.Result(t.Context()); out != 2*i || err != nil {
				t.Errorf("run %d gives %d, %v", i, out, err)
			}
		}
	})
}

// spec: L-18, B-5
func TestListenersAreToldOnceByOneEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		var mu sync.Mutex
		told := map[string]int{}
		wf := perdure.Define("told", func(_ context.Context, n int) (int, error) { return n, nil },
			perdure.Listener{Call: func(_ context.Context, e perdure.Ended) error {
				<-time.After(2 * time.Minute) // some sweeps
				mu.Lock()
				defer mu.Unlock()
				told[e.WorkflowID]++
				return nil
			}})
		c := world.NewCluster(t, 3, wf)
		defer c.End()
		for i := range n {
			if _, err := wf.Start(t.Context(), c.Nodes[i%3].Engine, i,
				perdure.ID(fmt.Sprint("run-", i))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for i := range n {
			if times := told[fmt.Sprint("run-", i)]; times != 1 {
				t.Errorf("of the end of run %d was told %d times", i, times)
			}
		}
	})
}

// spec: L-18, R-12
func TestWhatADeadEngineWasToTellAnotherOneTells(t *testing.T) {
	for name, graceful := range map[string]bool{"killed": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				told, blocks := map[string]int{}, true
				wf := perdure.Define("told", func(_ context.Context, n int) (int, error) {
					return n, nil
				},
					perdure.Listener{Call: func(ctx context.Context, e perdure.Ended) error {
						mu.Lock()
						blocked := blocks
						mu.Unlock()
						if blocked && e.WorkflowID != "other" {
							<-ctx.Done()
							return ctx.Err()
						}
						mu.Lock()
						defer mu.Unlock()
						told[e.WorkflowID]++
						return nil
					}})
				c := world.NewCluster(t, 0)
				defer c.End()
				a, b := c.Node(wf), c.Node(wf)
				a.Options.Drain = -1
				if !graceful { // the take-over is reason enough
					b.Options.Sweep = 10 * time.Minute
				}
				a.Begin()
				b.Begin()
				for i := range 5 {
					if _, err := wf.Start(t.Context(), a.Engine, i,
						perdure.ID(fmt.Sprint("run-", i))); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := wf.Start(t.Context(), b.Engine, 0, perdure.ID("other")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if graceful {
					c.Stop(a)
				} else {
					c.Kill(a)
				}
				mu.Lock()
				blocks = false
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				for i := range 5 {
					if times := told[fmt.Sprint("run-", i)]; times != 1 {
						t.Errorf("of the end of run %d the other engine told %d times", i, times)
					}
				}
			})
		})
	}
}

// spec: B-5
func TestEnginesWithRoomShareWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		wf := works(&logbook{}, time.Hour)
		c := world.NewCluster(t, 0)
		defer c.End()
		client, err := perdure.NewClient(t.Context(), c.DB.Beside())
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := wf.Start(t.Context(), client, 1); err != nil {
				t.Fatal(err)
			}
		}
		small := c.Node(wf)
		small.Options.Capacity = 50
		large := []*world.World{c.Node(wf), c.Node(wf)}
		for _, w := range c.Nodes {
			w.Wrap = func(s store.Store) store.Store { return &slowClaims{s} }
			w.Begin()
		}
		time.Sleep(10 * time.Second)
		var has []int
		for _, w := range []*world.World{small, large[0], large[1]} {
			running := 0
			heads, _, err := c.DB.Find(t.Context(), store.Filter{Limit: store.MaxLimit})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range heads {
				if d, err := w.Engine.Describe(t.Context(), string(h.ID)); err == nil &&
					len(d.Running) > 0 {
					running++
				}
			}
			has = append(has, running)
		}
		if has[0] != 50 || has[1]+has[2] != n-50 || slices.Min(has[1:]) < n/4 {
			t.Errorf("the engines execute %v runs", has)
		}
	})
}

// slowClaims makes claims take a while.
type slowClaims struct{ store.Store }

func (s *slowClaims) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if due, ok := c.(store.TakeDue); ok && due.Max > 0 {
		<-time.After(5 * time.Millisecond)
	}
	return got, err
}

// spec: R-14, B-5
func TestSeveralEnginesCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("short", func(_ context.Context, n int) (int, error) { return n, nil },
			perdure.Retention{Period: time.Minute})
		c := world.NewCluster(t, 0)
		defer c.End()
		for range 3 {
			w := c.Node(wf)
			w.Options.CleanUp = 10 * time.Second
			w.Begin()
		}
		for i := range 300 {
			if _, err := wf.Start(t.Context(), c.Nodes[i%3].Engine, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if heads, _, err := c.DB.Find(t.Context(), store.Filter{
			Limit: store.MaxLimit,
		}); err != nil ||
			len(heads) != 300 {
			t.Fatalf("%d runs are there before their time, %v", len(heads), err)
		}
		time.Sleep(time.Minute)
		if heads, _, err := c.DB.Find(t.Context(), store.Filter{
			Limit: store.MaxLimit,
		}); err != nil ||
			len(heads) != 0 {
			t.Errorf("%d runs are left, %v", len(heads), err)
		}
		_, _, err := c.Nodes[0].Engine.Purge(t.Context())
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A machine's step that has suspended is resumed once, whichever engine the orders come to, and
// whichever has the run.
//
// spec: R-2, L-19
func TestASuspendedStepIsResumedByAnyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		m := machine.New[int]("m", "a")
		machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
			n := calls.Add(1)
			if n < 4 {
				return machine.Suspend(), nil
			}
			return machine.Complete(n), nil
		})
		c := world.NewCluster(t, 2, m)
		defer c.End()
		run := world.StartAndSettle(c.Nodes[0], m.Workflow, 1, perdure.ID("x"))
		for i := range 3 {
			if i == 2 {
				c.Kill(c.Nodes[0])
				time.Sleep(2 * world.Lease)
			}
			if err := c.Nodes[1].Engine.Resume(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if n := calls.Load(); n != int32(i+2) {
				t.Errorf("%d calls after %d orders", n, i+1)
			}
		}
		again, err := m.Get(t.Context(), c.Nodes[1].Engine, run.RunID())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := again.Result(t.Context()); string(out) != "4" || err != nil {
			t.Errorf("its output is %s, %v", out, err)
		}
	})
}

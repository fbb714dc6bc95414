package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// plain is job without a limit in code.
func plain(g *gauge) *perdure.Workflow[string, string] {
	return perdure.Define("job", jobCode(g))
}

// pending returns how many runs are in line.
func pending(w *world.World) int {
	heads, _, err := w.Engine.List(context.Background(), perdure.Query{
		Statuses: []journal.Status{journal.Pending}, Limit: 1000,
	})
	world.NoError(w.T, err)
	return len(heads)
}

var operator = admin.Note{By: "ann", Reason: "the bank asked"}

func number(n int) *int { return &n }

// spec: R-32
func TestALimitIsSetWithoutCodeWhileRunsGoOn(t *testing.T) {
	for _, name := range []string{"job", admin.DefaultLimit} {
		t.Run(fmt.Sprintf("limit %q", name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGauge()
				def := plain(g)
				w := world.New(t, def)
				defer w.End()
				op := admin.New(w.Engine)
				start := func(n int) {
					for range n {
						world.StartAndSettle(w, def, "x")
					}
				}
				set := func(n int) {
					world.NoError(t, op.SetLimit(t.Context(), name, limit.Bounds{
						Concurrency: number(n),
					}, operator))
					time.Sleep(time.Second)
				}
				start(3) // they have begun before there is a limit, and count
				set(4)
				start(3)
				if n := pending(w); n != 2 {
					t.Errorf("%d runs wait, want 2", n)
				}
				set(5) // one of those that wait begins
				if n := pending(w); n != 1 {
					t.Errorf("%d runs wait, want 1", n)
				}
				set(1) // no slot is taken away
				if n := pending(w); n != 1 || g.most[""] != 5 {
					t.Errorf("%d runs wait, and at most %d were on", n, g.most[""])
				}
				start(2)
				world.NoError(t, op.ResetLimit(t.Context(), name, operator))
				time.Sleep(time.Second)
				if n := pending(w); n != 0 {
					t.Errorf("%d runs wait without a limit", n)
				}
				time.Sleep(time.Hour)
				noSlots(t, w)
			})
		})
	}
}

// A run is started before there is a limit. Its input is being written, so it is durable after the
// engine has counted those that have begun.
//
// spec: R-32
func TestARunThatIsDurableAfterALimitIsSetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := plain(newGauge())
		written := make(chan struct{})
		w := world.Hooked(t, &world.Hook{OnSpill: func() { <-written }}, perdure.Options{}, def)
		defer w.End()
		started := make(chan struct{})
		go func() {
			world.StartAndSettle(w, def, strings.Repeat("x", 1<<20))
			close(started)
		}()
		time.Sleep(time.Second)
		world.NoError(t, admin.New(w.Engine).SetLimit(t.Context(), "job", limit.Bounds{
			Concurrency: number(1),
		}, operator))
		time.Sleep(time.Second)
		close(written)
		<-started
		time.Sleep(time.Second)
		world.StartAndSettle(w, def, "x")
		if n := pending(w); n != 1 {
			t.Errorf("%d runs wait, want 1", n)
		}
	})
}

// A workflow has only a rate and a priority in its code. If an operator sets a concurrency, the
// line is in the order of the priority.
//
// spec: R-32, B-9
func TestALimitThatIsSetWithoutCodeKeepsThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		def := perdure.Define("job", func(ctx context.Context, in string) (string, error) {
			return perdure.Step(ctx, "do", func(ctx context.Context) (string, error) {
				order = append(order, in)
				world.Pause(ctx, time.Minute)
				return in, nil
			})
		}, limit.Control{
			Rate: limit.Rate{Tokens: 1000, Per: time.Second, Burst: 1000},
			Rank: limit.RankBy(func(in string) int { return len(in) }),
		})
		w := world.New(t, def)
		defer w.End()
		world.NoError(t, admin.New(w.Engine).SetLimit(t.Context(), "job", limit.Bounds{
			Concurrency: number(1),
		}, operator))
		time.Sleep(time.Minute)
		for _, in := range []string{"first", "a", "ccc", "bb"} {
			world.StartAndSettle(w, def, in)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"first", "ccc", "bb", "a"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// The code of a semaphore has its number, which the engine does not know before the next ask. If an
// operator resets a setting of it, those in line do not all go on.
//
// spec: R-32, B-9
func TestASemaphoreWhoseSettingIsResetIsNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on, most, runs atomic.Int32
		lock := limit.Semaphore{Name: "printer"}
		def := perdure.Define("print", func(ctx context.Context, _ string) (int, error) {
			return 0, lock.Do(ctx, func(ctx context.Context) error {
				return perdure.Do(ctx, "print", func(ctx context.Context) error {
					runs.Add(1)
					most.Store(max(most.Load(), on.Add(1)))
					world.Pause(ctx, time.Minute)
					on.Add(-1)
					return nil
				})
			})
		})
		w := world.New(t, def)
		defer w.End()
		op := admin.New(w.Engine)
		for range 8 {
			world.StartAndSettle(w, def, "")
		}
		world.NoError(t, op.SetLimit(t.Context(), "printer", limit.Bounds{
			Slots: number(3),
		}, operator))
		time.Sleep(10 * time.Second)
		world.NoError(t, op.ResetLimit(t.Context(), "printer", operator))
		time.Sleep(time.Hour)
		if most.Load() != 3 || runs.Load() != 8 {
			t.Errorf("%d runs have printed, at most %d at a time", runs.Load(), most.Load())
		}
	})
}

// spec: R-32
func TestASettingReplacesTheNumbersOfTheCodeOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 5, PerKey: 5, Key: keyOf})
		w := world.New(t, def)
		op := admin.New(w.Engine)
		world.NoError(t, op.SetLimit(t.Context(), "job", limit.Bounds{
			Concurrency: number(3), PerKey: number(2),
		}, operator))
		w.Crash()
		op = admin.New(w.Engine)
		for i := range 8 {
			world.StartAndSettle(w, def, []string{"a/", "b/"}[i%2]+fmt.Sprint(i))
		}
		if n := pending(w); n != 5 {
			t.Errorf("%d runs wait, want 5", n)
		}
		all, err := op.Limits(t.Context())
		world.NoError(t, err)
		if len(all) != 1 || *all[0].Set.Concurrency != 3 || all[0].Note != operator ||
			len(all[0].Uses) == 0 {
			t.Errorf("limits %+v", all)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if g.most[""] != 3 || g.most["a"] > 2 || g.most["b"] > 2 {
			t.Errorf("runs at a time: %v", g.most)
		}
		world.NoError(t, op.ResetLimit(t.Context(), "job", operator))
		time.Sleep(time.Second)
		for i := range 6 {
			world.StartAndSettle(w, def, fmt.Sprint("c/", i))
		}
		if n := pending(w); n != 1 {
			t.Errorf("%d runs wait by the limit of the code, want 1", n)
		}
		time.Sleep(time.Hour)
		noSlots(t, w)
		w.End()
	})
}

// spec: R-33
func TestTheRateOfAStepIsSetWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{begun: time.Now()}
		def := calls(m, 0, limit.Control{
			Name: "bank", Rate: limit.Rate{Tokens: 1, Per: time.Hour},
		})
		w := world.New(t, def)
		defer w.End()
		op := admin.New(w.Engine)
		run := world.StartAndSettle(w, def, "a")
		world.NoError(t, op.SetLimit(t.Context(), "bank", limit.Bounds{
			Rate: &limit.Rate{Tokens: 1, Per: time.Minute},
		}, operator))
		time.Sleep(4 * time.Minute)
		if got := w.Status(run.RunID()); got != journal.Completed {
			t.Errorf("%v: %s", got, w.Describe(run.RunID()).Why)
		}
		world.NoError(t, op.SetLimit(t.Context(), "bank", limit.Bounds{Rate: &limit.Rate{}},
			operator))
		run = world.StartAndSettle(w, def, "a")
		time.Sleep(time.Second)
		if got := w.Status(run.RunID()); got != journal.Completed {
			t.Errorf("%v without a rate: %s", got, w.Describe(run.RunID()).Why)
		}
		noSlots(t, w)
	})
}

// spec: R-32
func TestBadSettingsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, plain(newGauge()))
		defer w.End()
		op := admin.New(w.Engine)
		long := strings.Repeat("x", 256)
		for _, c := range []struct {
			name string
			b    limit.Bounds
			by   admin.Note
		}{
			{"a b", limit.Bounds{Concurrency: number(1)}, operator},
			{strings.Repeat("x", 201), limit.Bounds{Concurrency: number(1)}, operator},
			{"job", limit.Bounds{}, operator},
			{"job", limit.Bounds{Concurrency: number(-1)}, operator},
			{"job", limit.Bounds{PerKey: number(-1)}, operator},
			{"job", limit.Bounds{Slots: number(-1)}, operator},
			{"job", limit.Bounds{Rate: &limit.Rate{Tokens: -1, Per: 1}}, operator},
			{"job", limit.Bounds{Rate: &limit.Rate{Tokens: 1}}, operator},
			{"", limit.Bounds{PerKey: number(1)}, operator},
			{"job", limit.Bounds{Concurrency: number(1)}, admin.Note{By: long}},
			{"job", limit.Bounds{Concurrency: number(1)}, admin.Note{Reason: "\xff"}},
		} {
			err := op.SetLimit(t.Context(), c.name, c.b, c.by)
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		for _, name := range []string{"a b", long, "perdure.schedule"} {
			world.CodeIs(t, op.PauseWorkflow(t.Context(), name, operator), journal.CodeInvalid)
		}
	})
}

// spec: R-40
func TestAPausedWorkflowBeginsNoStepAndLosesNothing(t *testing.T) {
	for _, name := range []string{"job", admin.AllWorkflows} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				g := newGauge()
				def := plain(g)
				w := world.With(t, o, def)
				op := admin.New(w.Engine)
				inStep := world.StartAndSettle(w, def, "in its first step")
				time.Sleep(500 * time.Millisecond)
				world.NoError(t, op.PauseWorkflow(t.Context(), name, operator))
				synctest.Wait() // until the engine has heard of it
				late := world.StartAndSettle(w, def, "started while paused")
				time.Sleep(time.Hour)
				if !slices.Equal(g.order, []string{"in its first step"}) || len(g.on) != 1 {
					t.Errorf("begun: %v, on: %v", g.order, g.on)
				}
				if d := w.Describe(inStep.RunID()); d.Head.Owner != 0 ||
					!d.Head.Ended.IsZero() {
					t.Errorf("%v, owner %d", d.Head.Status, d.Head.Owner)
				}
				for _, run := range []*perdure.Run[string]{inStep, late} {
					if d := w.Describe(run.RunID()); !strings.HasSuffix(d.Why,
						" paused by ann: the bank asked") {
						t.Errorf("why: %q", d.Why)
					}
				}
				w.Crash()
				time.Sleep(time.Hour)
				if len(g.order) != 1 || len(g.on) != 1 {
					t.Errorf("after a crash, begun: %v, on: %v", g.order, g.on)
				}
				op = admin.New(w.Engine)
				all, err := op.Pauses(t.Context())
				world.NoError(t, err)
				if len(all) != 1 || all[0].Workflow != name || all[0].Note != operator {
					t.Errorf("pauses %+v", all)
				}
				world.NoError(t, op.ResumeWorkflow(t.Context(), name, operator))
				time.Sleep(5 * time.Minute)
				for _, run := range []*perdure.Run[string]{inStep, late} {
					if got := w.Status(run.RunID()); got != journal.Completed {
						t.Errorf("%v: %s", got, w.Describe(run.RunID()).Why)
					}
				}
				w.End()
			})
		})
	}
}

// The entries of a journal are in the order in which the code asks for steps, also when a pause has
// held back the first attempt of a step. Otherwise a replay would find another order.
//
// spec: R-40, B-3
func TestAPauseKeepsTheOrderOfTheJournal(t *testing.T) {
	brief := func(ctx context.Context) (int, error) { return 1, nil }
	held := map[string]func(context.Context) *perdure.Future[int]{
		"an async step": func(ctx context.Context) *perdure.Future[int] {
			return perdure.Async(ctx, "held", brief)
		},
		"a step with a timeout in a branch": func(ctx context.Context) *perdure.Future[int] {
			return perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "held", brief, perdure.Timeout(time.Minute))
			})
		},
		"a step with a rate in a branch": func(ctx context.Context) *perdure.Future[int] {
			return perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "held", brief, limit.Control{
					Name: "bank", Rate: limit.Rate{Tokens: 1, Per: time.Minute},
				})
			})
		},
	}
	for name, begin := range held {
		def := perdure.Define("job", func(ctx context.Context, _ string) (int, error) {
			if _, err := perdure.Step(ctx, "long", world.Work("", time.Minute, nil)); err != nil {
				return 0, err
			}
			f := begin(ctx)
			if err := perdure.Sleep(ctx, 10*time.Hour); err != nil {
				return 0, err
			}
			return f.Await(ctx)
		})
		t.Run(name, func(t *testing.T) {
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				w := world.With(t, o, def)
				run := world.StartAndSettle(w, def, "")
				world.NoError(t, admin.New(w.Engine).PauseWorkflow(t.Context(), "job", operator))
				time.Sleep(time.Hour)
				w.Crash()
				time.Sleep(time.Hour)
				world.NoError(t, admin.New(w.Engine).ResumeWorkflow(t.Context(), "job", operator))
				time.Sleep(time.Hour)
				w.Crash()
				time.Sleep(20 * time.Hour)
				if d := w.Describe(run.RunID()); d.Head.Status != journal.Completed {
					t.Errorf("%v: %s", d.Head.Status, d.Why)
				}
				w.End()
			})
		})
	}
}

// No engine has heard of the reset before all were gone. Runs that are in line by the old number
// begin with the next engine.
//
// spec: R-32
func TestAResetWhileNoEngineRunsIsCarriedOutByTheNextOne(t *testing.T) {
	for _, name := range []string{"job", admin.DefaultLimit} {
		for code, want := range map[int]int{0: 4, 2: 2} {
			if name == admin.DefaultLimit && code > 0 {
				continue // the default is for workflows without a limit
			}
			t.Run(fmt.Sprintf("limit %q, %d by code", name, code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGauge()
					def := plain(g)
					if code > 0 {
						def = job(g, limit.Control{Concurrency: code})
					}
					w := world.New(t, def)
					world.NoError(t, admin.New(w.Engine).SetLimit(t.Context(), name, limit.Bounds{
						Concurrency: number(1),
					}, operator))
					synctest.Wait() // until the engine has heard of it
					for range 4 {
						world.StartAndSettle(w, def, "x")
					}
					if n := pending(w); n != 3 {
						t.Fatalf("%d runs wait, want 3", n)
					}
					w.Kill()
					c, err := perdure.NewClient(t.Context(), w.DB)
					world.NoError(t, err)
					world.NoError(t, admin.New(c).ResetLimit(t.Context(), name, operator))
					w.Begin()
					defer w.End()
					time.Sleep(time.Second)
					if n := 4 - pending(w); n != want {
						t.Errorf("%d runs have a slot, want %d", n, want)
					}
				})
			})
		}
	}
}

// A token that waits for its time keeps it, however many engines join.
//
// spec: R-33
func TestAJoinGivesNoTokenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("job", func(context.Context, string) (string, error) {
			return "", nil
		})
		w := world.New(t, def)
		defer func() { w.End() }()
		world.NoError(t, admin.New(w.Engine).SetLimit(t.Context(), "job", limit.Bounds{
			Rate: &limit.Rate{Tokens: 1, Per: time.Hour},
		}, operator))
		time.Sleep(time.Second)
		for range 3 {
			world.StartAndSettle(w, def, "x")
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			if n := pending(w); n != 2-i {
				t.Fatalf("after %d hours %d runs wait, want %d", i, n, 2-i)
			}
			time.Sleep(30 * time.Minute)
			w.Crash()
			time.Sleep(30 * time.Minute)
		}
	})
}

// One of two engines sets a limit, and both obey. It sets another one and is killed: the other
// engine carries that out.
//
// spec: R-32, B-5
func TestASettingHoldsOnAllNodesAlsoIfTheOneThatSetItIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := plain(g)
		c := world.NewCluster(t, 2, def)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		set := func(n int) {
			world.NoError(t, admin.New(a.Engine).SetLimit(t.Context(), "job", limit.Bounds{
				Concurrency: number(n),
			}, operator))
		}
		set(2)
		time.Sleep(40 * time.Second) // b has looked for runs since
		for range 4 {
			world.StartAndSettle(b, def, "x")
			world.StartAndSettle(a, def, "x")
		}
		if n := pending(b); n != 6 {
			t.Fatalf("%d runs wait, want 6", n)
		}
		set(5)
		c.Kill(a)
		time.Sleep(40 * time.Second)
		if n := pending(b); n != 3 {
			t.Errorf("%d runs wait after the change, want 3", n)
		}
		world.NoError(t, admin.New(b.Engine).ResetLimit(t.Context(), "job", operator))
		time.Sleep(time.Second)
		if n := pending(b); n != 0 {
			t.Errorf("%d runs wait without a limit", n)
		}
		time.Sleep(time.Hour)
	})
}

// A limit with a long line, or with many keys, does not keep those after it out of the list.
//
// spec: R-32
func TestAllLimitsAreListedBehindALongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := func(ctx context.Context, _ string) (int, error) {
			return 1, perdure.Sleep(ctx, time.Hour)
		}
		long := perdure.Define("a-long", asleep, limit.Control{Concurrency: 1})
		keyed := perdure.Define("b-keyed", asleep, limit.Control{PerKey: 1, Key: keyOf})
		last := perdure.Define("c-last", asleep, limit.Control{Singleton: limit.Join})
		w := world.New(t, long, keyed, last)
		defer w.End()
		keys := make([]string, 1200)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		for _, def := range []*perdure.Workflow[string, int]{long, keyed} {
			_, errs := def.StartAll(t.Context(), w.Engine, keys, nil)
			world.NoError(t, errors.Join(errs...))
		}
		world.StartAndSettle(w, last, "")
		all, err := admin.New(w.Engine).Limits(t.Context())
		world.NoError(t, err)
		got := ""
		for _, l := range all {
			got += fmt.Sprintf("%s %d %+v\n", l.Name, len(l.Uses), l.Uses[0])
		}
		want := "a-long 1 {Of:runs Key: Slots:1 Used:1 Waiting:1199}\n" +
			"b-keyed 999 {Of:key Key:0 Slots:1 Used:1 Waiting:0}\n" +
			"c-last 1 {Of:one Key: Slots:1 Used:1 Waiting:0}\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// Package limits has the tests of limits: work that is held back, whatever crashes.
package limits

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
)

// A gauge counts the runs whose code is between its first step and its last. A run that begins
// again after a crash is counted once.
type gauge struct {
	mu    sync.Mutex
	on    map[string]string // run ID to key
	most  map[string]int    // by key, and in all
	order []string          // in which runs began
}

func newGauge() *gauge { return &gauge{on: map[string]string{}, most: map[string]int{}} }

func (g *gauge) enter(run, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.on[run]; known {
		return
	}
	g.on[run] = key
	g.order = append(g.order, key)
	n := 0
	for _, k := range g.on {
		if k == key {
			n++
		}
	}
	g.most[key] = max(g.most[key], n)
	g.most[""] = max(g.most[""], len(g.on))
}

func (g *gauge) leave(run string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.on, run)
}

// job is a workflow with a limit. See jobCode.
func job(g *gauge, c limit.Control) *perdure.Workflow[string, string] {
	return perdure.Define("job", jobCode(g), c)
}

// jobCode takes a second of work between two steps and a durable sleep of a minute.
func jobCode(g *gauge) func(ctx context.Context, in string) (string, error) {
	return func(ctx context.Context, in string) (string, error) {
		info, err := perdure.InfoOf(ctx)
		if err != nil {
			return "", err
		}
		key, _, _ := strings.Cut(in, "/")
		if err := perdure.Do(ctx, "begin", func(context.Context) error {
			g.enter(info.RunID, key)
			time.Sleep(time.Second)
			return nil
		}); err != nil {
			return "", err
		}
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		return in, perdure.Do(ctx, "end", func(context.Context) error {
			g.leave(info.RunID)
			return nil
		})
	}
}

// keyOf is the part of an input before the slash.
var keyOf = limit.By(func(in string) string {
	key, _, _ := strings.Cut(in, "/")
	return key
})

// spec: R-32, B-9
func TestRunsBeyondALimitWaitAndGoOnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 2})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for i := range 7 {
			runs = append(runs, world.StartAndSettle(w, def, fmt.Sprint(i),
				perdure.ID(fmt.Sprint("job-", i))))
		}
		third := w.Describe("job-2")
		if third.Head.Status != journal.Pending ||
			third.Head.Cause != "waits for a slot of limit job" ||
			third.Why != "it waits for a slot of limit job: it is number 1 of 5 in line, and 2 "+
				"of 2 slots are taken" {
			t.Errorf("the third is %v because %q: %s", third.Head.Status, third.Head.Cause,
				third.Why)
		}
		for i, run := range runs {
			if out, err := run.Result(t.Context()); err != nil || out != fmt.Sprint(i) {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
		}
		if g.most[""] != 2 {
			t.Errorf("%d went on at a time", g.most[""])
		}
		// those that get slots at one instant begin side by side
		for i, key := range g.order {
			if n, _ := strconv.Atoi(key); n < i-1 || n > i+1 {
				t.Errorf("they began in the order %v", g.order)
			}
		}
		noSlots(t, w)
	})
}

// noSlots demands that nobody has or waits for a slot.
func noSlots(t *testing.T, w *world.World) {
	t.Helper()
	slots, err := w.DB.Slots(t.Context(), store.SlotQuery{})
	if err != nil || len(slots) > 0 {
		t.Errorf("slots that are left: %v, %v", slots, err)
	}
}

// spec: R-32, B-9
func TestKeysHaveLimitsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 3, PerKey: 1, Key: keyOf})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for _, in := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "d/1", "/1", "/2"} {
			runs = append(runs, world.StartAndSettle(w, def, in))
		}
		for _, run := range runs {
			if _, err := run.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if g.most["a"] != 1 || g.most["b"] != 1 {
			t.Errorf("of one key %v went on at a time", g.most)
		}
		noSlots(t, w)
	})
}

// spec: R-32, B-9
func TestALimitHoldsOverCrashes(t *testing.T) {
	world.OverCrashes(t, 15, func() world.Scenario {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 2, PerKey: 1, Key: keyOf})
		ids := []string{"a/1", "a/2", "b/1", "b/2", "c/1"}
		return world.Scenario{
			Workflows: []perdure.Definition{def},
			Begin: func(w *world.World) error {
				for _, id := range ids {
					_, err := def.Start(context.Background(), w.Engine, id, perdure.ID(id),
						perdure.Dedup(time.Hour))
					if err != nil {
						return err
					}
				}
				return nil
			},
			Over: func(w *world.World) bool {
				for _, id := range ids {
					if s, err := w.Engine.Statuses(context.Background(), id); err != nil ||
						!s[0].Found || !s[0].Head.Status.IsTerminal() {
						return false
					}
				}
				return true
			},
			Check: func(t *testing.T, w *world.World, _ int) {
				for _, id := range ids {
					if d := w.Describe(id); d.Head.Status != journal.Completed {
						t.Errorf("%s is %v: %s", id, d.Head.Status, d.Head.Cause)
					}
					if wrong := world.Audit(w.Describe(id), w.History(id)); wrong != nil {
						t.Error(wrong)
					}
				}
				if g.most[""] > 2 || g.most["a"] > 1 || g.most["b"] > 1 {
					t.Errorf("went on at a time: %v", g.most)
				}
				noSlots(t, w)
			},
		}
	})
}

// spec: R-33, B-9
func TestRunsBeginAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Duration
		begin := time.Now()
		def := perdure.Define("call", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Do(ctx, "begin", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				began = append(began, time.Since(begin).Round(time.Second))
				return nil
			})
		}, limit.Control{Rate: limit.Rate{Tokens: 6, Per: time.Minute, Burst: 3}})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[int]
		for i := range 7 {
			runs = append(runs, world.StartAndSettle(w, def, i))
		}
		if d := w.Describe(runs[6].RunID()); d.Head.Status != journal.Pending ||
			d.Head.Cause != "waits for a token of limit call:rate" {
			t.Errorf("the last is %v because %q", d.Head.Status, d.Head.Cause)
		}
		for _, run := range runs {
			if _, err := run.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		want := []time.Duration{0, 0, 0, 10e9, 20e9, 30e9, 40e9}
		if fmt.Sprint(began) != fmt.Sprint(want) {
			t.Errorf("they began at %v, want %v", began, want)
		}
	})
}

// spec
func TestARunInLineIsCancelledSuspendedAndTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 1})
		w := world.New(t, def)
		defer w.End()
		for _, id := range []string{"a", "b", "c", "d"} {
			world.StartAndSettle(w, def, id, perdure.ID(id))
		}
		world.NoError(t, w.Engine.Cancel(t.Context(), "b", "not needed"))
		world.NoError(t, w.Engine.Suspend(t.Context(), "c", "look at it"))
		time.Sleep(2 * time.Minute) // c gets the slot of a, and stays suspended
		for id, want := range map[string]journal.Status{
			"a": journal.Completed, "b": journal.Cancelled, "c": journal.Suspended,
			"d": journal.Pending,
		} {
			if got := w.Status(id); got != want {
				t.Errorf("%s is %v, want %v", id, got, want)
			}
		}
		w.Crash()
		world.NoError(t, w.Engine.Resume(t.Context(), "c"))
		for _, id := range []string{"c", "d"} {
			if _, err := world.OutcomeOf(w, def, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if g.most[""] != 1 {
			t.Errorf("%d went on at a time", g.most[""])
		}
		noSlots(t, w)
	})
}

// spec: R-32
func TestASuspendedRunThatIsResumedStaysInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := job(g, limit.Control{Concurrency: 1})
		w := world.New(t, def)
		defer w.End()
		for _, id := range []string{"a", "b"} {
			world.StartAndSettle(w, def, id, perdure.ID(id))
		}
		world.NoError(t, w.Engine.Suspend(t.Context(), "b", "look at it"))
		world.NoError(t, w.Engine.Resume(t.Context(), "b"))
		synctest.Wait()
		if got := w.Status("b"); got != journal.Pending {
			t.Errorf("b is %v, but a has the only slot", got)
		}
		if _, err := world.OutcomeOf(w, def, "b"); err != nil {
			t.Error(err)
		}
		if g.most[""] != 1 {
			t.Errorf("%d went on at a time", g.most[""])
		}
		noSlots(t, w)
	})
}

// spec
func TestASuccessorHasTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		def := perdure.Define("turns", func(ctx context.Context, n int) (int, error) {
			ran = append(ran, fmt.Sprint(n))
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			if n%10 < 3 {
				return 0, perdure.ContinueAsNew(ctx, n+1)
			}
			return n, nil
		}, limit.Control{Concurrency: 1, Rate: limit.Rate{Tokens: 1, Per: time.Hour, Burst: 2}})
		w := world.New(t, def)
		defer w.End()
		world.StartAndSettle(w, def, 0, perdure.ID("a"))
		world.StartAndSettle(w, def, 10, perdure.ID("b"))
		for id, want := range map[string]int{"a": 3, "b": 13} {
			if got, err := world.OutcomeOf(w, def, id); err != nil || got != want {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		}
		// the code of a run is called once more after its sleep
		if got := strings.Join(ran, " "); got != "0 0 1 1 2 2 3 3 10 10 11 11 12 12 13 13" {
			t.Errorf("it ran %s", got)
		}
		noSlots(t, w)
	})
}

// spec
func TestABadControlIsRefused(t *testing.T) {
	for _, c := range []limit.Control{
		{}, {Concurrency: -1}, {PerKey: 1}, {PerKey: -1, Key: keyOf}, {Key: keyOf},
		{Rate: limit.Rate{Tokens: 1}}, {Rate: limit.Rate{Per: time.Second}},
		{Rate: limit.Rate{Tokens: -1, Per: time.Second}},
		{Rate: limit.Rate{Tokens: 1, Per: -1}}, {Rate: limit.Rate{Tokens: 1, Per: 1, Burst: -1}},
		{Rate: limit.Rate{Tokens: 1, Per: 1 << 62, Burst: 3}},
		{Concurrency: 1, Name: strings.Repeat("x", 300)}, {Concurrency: 1, Name: "a\x00b"},
		{Singleton: limit.Replace + 1}, {Singleton: limit.Join, Gather: limit.Gather{Within: 1}},
		{Debounce: limit.Debounce{Longest: 1}}, {Debounce: limit.Debounce{Quiet: -1}},
		{Debounce: limit.Debounce{Quiet: 2, Longest: 1}}, {Gather: limit.Gather{Most: 2}},
		{Gather: limit.Gather{Most: 1, Within: 1}}, {Gather: limit.Gather{Most: -1, Within: 1}},
		{Gather: limit.Gather{Most: limit.MostGathered + 1, Within: 1}},
		{Gather: limit.Gather{Within: time.Second}}, // its input is no list
		{Concurrency: 1, Priority: 1, Rank: limit.RankBy(func(string) int { return 1 })},
	} {
		if got := perdure.Check(job(newGauge(), c)); len(got) == 0 {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// spec: R-32
func TestARunWhoseKeyCannotBeComputedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("job", func(context.Context, int) (int, error) { return 0, nil },
			limit.Control{PerKey: 1, Key: limit.By(func(in int) string {
				if in == 1 {
					panic("no key")
				}
				return "k"
			})})
		w := world.New(t, def)
		defer w.End()
		_, err := def.Start(t.Context(), w.Engine, 1)
		world.CodeIs(t, err, journal.CodePanic)
		client, err := perdure.NewClient(t.Context(), w.DB)
		world.NoError(t, err)
		run, err := client.Start(t.Context(), "job", []byte("1"))
		world.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Minute)
		if d := w.Describe(run.RunID()); d.Head.Status != journal.Failed {
			t.Errorf("it is %v", d.Head.Status)
		}
		if _, err := def.Start(t.Context(), w.Engine, 2); err != nil {
			t.Error(err)
		}
	})
}

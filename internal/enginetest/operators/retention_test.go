package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

const day = 24 * time.Hour

// endingAs is a workflow that ends in the way that its input names.
func endingAs(name string, opts ...perdure.WorkflowOption) *perdure.Workflow[string, string] {
	return perdure.Define(name, func(ctx context.Context, how string) (string, error) {
		switch how {
		case "fail":
			return "", world.ErrOdd
		case "cancel":
			return "", perdure.Cancel(ctx, "enough")
		case "time-out":
			return "", perdure.Sleep(ctx, time.Hour)
		case "compensate":
			return "", pattern.End(ctx, journal.Compensated, nil, world.ErrOdd)
		case "stay":
			_, err := world.GoSignal.Wait(ctx)
			return "", err
		case "park":
			return "", perdure.Parking(world.ErrOdd)
		}
		return how, nil
	}, append(opts,
		perdure.Timeout(time.Minute*time.Duration(btoi(!strings.HasPrefix(name, "open")))))...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// left returns the workflow IDs of the runs in the store.
func left(t *testing.T, w *world.World) []string {
	t.Helper()
	heads, _, err := w.Engine.List(context.Background(), perdure.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, h := range heads {
		out = append(out, h.WorkflowID)
	}
	slices.Sort(out)
	return out
}

var hows = []string{"cancel", "compensate", "complete", "fail", "time-out"}

// Runs are kept for the retention of their outcome and workflow, and removed at the next clean-up
// after that.
//
// spec: P-3, R-37
func TestRunsAreKeptAsLongAsIsSaid(t *testing.T) {
	everything := func(d time.Duration) map[string]time.Duration {
		out := map[string]time.Duration{}
		for _, how := range hows {
			out[how] = d
		}
		return out
	}
	byStatus := func(base time.Duration, failed, timedOut time.Duration) map[string]time.Duration {
		out := everything(base)
		out["fail"], out["time-out"] = failed, timedOut
		return out
	}
	differ := map[journal.Status]time.Duration{journal.Failed: 30 * day, journal.TimedOut: -1}
	cases := map[string]struct {
		engine  perdure.Retention
		options []perdure.WorkflowOption
		kept    map[string]time.Duration // below 0: for ever
	}{
		"default":        {perdure.Retention{}, nil, everything(7 * day)},
		"another period": {perdure.Retention{Period: 2 * day}, nil, everything(2 * day)},
		"off":            {perdure.Retention{Period: -1}, nil, everything(-1)},
		"the longest":    {perdure.Retention{Period: math.MaxInt64}, nil, everything(-1)},
		"per outcome": {
			perdure.Retention{Period: 2 * day, ByStatus: differ},
			nil,
			byStatus(2*day, 30*day, -1),
		},
		"off but one": {
			perdure.Retention{
				Period:   -1,
				ByStatus: map[journal.Status]time.Duration{journal.Failed: day},
			},
			nil,
			byStatus(-1, day, -1),
		},
		"of the workflow": {
			perdure.Retention{Period: -1},
			[]perdure.WorkflowOption{perdure.Retention{Period: 3 * day}},
			everything(3 * day),
		},
		"of the workflow, off": {
			perdure.Retention{Period: time.Hour},
			[]perdure.WorkflowOption{perdure.Retention{Period: -1}},
			everything(-1),
		},
		"of the workflow, per outcome": {
			perdure.Retention{Period: -1}, []perdure.WorkflowOption{
				perdure.Retention{ByStatus: differ},
			}, byStatus(7*day, 30*day, -1),
		},
	}
	most := len(cases)
	if testing.Short() {
		most = 3 // each time other ones
	}
	for name, c := range cases {
		if most--; most < 0 {
			break
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := endingAs("w", c.options...)
				w := world.With(t, perdure.Options{Retention: c.engine, Sweep: 10 * time.Minute},
					wf,
					endingAs("open"))
				defer func() { w.End() }()
				for _, how := range hows {
					world.StartAndSettle(w, wf, how, perdure.ID(how), perdure.Dedup(0))
				}
				for _, how := range []string{"stay", "park"} {
					if _, err := w.Engine.Start(context.Background(), "open",
						[]byte(fmt.Sprintf("%q", how)),
						perdure.ID(how)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Minute)
				if got := left(t, w); len(got) != 7 {
					t.Fatalf("at first: %v", got)
				}
				gone := map[string]time.Duration{}
				began := time.Now()
				for range 24 * 40 { // hours
					time.Sleep(time.Hour)
					there := left(t, w)
					for _, how := range hows {
						if gone[how] == 0 && !slices.Contains(there, how) {
							gone[how] = time.Since(began)
						}
					}
				}
				for _, how := range hows {
					switch kept, at := c.kept[how], gone[how]; {
					case kept < 0 && at != 0, kept >= 0 && at == 0:
						t.Errorf("%s: gone after %v, want %v", how, at, kept)
					case kept >= 0 && (at+2*time.Minute < kept || at > kept+2*time.Hour):
						t.Errorf("%s: gone after %v, want %v", how, at, kept)
					}
				}
				if got := left(t, w); !slices.Contains(got, "stay") ||
					!slices.Contains(got, "park") {
					t.Errorf("an open run is gone: %v", got)
				}
			})
		})
	}
}

// Purge removes as many runs as asked for, in one call however many there are, and never one that
// is open, or that keeps its workflow ID.
//
// spec: P-3, R-37, R-27
func TestPurgeByHand(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		o.CleanUp, o.Retention = -1, perdure.Retention{Period: time.Hour}
		wf, open := endingAs("w"), endingAs("open")
		w := world.With(t, o, wf, open)
		defer func() { w.End() }()
		const n = 350
		for i := range n {
			world.StartAndSettle(w, wf, "complete", perdure.ID(fmt.Sprint("free", i)),
				perdure.Dedup(0))
		}
		world.StartAndSettle(w, wf, "complete") // under an ID of its own
		world.StartAndSettle(w, wf, "complete", perdure.ID("stands"))
		world.StartAndSettle(w, wf, "complete", perdure.ID("stands-longer"), perdure.Dedup(10*day))
		world.StartAndSettle(w, open, "stay", perdure.ID("stay"))
		world.StartAndSettle(w, open, "park", perdure.ID("park"))
		purge := func(want int) {
			t.Helper()
			if runs, signals, err := w.Engine.Purge(context.Background()); runs != want ||
				signals != 0 ||
				err != nil {
				t.Errorf("%d runs, %d signals, %v; want %d", runs, signals, err, want)
			}
		}
		purge(0)
		time.Sleep(59 * time.Minute)
		purge(0)
		time.Sleep(time.Minute + 1)
		purge(n + 1)
		purge(0)
		time.Sleep(day)
		if got := left(t, w); !slices.Equal(got, []string{
			"park", "stands", "stands-longer", "stay",
		}) {
			t.Errorf("left: %v", got)
		}
		purge(1)
		again := world.StartAndSettle(w, wf, "complete", perdure.ID("stands-longer"),
			perdure.Dedup(10*day))
		if again.New() {
			t.Error("the run that stands for the ID was not found")
		}
		time.Sleep(20 * day)
		purge(1)
		if got := left(t, w); !slices.Equal(got, []string{"park", "stay"}) {
			t.Errorf("left: %v", got)
		}
		if again = world.StartAndSettle(w, wf, "complete",
			perdure.ID("stands-longer")); !again.New() {
			t.Error("a removed run stands for an ID")
		}
	})
}

// The clean-up comes at its interval, or never.
//
// spec: P-3
func TestCleanUpInterval(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{
		0:                time.Hour,
		10 * time.Minute: 10 * time.Minute,
		5 * time.Hour:    5 * time.Hour,
		-1:               0,
	} {
		synctest.Test(t, func(t *testing.T) {
			wf := endingAs("w")
			var calls *storetest.Faulty // counts them
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
			w.Options = perdure.Options{CleanUp: every, Retention: perdure.Retention{Period: 1},
				Build: "test"}
			w.Wrap = func(s store.Store) store.Store {
				calls = storetest.NewFaulty(s)
				return calls
			}
			w.Begin()
			defer w.End()
			world.StartAndSettle(w, wf, "complete", perdure.Dedup(0))
			for _, at := range []time.Duration{want - 1, 2} {
				if want == 0 {
					break
				}
				time.Sleep(at)
				synctest.Wait()
				if n := len(left(t, w)); n == 1 != (at == want-1) {
					t.Errorf("every %v: %d runs are there", every, n)
				}
			}
			time.Sleep(10 * time.Hour)
			if n := calls.Calls(storetest.Purge); want == 0 && n > 0 ||
				want > 0 && n > int((10*time.Hour+want)/want) || want > 0 && n == 0 {
				t.Errorf("every %v: %d purges in ten hours", every, n)
			}
		})
	}
}

// While the store does not answer, nothing is removed and nothing is lost; the
// next clean-up goes on.
//
// spec: P-3
func TestCleanUpOverFailures(t *testing.T) {
	for _, fault := range []storetest.Fault{
		storetest.FailBefore, storetest.FailAfter, storetest.CrashBefore, storetest.CrashAfter,
	} {
		synctest.Test(t, func(t *testing.T) {
			wf := endingAs("w")
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
			w.Options = perdure.Options{Retention: perdure.Retention{Period: 1}, Build: "test"}
			w.Wrap = func(s store.Store) store.Store {
				return storetest.NewFaulty(s, storetest.Plan{
					Method: storetest.Purge, Call: 2, Fault: fault,
				})
			}
			w.Begin()
			defer func() { w.End() }()
			const n = 250
			for range n {
				world.StartAndSettle(w, wf, "complete", perdure.Dedup(0))
			}
			time.Sleep(time.Hour + time.Minute)
			if fault >= storetest.CrashBefore {
				w.Wrap = nil
				w.Crash()
			}
			if got := len(left(t, w)); got == n || got == 0 {
				t.Errorf("fault %d: %d runs are there", fault, got)
			}
			time.Sleep(time.Hour + time.Minute)
			if got := len(left(t, w)); got != 0 {
				t.Errorf("fault %d: %d runs are there at last", fault, got)
			}
		})
	}
}

// The error for the ID of a removed run states that it was removed; that for an ID that never
// existed states that.
//
// spec: P-3
func TestRemovedRunIsSaidToBeRemoved(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		o.Retention = perdure.Retention{Period: time.Hour}
		child := endingAs("child")
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
			c := child.Child(ctx, "complete", perdure.ID("kid"), perdure.Dedup(0))
			out, err := c.Await(ctx)
			if err != nil {
				return "", err
			}
			_, err = world.GoSignal.Wait(ctx)
			return out, err
		})
		chain := perdure.Define("chain", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return 0, perdure.ContinueAsNew(ctx, 1)
			}
			return world.GoSignal.Wait(ctx)
		})
		w := world.With(t, o, child, parent, chain)
		defer func() { w.End() }()
		p := world.StartAndSettle(w, parent, 0, perdure.ID("p"))
		c := world.StartAndSettle(w, chain, 0, perdure.ID("c"), perdure.Dedup(0))
		kids, _, err := w.Engine.List(context.Background(), perdure.Query{Parent: p.RunID()})
		if err != nil || len(kids) != 1 || kids[0].Status != journal.Completed {
			t.Fatal(kids, err)
		}
		time.Sleep(3 * time.Hour)
		removed := func(err error) {
			t.Helper()
			world.CodeIs(t, err, journal.CodeNotFound)
			if err != nil && !strings.Contains(err.Error(), "not here any more") {
				t.Errorf("it says %q", err)
			}
		}
		kid := string(kids[0].ID)
		_, err = w.Engine.Describe(context.Background(), kid)
		removed(err)
		_, err = w.Engine.Get(context.Background(), kid)
		removed(err)
		_, err = w.Engine.History(context.Background(), kid, 0, 0)
		removed(err)
		_, _, err = w.Engine.List(context.Background(), perdure.Query{Parent: string(kids[0].ID)})
		removed(err)
		removed(w.Engine.Cancel(context.Background(), kid, ""))
		removed(w.Engine.Resume(context.Background(), kid))
		_, err = w.Engine.Describe(context.Background(), "kid")
		if world.CodeIs(t, err, journal.CodeNotFound); err != nil &&
			strings.Contains(err.Error(), "any more") {
			t.Errorf("a workflow ID is said to be removed: %v", err)
		}
		if d := w.Describe("p"); d.Head.Status != journal.Waiting {
			t.Errorf("the parent is %v", d.Head.Status)
		}
		if d := w.Describe("c"); string(d.State.Predecessor) != c.RunID() ||
			d.Head.Status != journal.Waiting {
			t.Errorf("the successor is %v and follows %v", d.Head.Status, d.State.Predecessor)
		}
		statuses, err := w.Engine.Statuses(context.Background(), kid, "p", "kid")
		if err != nil || statuses[0].Found || !statuses[1].Found || statuses[2].Found {
			t.Errorf("%+v %v", statuses, err)
		}
		w.Crash()
		for _, id := range []string{"p", "c"} {
			if _, err := world.GoSignal.Send(context.Background(), w.Engine, id, 1); err != nil {
				t.Error(err)
			}
		}
		if out, err := world.OutcomeOf(w, parent, "p"); out != "complete" || err != nil {
			t.Error(out, err)
		}
		if out, err := world.OutcomeOf(w, chain, "c"); out != 1 || err != nil {
			t.Error(out, err)
		}
	})
}

// A payload above the threshold is in rows of its own, which workflow code and readers do not
// notice, and which are removed with the run; payloads that another run shares stay.
//
// spec: R-14
func TestLargePayloads(t *testing.T) {
	const over = 1000
	large := strings.Repeat("x", 5*over)
	for _, driver := range []string{"memory", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			if testing.Short() && driver == "sqlite" {
				t.Skip("it is the same in memory")
			}
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				letter := perdure.NewSignal[string]("letter")
				child := perdure.Define("child", func(ctx context.Context, in string) (string,
					error) {
					return in + "!", nil
				})
				wf := perdure.Define("w", func(ctx context.Context, in string) (string, error) {
					s, err := perdure.Step(ctx, "s", func(context.Context) (string, error) {
						return in + "s", nil
					})
					if err != nil {
						return "", err
					}
					v, err := perdure.SideEffect(ctx, "v", func() (string, error) {
						return in + "v", nil
					})
					if err != nil {
						return "", err
					}
					if err := perdure.SetPayload(ctx, in+"p"); err != nil {
						return "", err
					}
					if err := perdure.Publish(ctx, "shown", in+"q"); err != nil {
						return "", err
					}
					kid := child.Child(ctx, in, perdure.ID("kid"), perdure.Dedup(0))
					m, err := letter.Wait(ctx)
					if err != nil {
						return "", err
					}
					if err := perdure.Sleep(ctx, 10*time.Hour); err != nil {
						return "", err
					}
					k, err := kid.Await(ctx) // the child was removed long ago
					return s + v + m + k, err
				})
				o.SpillOver, o.Retention, o.Build = over, perdure.Retention{Period: time.Hour},
					"test"
				w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{
					wf, child,
				},
					Options: o}
				rows := spilling{}
				var below store.Store
				if driver == "sqlite" {
					s, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "x.db"),
						sqlite.Options{Exclusive: true})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					below = s
				}
				w.Wrap = func(s store.Store) store.Store {
					if below != nil {
						s = below
					}
					rows.Store = s
					return &rows
				}
				w.Begin()
				defer func() { w.End() }()
				world.StartAndSettle(w, wf, large, perdure.ID("x"), perdure.Dedup(0))
				if _, err := letter.Send(context.Background(), w.Engine, "x", large+
					"m"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Hour)
				d := w.Describe("x")
				var p, q string
				if json.Unmarshal(d.State.Payload, &p) != nil ||
					json.Unmarshal(d.State.Published["shown"].Data, &q) != nil || p != large+"p" ||
					q != large+"q" {
					t.Errorf("shown: %d and %d bytes", len(p), len(q))
				}
				if got := left(t, w); !slices.Equal(got, []string{"x"}) {
					t.Errorf("left: %v", got)
				}
				out, err := world.OutcomeOf(w, wf, "x")
				if want := large + "s" + large + "v" + large + "m" + large + "!"; err != nil ||
					out != want {
					t.Errorf("the output has %d bytes, not %d: %v", len(out), len(want), err)
				}
				if rows.largest.Load() > over || rows.spilled.Load() < 8 {
					t.Errorf("a row has %d bytes, %d payloads had rows of their own",
						rows.largest.Load(), rows.spilled.Load())
				}
				time.Sleep(3 * time.Hour)
				if got := left(t, w); len(got) > 0 {
					t.Errorf("left: %v", got)
				}
			})
		})
	}
}

// A spilling store observes what goes into rows of the journal, and what beside them.
type spilling struct {
	store.Store
	largest, spilled atomic.Int64
}

func (s *spilling) Commit(ctx context.Context, g *store.Group) error {
	for _, c := range g.Changes {
		for _, e := range c.Entries {
			if e.Spill == 0 {
				s.largest.Store(max(s.largest.Load(), int64(len(e.Data))))
			}
		}
	}
	return s.Store.Commit(ctx, g)
}

func (s *spilling) Spill(ctx context.Context, e journal.EngineID, id journal.Number,
	data []byte) error {
	s.spilled.Add(1)
	return s.Store.Spill(ctx, e, id, data)
}

// Removed rows leave nothing in the file: its pages are used again.
//
// spec: R-14, P-3
func TestRemovedPayloadsGiveTheirRoomBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a database")
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "x.db"),
			sqlite.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wf := perdure.Define("w", func(ctx context.Context, in string) (int, error) {
			return len(in), nil
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options = perdure.Options{Retention: perdure.Retention{Period: time.Hour}, CleanUp: -1,
			Build: "test"}
		w.Wrap = func(store.Store) store.Store { return s }
		w.Begin()
		defer func() { w.End() }()
		var sizes []int64
		for range 8 {
			for range 20 {
				world.StartAndSettle(w, wf, strings.Repeat("x", 200_000), perdure.Dedup(0))
			}
			info, err := s.Info(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, info.Bytes)
			time.Sleep(2 * time.Hour)
			if n, _, err := w.Engine.Purge(context.Background()); n != 20 || err != nil {
				t.Errorf("%d removed, %v", n, err)
			}
		}
		if sizes[7] > sizes[3]*5/4 { // by when the log has its size
			t.Errorf("the file grows: %v", sizes)
		}
	})
}

// Unrouted signals that have expired go with the clean-up, and are counted.
//
// spec: P-3
func TestExpiredSignalsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{KeepUnrouted: time.Hour, CleanUp: -1}, endingAs("w"))
		defer w.End()
		for i := range 3 {
			if _, err := world.GoSignal.Send(context.Background(), w.Engine,
				fmt.Sprint("nobody", i),
				i); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Minute)
		}
		counts := map[int]int{}
		for range 5 {
			runs, signals, err := w.Engine.Purge(context.Background())
			if err != nil || runs != 0 {
				t.Fatal(runs, err)
			}
			counts[signals]++
			time.Sleep(25 * time.Minute)
		}
		if !maps.Equal(counts, map[int]int{1: 3, 0: 2}) {
			t.Errorf("removed: %v", counts)
		}
	})
}

package waiting

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// sleeps are ways to wait for a time, and how long each takes.
var sleeps = map[string]struct {
	takes time.Duration
	code  func(context.Context) error
}{
	"no time": {0, func(ctx context.Context) error { return perdure.Sleep(ctx, 0) }},
	"negative": {
		0,
		func(ctx context.Context) error { return perdure.Sleep(ctx, -time.Hour) },
	},
	"least negative": {
		0,
		func(ctx context.Context) error { return perdure.Sleep(ctx, math.MinInt64) },
	},
	"a nanosecond": {1, func(ctx context.Context) error { return perdure.Sleep(ctx, 1) }},
	"less than the idle timeout": {
		time.Second - 1,
		func(ctx context.Context) error { return perdure.Sleep(ctx, time.Second-1) },
	},
	"idle": {
		time.Second,
		func(ctx context.Context) error { return perdure.Sleep(ctx, time.Second) },
	},
	"more than the idle timeout": {
		time.Second + 1,
		func(ctx context.Context) error { return perdure.Sleep(ctx, time.Second+1) },
	},
	"long": {10 * 24 * time.Hour, func(ctx context.Context) error {
		return perdure.Sleep(ctx, 10*24*time.Hour)
	}},
	"past instant": {0, func(ctx context.Context) error {
		return perdure.SleepUntil(ctx, time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))
	}},
	"year one": {0, func(ctx context.Context) error {
		return perdure.SleepUntil(ctx, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC))
	}},
	"future instant": {77 * time.Minute, func(ctx context.Context) error {
		return until(ctx, 77*time.Minute)
	}},
	"timer": {77 * time.Minute, func(ctx context.Context) error {
		_, err := perdure.Timer(ctx, "t", 77*time.Minute).Await(ctx)
		return err
	}},
	"timer that is over": {0, func(ctx context.Context) error {
		_, err := perdure.Timer(ctx, "t", -1).Await(ctx)
		return err
	}},
	"branches, the longer one first": {3 * time.Hour, func(ctx context.Context) error {
		a := perdure.Go(ctx, "a", func(ctx context.Context) (int, error) {
			return 0, perdure.Sleep(ctx, 3*time.Hour)
		})
		b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		_, err := b.Await(ctx)
		_, err2 := a.Await(ctx)
		return errors.Join(err, err2)
	}},
	"one after the other": {3 * time.Hour, func(ctx context.Context) error {
		return errors.Join(perdure.Sleep(ctx, time.Hour), perdure.Sleep(ctx, 2*time.Hour))
	}},
}

// until waits until that long after the run came here first.
func until(ctx context.Context, d time.Duration) error {
	now, err := perdure.Now(ctx)
	if err != nil {
		return err
	}
	return perdure.SleepUntil(ctx, now.Add(d))
}

// A sleep takes exactly as long as asked for, also over a crash in the middle; if the time passes
// while no engine is there, it ends as soon as one is.
//
// spec: L-7, R-13, R-12
func TestSleepTakesAsLongAsItSays(t *testing.T) {
	for name, s := range sleeps {
		t.Run(name, func(t *testing.T) {
			// below 0: no crash
			for _, down := range []time.Duration{-1, 0, s.takes / 4, 2 * s.takes} {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					wf := world.Timed("w", s.code)
					w := world.With(t, o, wf)
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, 0, perdure.ID("x"))
					if down >= 0 {
						time.Sleep(s.takes / 2)
						w.Kill()
						time.Sleep(down)
						w.Begin()
					}
					got, err := world.OutcomeOf(w, wf, "x")
					want := s.takes
					if down >= 0 && s.takes > 0 {
						want = max(want, s.takes/2+down)
					}
					if name == "one after the other" && down > s.takes/2 {
						want = s.takes/2 + down // the second had begun when the process died
					}
					if err != nil || got.Took() != want {
						t.Errorf("down for %v: it took %v, want %v (%v)", down, got.Took(), want,
							err)
					}
					w.History("x")
				})
			}
		})
	}
}

// Each store call of a run that sleeps meets a fault; it is never early, and its journal is
// consistent.
//
// spec: L-7
func TestSleepIsNeverEarlyWhateverFails(t *testing.T) {
	code := func(ctx context.Context) error {
		timer := perdure.Timer(ctx, "t", 90*time.Minute)
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		if _, err := perdure.Step(ctx, "s", world.Work("s", time.Second, nil)); err != nil {
			return err
		}
		_, err := timer.Await(ctx)
		return err
	}
	for _, fault := range []storetest.Fault{
		storetest.FailBefore, storetest.FailAfter, storetest.CrashBefore, storetest.CrashAfter,
	} {
		for _, idle := range []time.Duration{-1, 0} {
			t.Run(fmt.Sprintf("fault %d/idle %v", fault, idle), func(t *testing.T) {
				t.Parallel()
				reached := 0
				for more := true; more && !t.Failed(); {
					synctest.Test(t, func(t *testing.T) {
						more = sleepThrough(t, world.Timed("w", code), idle,
							storetest.Plan{Call: reached + 1, Fault: fault})
					})
					if more {
						reached++
					}
				}
				if reached < 8 {
					t.Errorf("only %d faults were injected", reached)
				}
			})
		}
	}
}

// sleepThrough executes a run of 90 minutes with a fault. It returns false if the plan was not
// reached.
func sleepThrough(
	t *testing.T, wf *perdure.Workflow[int, world.Span], idle time.Duration, plan storetest.Plan,
) bool {
	t.Helper()
	var faulty *storetest.Faulty
	w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf},
		Options: perdure.Options{IdleTimeout: idle, Build: "test", Sweep: 10 * time.Minute}}
	w.Wrap = func(below store.Store) store.Store {
		faulty = storetest.NewFaulty(below, plan)
		return faulty
	}
	w.Begin()
	first := faulty
	w.Wrap = nil
	crashed, started := false, false
	for range 200 { // more than the run takes
		if died := plan.Fault >= storetest.CrashBefore && len(first.Injected()) > 0; !crashed &&
			(died || w.Stopped()) {
			crashed = true
			w.Crash()
		}
		if !started {
			_, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
			started = err == nil
		}
		time.Sleep(time.Minute)
	}
	w.Crash() // what is left is read through a store that does not fail
	defer w.End()
	got, err := world.OutcomeOf(w, wf, "x")
	if late := got.Took() - 90*time.Minute; err != nil || late < 0 || late > 2*time.Minute {
		t.Errorf("%+v: it took %v (%v)", plan, got.Took(), err)
	}
	fired := map[journal.Op]int{}
	for _, e := range w.History("x") {
		if e.Kind == journal.TimerFired {
			fired[e.Op]++
		}
	}
	for op, n := range fired {
		if n != 1 {
			t.Errorf("%+v: timer %v fired %d times", plan, op, n)
		}
	}
	if len(fired) != 2 {
		t.Errorf("%+v: fired %v", plan, fired)
	}
	return len(first.Injected()) > 0
}

// Timers that are due at one instant fire in the order in which they were set, and those that came
// due while no engine was there by their times; the journal and every replay have that order.
//
// spec: L-15
func TestTimersFireInTheOrderOfTheirTimes(t *testing.T) {
	const n = 20
	for name, c := range map[string]struct {
		due  func(i int) time.Duration
		want func(i int) int // the i-th to fire
	}{
		"one instant": {
			func(int) time.Duration { return 500 * time.Millisecond },
			func(i int) int { return i },
		},
		"one distant instant": {func(int) time.Duration { return time.Hour }, func(i int) int {
			return i
		}},
		"the last one first": {
			func(i int) time.Duration { return time.Duration(n-i) * time.Minute },
			func(i int) int { return n - 1 - i },
		},
		"past ones as is said": {func(int) time.Duration { return 0 }, func(i int) int {
			return i
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, crash := range []bool{false, true} {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
						var order []int
						var fs []*perdure.Future[int]
						for i := range n {
							fs = append(fs, perdure.Go(ctx, fmt.Sprint("b", i),
								func(ctx context.Context) (int, error) {
									err := perdure.Sleep(ctx, c.due(i))
									order = append(order, i)
									return i, err
								}))
						}
						if all, err := perdure.All(ctx, nil, fs...); err != nil || !all {
							return nil, err
						}
						return order, perdure.Sleep(ctx, time.Hour)
					})
					w := world.With(t, o, wf)
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, 0, perdure.ID("x"))
					if crash {
						w.Kill()
						time.Sleep(2 * time.Hour)
						w.Begin()
					}
					time.Sleep(90 * time.Minute)
					w.Crash()
					got, err := world.OutcomeOf(w, wf, "x")
					want := make([]int, n)
					for i := range want {
						want[i] = c.want(i)
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("crash %v: fired %v (%v)", crash, got, err)
					}
					w.History("x")
				})
			}
		})
	}
}

// A time that no calendar of the store can express is far away, not near: the run waits, its engine
// does not spin, and an operator can end it.
//
// spec: L-7, B-6
func TestFarFuture(t *testing.T) {
	farthest := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	waits := map[string]func(context.Context) error{
		"sleep": func(ctx context.Context) error { return perdure.Sleep(ctx, math.MaxInt64) },
		"until": func(ctx context.Context) error { return perdure.SleepUntil(ctx, farthest) },
		"timer": func(ctx context.Context) error {
			_, err := perdure.TimerUntil(ctx, "t", farthest).Await(ctx)
			return err
		},
	}
	for name, wait := range waits {
		for _, driver := range []string{"memory", "sqlite"} {
			t.Run(name+"/"+driver, func(t *testing.T) {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					wf := world.Timed("w", wait, perdure.Timeout(math.MaxInt64))
					o.Build = "test"
					w := &world.World{
						T:         t,
						DB:        memory.New(),
						Workflows: []perdure.Definition{wf},
						Options:   o,
					}
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
					var calls *storetest.Faulty // counts them
					w.Wrap = func(s store.Store) store.Store {
						if below == nil {
							below = s
						}
						calls = storetest.NewFaulty(below)
						return calls
					}
					w.Begin()
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, 0, perdure.ID("x"))
					before := calls.Calls(storetest.Any)
					time.Sleep(time.Hour)
					if n := calls.Calls(storetest.Any) - before; n > 600 {
						t.Errorf("%d calls of the store in an hour", n)
					}
					if d := w.Describe("x"); d.Head.Status != journal.Waiting {
						t.Errorf("%v %s", d.Head.Status, d.Why)
					}
					if err := w.Engine.Cancel(context.Background(), "x", "enough"); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A time that a journal cannot express is refused by the call.
func TestTimeThatCannotBeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for _, at := range []time.Time{
				{},
				time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
				time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
			} {
				world.CodeIs(t, perdure.SleepUntil(ctx, at), journal.CodeInvalid)
				_, err := perdure.TimerUntil(ctx, "t", at).Await(ctx)
				world.CodeIs(t, err, journal.CodeInvalid)
			}
			_, err := perdure.Timer(ctx, "not a name", time.Hour).Await(ctx)
			world.CodeIs(t, err, journal.CodeInvalid)
			_, err = perdure.Timer(ctx, "t", time.Hour, nil).Await(ctx)
			world.CodeIs(t, err, journal.CodeInvalid)
			world.CodeIs(t, perdure.Sleep(ctx, time.Hour, perdure.Key("")), journal.CodeInvalid)
			return 7, nil
		})
		w := world.New(t, wf)
		defer w.End()
		if _, out, err := world.Result(w, wf, 0, perdure.ID("x")); out != 7 || err != nil {
			t.Error(out, err)
		}
		if n := len(w.History("x")); n != 2 {
			t.Errorf("%d entries: what was refused was recorded", n)
		}
		world.CodeIs(t, perdure.Sleep(context.Background(), time.Hour), journal.CodeMisuse)
	})
}

// The result of a timer is the time for which it was set, in UTC, live and on replay.
func TestTimerGivesItsTime(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		zone := time.FixedZone("far east", 9*3600)
		at := time.Date(2000, 1, 1, 12, 0, 0, 5, zone)
		var mu sync.Mutex
		seen := map[string]bool{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for _, f := range []*perdure.Future[time.Time]{
				perdure.TimerUntil(ctx, "at", at), perdure.Timer(ctx, "for", 3*time.Hour+5),
			} {
				v, err := f.Await(ctx)
				if err != nil {
					return 0, err
				}
				mu.Lock()
				seen[v.String()] = true
				mu.Unlock()
			}
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		w := world.With(t, o, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		time.Sleep(3*time.Hour + time.Minute)
		w.Crash()
		if _, err := world.OutcomeOf(w, wf, "x"); err != nil {
			t.Error(err)
		}
		if len(seen) != 1 || !seen[at.UTC().String()] {
			t.Errorf("it gave %v, want %v", seen, at.UTC())
		}
	})
}

// cancelling is a workflow with a timer in a scope and one of its own, which returns what happened
// to them.
func cancelling(ctx context.Context, _ int) (string, error) {
	inner, err := perdure.Scope(ctx, "order", perdure.Key("k"))
	if err != nil {
		return "", err
	}
	fs := []*perdure.Future[time.Time]{
		perdure.Timer(inner, "remind", time.Hour), perdure.Timer(ctx, "remind", 2*time.Hour,
			perdure.Key("late")), perdure.Timer(ctx, "limit", 3*time.Hour),
	}
	var out []string
	for f, err := range perdure.AsCompleted(ctx, fs...) {
		if err != nil {
			return "", err
		}
		now, err := perdure.Now(ctx)
		if err != nil {
			return "", err
		}
		state, _, _ := f.State()
		out = append(out, fmt.Sprint(slices.Index(fs, f), state, now.Format(" 15:04")))
	}
	return strings.Join(out, ", "), perdure.Sleep(ctx, time.Hour)
}

// A timer is cancelled from outside by its path, whether the run is in memory or not; a cancel of
// one that does not exist has no effect.
//
// spec: L-11
func TestTimerIsCancelledFromOutside(t *testing.T) {
	for name, c := range map[string]struct {
		cancel []string
		want   string
	}{
		"none":        {nil, "0DONE 01:00, 1DONE 02:00, 2DONE 03:00"},
		"of a scope":  {[]string{"order[k]/remind"}, "0CANCELLED 00:30, 1DONE 02:00, 2DONE 03:00"},
		"with a key":  {[]string{"remind[late]"}, "1CANCELLED 00:30, 0DONE 01:00, 2DONE 03:00"},
		"by its name": {[]string{"limit"}, "2CANCELLED 00:30, 0DONE 01:00, 1DONE 02:00"},
		"all": {
			[]string{"limit", "remind[late]", "order[k]/remind"},
			"2CANCELLED 00:30, 1CANCELLED 00:30, 0CANCELLED 00:30",
		},
		"twice": {[]string{"limit", "limit"}, "2CANCELLED 00:30, 0DONE 01:00, 1DONE 02:00"},
		"absent ones": {
			[]string{"remind", "order", "nothing", "order[k]/limit"},
			"0DONE 01:00, 1DONE 02:00, 2DONE 03:00",
		},
	} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/down=%v", name, down), func(t *testing.T) {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					wf := perdure.Define("w", cancelling)
					w := world.With(t, o, wf)
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, 0, perdure.ID("x"))
					paths := []string{}
					for _, wait := range w.Describe("x").State.Waits {
						paths = append(paths, wait.Path)
					}
					if want := []string{
						"order[k]/remind", "remind[late]", "limit",
					}; !slices.Equal(paths, want) {
						t.Fatalf("open timers %v, want %v", paths, want)
					}
					time.Sleep(30 * time.Minute)
					client := w.Engine.Client
					if down {
						w.Kill()
						var err error
						if client, err = perdure.NewClient(context.Background(), w.DB); err != nil {
							t.Fatal(err)
						}
					}
					for _, path := range c.cancel {
						if err := client.CancelTimer(context.Background(), "x", path,
							"not wanted"); err != nil {
							t.Error(err)
						}
						synctest.Wait()
					}
					if down {
						w.Begin()
					}
					got, err := world.OutcomeOf(w, wf, "x")
					if err != nil || got != c.want {
						t.Errorf("got %q, want %q (%v)", got, c.want, err)
					}
					if d := w.Describe("x"); len(d.Unread) > 0 {
						t.Errorf("unread: %v", d.Unread)
					}
					w.History("x")
					run := string(w.Describe("x").Head.ID)
					world.CodeIs(t, w.Engine.CancelTimer(context.Background(), run, "limit", ""),
						journal.CodeWrongState)
					world.CodeIs(t, w.Engine.CancelTimer(context.Background(), "x", "limit", ""),
						journal.CodeNotFound)
				})
			})
		}
	}
}

// Of a cancellation and the time of a timer at one instant one wins, and whoever
// cancels, whoever awaits and the journal agree on which.
//
// spec: L-11
func TestCancelAndFireAgree(t *testing.T) {
	for early := -1; early <= 1; early++ {
		world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				f := perdure.Timer(ctx, "t", time.Hour)
				if err := perdure.Sleep(ctx, time.Hour-time.Duration(early)); err != nil {
					return "", err
				}
				won, err := f.Cancel(ctx, "late")
				if err != nil {
					return "", err
				}
				_, err = f.Await(ctx)
				return fmt.Sprint(won, " ", errors.Is(err, &perdure.Error{
					Code: journal.CodeCancelled,
				})), perdure.Sleep(ctx, time.Hour)
			})
			w := world.With(t, o, wf)
			defer func() { w.End() }()
			world.StartAndSettle(w, wf, 0, perdure.ID("x"))
			time.Sleep(90 * time.Minute)
			w.Crash()
			got, err := world.OutcomeOf(w, wf, "x")
			var ends []journal.Kind
			for _, e := range w.History("x") {
				if e.Op.Name == "t" && (e.Kind == journal.TimerFired ||
					e.Kind == journal.TimerCancelled) {
					ends = append(ends, e.Kind)
				}
			}
			want := map[string]journal.Kind{
				"true true":   journal.TimerCancelled,
				"false false": journal.TimerFired,
			}[got]
			if err != nil || want == 0 || !slices.Equal(ends, []journal.Kind{want}) {
				t.Errorf("%d ns early: %q %v %v", early, got, ends, err)
			}
			if early == 1 && want != journal.TimerCancelled ||
				early == -1 && want != journal.TimerFired {
				t.Errorf("%d ns early: %v", early, ends)
			}
		})
	}
}

// spec: B-7, R-12
func TestOpenTimersAreListed(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			f := perdure.Timer(ctx, "limit", 3*time.Hour)
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
			_, err := f.Await(ctx)
			return 0, err
		})
		w := world.With(t, o, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		began := time.Now()
		check := func(want ...journal.Wait) {
			t.Helper()
			d := w.Describe("x")
			if d.Head.Status != journal.Waiting || len(d.State.Waits) != len(want) {
				t.Fatalf("%v, waits %+v", d.Head.Status, d.State.Waits)
			}
			for i, wait := range d.State.Waits {
				if wait.Path != want[i].Path || !wait.Due.Equal(want[i].Due) ||
					wait.Kind != journal.WaitTimer || !wait.Since.Equal(began) {
					t.Errorf("wait %+v, want %+v", wait, want[i])
				}
			}
			if due := want[0].Due.UTC().Format(time.RFC3339); !strings.Contains(d.Why,
				want[0].Path) || !strings.Contains(d.Why, due) {
				t.Errorf("why: %q", d.Why)
			}
		}
		limit, sleep := journal.Wait{Path: "limit", Due: began.Add(3 * time.Hour)},
			journal.Wait{Path: "sleep", Due: began.Add(time.Hour)}
		check(limit, sleep)
		w.Crash()
		check(limit, sleep)
		time.Sleep(2 * time.Hour)
		check(limit)
		time.Sleep(2 * time.Hour)
		if d := w.Describe("x"); len(d.State.Waits) > 0 || d.Why != "" ||
			d.Head.Status != journal.Completed {
			t.Errorf("%v %q %v", d.Head.Status, d.Why, d.State.Waits)
		}
	})
}

// A context that the workflow has made ends a sleep early, which is recorded. Such a run stays in
// memory, because only there the end of the context is noticed.
//
// spec: L-7
func TestContextOfTheAuthorEndsASleep(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		var begun atomic.Int32
		wf := world.Timed("w", func(ctx context.Context) error {
			begun.Add(1)
			limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			err := perdure.Sleep(limited, time.Hour)
			if !errors.Is(err, context.DeadlineExceeded) ||
				journal.CodeOf(err) != journal.CodeTimedOut {
				return fmt.Errorf("sleep: %w", err)
			}
			return perdure.Sleep(ctx, 20*time.Minute)
		})
		w := world.With(t, o, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		time.Sleep(9 * time.Minute)
		if n := begun.Load(); n != 1 {
			t.Errorf("the code was begun %d times while the context lasted", n)
		}
		time.Sleep(6 * time.Minute)
		w.Crash()
		got, err := world.OutcomeOf(w, wf, "x")
		if err != nil || got.Took() != 30*time.Minute {
			t.Errorf("%v %v", got.Took(), err)
		}
		if n := begun.Load(); n < 2 {
			t.Error("it was never replayed")
		}
		w.History("x")
	})
}

// A sleep ends with its run, in memory or not, and its timer does nothing any
// more.
//
// spec: L-10, L-7
func TestSleepEndsWithItsRun(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
			var got atomic.Value
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				asked := ctx
				if pinned {
					c, cancel := context.WithCancel(ctx)
					defer cancel()
					asked = c
				}
				err := perdure.Sleep(asked, time.Hour)
				if !pattern.Leaving(ctx) {
					got.Store(err)
				}
				return 0, err
			})
			w := world.With(t, o, wf)
			defer func() { w.End() }()
			world.StartAndSettle(w, wf, 0, perdure.ID("x"))
			time.Sleep(30 * time.Minute)
			if err := w.Engine.Cancel(context.Background(), "x", "enough"); err != nil {
				t.Fatal(err)
			}
			_, err := world.OutcomeOf(w, wf, "x")
			world.CodeIs(t, err, journal.CodeCancelled)
			n := len(w.History("x"))
			time.Sleep(2 * time.Hour)
			if len(w.History("x")) != n {
				t.Error("the run was written after its end")
			}
			if err, ok := got.Load().(error); pinned &&
				(!ok || journal.CodeOf(err) != journal.CodeCancelled) {
				t.Errorf("the sleep gave %v", err)
			}
		})
	}
}

// The pause before a step's next attempt is a wait like another: the run leaves
// memory, the attempt comes at its time, and a crash changes neither.
//
// spec: L-7, L-4, R-12
func TestRunRestsUntilTheNextAttempt(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				var begun atomic.Int32
				var mu sync.Mutex
				var attempts []string
				body := func(ctx context.Context) (int, error) {
					n, last, _ := perdure.Attempt(ctx)
					mu.Lock()
					defer mu.Unlock()
					attempts = append(attempts,
						fmt.Sprint(n, last, time.Now().UTC().Format(" 15:04")))
					if n < 3 {
						return 0, world.ErrOdd
					}
					return n, nil
				}
				policy := perdure.Retry{
					Attempts: 3, First: 10 * time.Minute, Factor: 3, Cap: time.Hour,
				}
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					begun.Add(1)
					if async {
						return perdure.Async(ctx, "s", body, policy).Await(ctx)
					}
					return perdure.Step(ctx, "s", body, policy)
				})
				w := world.With(t, o, wf)
				defer func() { w.End() }()
				world.StartAndSettle(w, wf, 0, perdure.ID("x"))
				time.Sleep(5 * time.Minute)
				if d := w.Describe("x"); d.Head.Status != journal.Waiting || d.Head.Owner != 0 ||
					d.Why == "" {
					t.Errorf("in the pause: %v, owner %d, why %q", d.Head.Status, d.Head.Owner,
						d.Why)
				}
				if crash {
					w.Crash()
				}
				out, err := world.OutcomeOf(w, wf, "x")
				if err != nil || out != 3 || begun.Load() < 3 {
					t.Errorf("%d %v, begun %d times", out, err, begun.Load())
				}
				if want := []string{
					"1 false 00:00", "2 false 00:10", "3 true 00:40",
				}; !slices.Equal(attempts, want) {
					t.Errorf("attempts %v", attempts)
				}
				w.History("x")
			})
		}
	}
}

package operators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// staleOf returns the stale runs by workflow ID, with the reasons.
func staleOf(t *testing.T, c *perdure.Client, after time.Duration) map[string]string {
	t.Helper()
	all, err := admin.New(c).Stale(context.Background(), after)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range all {
		out[s.Head.WorkflowID] = s.Why
		if s.Last.IsZero() || s.Last.After(time.Now()) {
			t.Errorf("%s: its last entry is of %v", s.Head.WorkflowID, s.Last)
		}
	}
	return out
}

// Runs that should have gone on and did not are listed with the reason; those that wait for
// something never are, however long.
//
// spec: P-5
func TestStaleRunsAreListed(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		waits := map[string]func(context.Context) error{
			"sleeps": func(ctx context.Context) error { return perdure.Sleep(ctx, 1000*time.Hour) },
			"sleeps-in-memory": func(ctx context.Context) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				return perdure.Sleep(own, 1000*time.Hour)
			},
			"waits": func(ctx context.Context) error {
				_, err := world.GoSignal.Wait(ctx)
				return err
			},
			"parked": func(ctx context.Context) error {
				_, err := perdure.Park(ctx, "ask", "why")
				return err
			},
			"parked-by-error": func(context.Context) error {
				return perdure.Parking(world.ErrOdd)
			},
			"retries": func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", world.Work("s", 0, world.ErrOdd),
					perdure.Retry{Attempts: 99, First: 100 * time.Hour, Cap: 100 * time.Hour})
				return err
			},
			"replayed": func(context.Context) error { return perdure.RetryAfter(0, world.ErrOdd) },
			"pattern-that-sleeps": func(ctx context.Context) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				if err := pattern.SetStatus(ctx, journal.Trying); err != nil {
					return err
				}
				return perdure.Sleep(own, 1000*time.Hour)
			},
			"pattern-that-retries": func(ctx context.Context) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				if err := pattern.SetStatus(ctx, journal.Trying); err != nil {
					return err
				}
				_, err := perdure.Step(own, "s", world.Work("s", 0, world.ErrOdd),
					perdure.Retry{First: 100 * time.Hour, Cap: 100 * time.Hour})
				return err
			},
			"works": func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "slow", world.Work("slow", 900*time.Hour, nil))
				return err
			},
			"suspended": func(ctx context.Context) error {
				return perdure.Sleep(ctx, 1000*time.Hour)
			},
		}
		wf := perdure.Define("w", func(ctx context.Context, what string) (int, error) {
			return 0, waits[what](ctx)
		},
			perdure.Replays{First: 100 * time.Hour, Cap: 100 * time.Hour})
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
			return wf.Child(ctx, "sleeps", perdure.ID("kid")).Await(ctx)
		})
		o.Drain = -1
		w := world.With(t, o, wf, parent)
		defer func() { w.End() }()
		for what := range waits {
			world.StartAndSettle(w, wf, what, perdure.ID(what))
		}
		world.StartAndSettle(w, parent, 0, perdure.ID("parent"))
		if _, err := w.Engine.Start(context.Background(), "unknown", nil,
			perdure.ID("unknown")); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Suspend(context.Background(), "suspended", ""); err != nil {
			t.Fatal(err)
		}
		if got := staleOf(t, w.Engine.Client, 0); len(got) > 0 {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(59 * time.Minute)
		if got := staleOf(t, w.Engine.Client, 0); len(got) > 0 {
			t.Errorf("before an hour: %v", got)
		}
		if got := staleOf(t, w.Engine.Client, 30*time.Minute); len(got) != 2 {
			t.Errorf("after half an hour: %v", got)
		}
		time.Sleep(2 * time.Minute)
		hostname, _ := os.Hostname()
		lacking := fmt.Sprintf("no engine has workflow unknown: engine 1 (process %d on %s) has "+
			"parent, w", os.Getpid(), hostname)
		want := map[string]string{"works": "it executes slow", "unknown": lacking}
		if got := staleOf(t, w.Engine.Client, 0); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after an hour: %v", got)
		}
		other, err := perdure.NewClient(context.Background(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		if got := staleOf(t, other, 0); len(got) != 2 || got["unknown"] != lacking ||
			!strings.Contains(got["works"], "executes it, and it records nothing") {
			t.Errorf("from outside: %v", got)
		}
		w.End() // what was executed has no owner and is due
		time.Sleep(2 * time.Hour)
		got := staleOf(t, other, 0)
		for id, why := range got {
			if why != "no engine has the store" {
				t.Errorf("without an engine: %s: %s", id, why)
			}
		}
		if got["works"] == "" || got["unknown"] == "" || got["sleeps"] != "" ||
			got["waits"] != "" || got["suspended"] != "" || got["parked"] != "" {
			t.Errorf("without an engine: %v", got)
		}
		w.Begin()
	})
}

// A run that waits for a slot is not stale.
//
// spec: P-5
func TestRunThatWaitsForASlotIsNotStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 9*time.Hour, nil))
		})
		w := world.With(t, perdure.Options{Capacity: 1, Drain: -1}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("first"))
		world.StartAndSettle(w, wf, 0, perdure.ID("second"))
		time.Sleep(5 * time.Hour)
		if got := staleOf(t, w.Engine.Client, 0); len(got) != 1 || got["first"] == "" {
			t.Errorf("%v", got)
		}
		if d := w.Describe("second"); d.Why != "it waits for an engine with a free slot" {
			t.Error(d.Why)
		}
	})
}

// Runs that wait for an operator are listed, newest first, by pages, with the
// cause; not those that do not.
//
// spec: P-5, L-16, R-12
func TestParkedRunsAreListed(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		wf := perdure.Define("w", func(ctx context.Context, what string) (string, error) {
			switch what {
			case "asks":
				d, err := perdure.Park(ctx, "approval", "is it right?", "yes", "no")
				return d.Choice, err
			case "asks-twice":
				a := perdure.Go(ctx, "a", func(ctx context.Context) (perdure.Decision, error) {
					return perdure.Park(ctx, "first", "one?")
				})
				b := perdure.Go(ctx, "b", func(ctx context.Context) (perdure.Decision, error) {
					return perdure.Park(ctx, "second", "two?")
				})
				_, err := a.Await(ctx)
				if err == nil {
					_, err = b.Await(ctx)
				}
				return "", err
			case "fails":
				return "", perdure.Parking(world.ErrOdd)
			case "panics":
				panic("no way")
			}
			return "", perdure.Sleep(ctx, 100*time.Hour)
		}, perdure.Replays{Attempts: 2, First: time.Second})
		w := world.With(t, o, wf)
		defer func() { w.End() }()
		all := []string{
			"asks", "asks-twice", "fails", "panics", "sleeps", "suspended", "suspended-silently",
		}
		for _, what := range all {
			world.StartAndSettle(w, wf, what, perdure.ID(what))
		}
		if err := w.Engine.Suspend(context.Background(), "suspended", "look at this"); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Suspend(context.Background(), "suspended-silently", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		check := func() {
			t.Helper()
			var got []string
			var after journal.Cursor
			for page := 0; page == 0 || !after.IsZero(); page++ {
				parked, next, err := admin.New(w.Engine).Parked(context.Background(), after, 2)
				if err != nil || len(parked) > 2 || page > 9 {
					t.Fatal(parked, err)
				}
				for _, p := range parked {
					line := p.Head.WorkflowID + ": " + p.Why
					for _, d := range p.Decisions {
						line += fmt.Sprint(" ", d.Path, d.Choices)
					}
					got = append(got, line)
				}
				after = next
			}
			want := []string{
				"suspended-silently: suspended by an operator", "suspended: look at this",
				"panics: its code failed 2 times in a row: the workflow panicked: no way",
				"fails: odd",
				"asks-twice: two? a/first[] b/second[]", "asks: is it right? approval[yes no]",
			}
			if !slices.Equal(got, want) {
				t.Errorf("parked:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		check()
		w.Crash()
		time.Sleep(time.Hour)
		check()
		for _, id := range []string{"suspended", "suspended-silently"} {
			if err := w.Engine.Resume(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
		if err := w.Engine.Decide(context.Background(), "asks", "approval",
			perdure.Decision{Choice: "yes"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		parked, _, err := admin.New(w.Engine).Parked(context.Background(), journal.Cursor{}, 0)
		if err != nil || len(parked) != 3 {
			t.Errorf("%d are parked, %v", len(parked), err)
		}
		if out, err := world.OutcomeOf(w, wf, "asks"); out != "yes" || err != nil {
			t.Error(out, err)
		}
	})
}

// The markers that open runs need are returned, by change and version, with the runs; markers of
// ended runs are not.
//
// spec: B-2
func TestVersionsThatOpenRunsNeed(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		code := func(max int) func(context.Context, bool) (int, error) {
			return func(ctx context.Context, stay bool) (int, error) {
				if _, err := perdure.Version(ctx, "carrier", max); err != nil {
					return 0, err
				}
				if max > 1 {
					if _, err := perdure.Version(ctx, "address", 1); err != nil {
						return 0, err
					}
				}
				if stay {
					return 0, perdure.Sleep(ctx, time.Hour)
				}
				return 0, nil
			}
		}
		v1 := perdure.Define("w", code(1))
		w := world.With(t, o, v1)
		defer func() { w.End() }()
		world.StartAndSettle(w, v1, true, perdure.ID("old"))
		world.StartAndSettle(w, v1, false, perdure.ID("old-ended"))
		time.Sleep(10 * time.Minute)
		w.End()
		w.DB = w.DB.Reopen()
		v2, other := perdure.Define("w", code(2)), perdure.Define("other", code(2))
		w.Workflows, w.Options.Build = []perdure.Definition{v2, other}, "test2"
		w.Begin()
		world.StartAndSettle(w, v2, true, perdure.ID("new"))
		world.StartAndSettle(w, v2, true, perdure.ID("newer"))
		world.StartAndSettle(w, other, true, perdure.ID("else"))
		versions := func(workflow string, want ...string) {
			t.Helper()
			all, err := admin.New(w.Engine).Versions(context.Background(), workflow)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range all.Markers {
				if len(m.Runs) == 0 {
					continue
				}
				ids := []string{}
				for _, run := range m.Runs {
					ids = append(ids, w.Describe(string(run)).Head.WorkflowID)
				}
				got = append(got, fmt.Sprint(m.Change, m.Version, " ", strings.Join(ids, ",")))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", workflow, got, want)
			}
		}
		versions("w", "address1 newer,new", "carrier1 old", "carrier2 newer,new")
		versions("other", "address1 else", "carrier2 else")
		versions("", "address1 else", "carrier2 else", "address1 newer,new", "carrier1 old",
			"carrier2 newer,new")
		versions("nothing")
		time.Sleep(55 * time.Minute)
		versions("w", "address1 newer,new", "carrier2 newer,new")
		time.Sleep(time.Hour)
		versions("")
	})
}

// A version may go if no open run has it and none will get it: not one that an older build has
// executed and that has not come to the change, nor a new one. Failed runs are counted; they do not
// keep it.
//
// spec: R-38, B-2
func TestVersionsThatMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // runs that sleep are not in memory
		code := func(max int) *perdure.Workflow[string, int] {
			return perdure.Define("w", func(ctx context.Context, end string) (n int, err error) {
				if err := world.PlainStep(ctx, "first"); err != nil {
					return 0, err
				}
				if end == "early" {
					if err := perdure.Sleep(ctx, time.Hour); err != nil {
						return 0, err
					}
				}
				if max > 0 {
					if n, err = perdure.Version(ctx, "carrier", max); err != nil {
						return 0, err
					}
				}
				if end == "fails" {
					return n, errors.New("no carrier")
				}
				return n, perdure.Sleep(ctx, time.Hour)
			})
		}
		zero, one, two := code(0), code(1), code(2)
		w := world.With(t, perdure.Options{IdleTimeout: -1}, zero)
		defer func() { w.End() }()
		look := func(when string, want ...string) {
			t.Helper()
			v, err := admin.New(w.Engine).Versions(t.Context(), "w")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range v.Builds {
				got = append(got, fmt.Sprintf("%s: %d engines, %d open, %d failed, %v", b.Build,
					len(b.Engines), b.Open, b.Failed, b.MayGo))
			}
			for _, m := range v.Markers {
				got = append(got, fmt.Sprintf("%d: %d open, %d undecided, %d failed, %v: %s",
					m.Version, len(m.Runs), m.Undecided, m.Failed, m.MayGo, m.Why))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		}
		world.StartAndSettle(w, zero, "early", perdure.ID("old"))
		look("the first build", "test: 1 engines, 1 open, 0 failed, false")
		w.Deploy("one", one)
		world.StartAndSettle(w, one, "late", perdure.ID("one"))
		world.StartAndSettle(w, one, "fails", perdure.ID("failed"))
		look("a run of the first build sleeps", "one: 1 engines, 1 open, 1 failed, false",
			"test: 0 engines, 1 open, 0 failed, false",
			"0: 0 open, 1 undecided, 0 failed, false: 1 open run of older builds may still get it",
			"1: 1 open, 0 undecided, 1 failed, false: it is in 1 open run")
		time.Sleep(3 * time.Hour)
		look("the runs have ended", "one: 1 engines, 0 open, 1 failed, true",
			"0: 0 open, 0 undecided, 0 failed, true: no open run has it",
			"1: 0 open, 0 undecided, 1 failed, false: new runs of engine 2 get it")
		w.Deploy("two", two)
		world.StartAndSettle(w, two, "late", perdure.ID("two"))
		look("a newer build", "one: 0 engines, 0 open, 1 failed, true",
			"two: 1 engines, 1 open, 0 failed, false",
			"0: 0 open, 0 undecided, 0 failed, true: no open run has it",
			"1: 0 open, 0 undecided, 1 failed, true: no open run has it; a retry of 1 failed run "+
				"would need it",
			"2: 1 open, 0 undecided, 0 failed, false: it is in 1 open run")
		if _, err := admin.New(w.Engine).Versions(t.Context(), "no name"); err == nil {
			t.Error("a name that no workflow has is allowed")
		}
	})
}

// Whatever the engine was doing when it died, its runs go on by themselves from what is durable, as
// soon as another engine is there.
//
// spec: P-5, L-7
func TestUnfinishedRunsGoOnByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		wf := perdure.Define("w", func(ctx context.Context, i int) (int, error) {
			a, err := perdure.Step(ctx, "a", world.Work("a", time.Duration(i%7)*time.Minute, nil))
			if err != nil {
				return a, err
			}
			if err := perdure.Sleep(ctx, time.Duration(i%5)*time.Minute); err != nil {
				return 0, err
			}
			_, err = perdure.Step(ctx, "b", world.Work("b", time.Duration(i%3)*time.Minute, nil))
			return i, err
		})
		w := world.With(t, perdure.Options{Drain: -1, Capacity: 400}, wf)
		for i := range n {
			world.Start(w, wf, i)
		}
		for range 3 {
			time.Sleep(100 * time.Second)
			w.Crash()
		}
		defer func() { w.End() }()
		time.Sleep(2 * time.Hour)
		if got := w.Count(); got[journal.Completed] != n {
			t.Errorf("at last: %v", got)
		}
	})
}

// spec: F-21
func TestARunThatWasSuspendedTwiceIsResumedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		w := world.New(t, perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return world.GoSignal.Wait(ctx)
		}))
		defer w.End()
		if _, err := w.Engine.Start(ctx, "w", []byte("0"), perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c, err := perdure.NewClient(ctx, w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the engine looks later
			if err := c.Suspend(ctx, "x", "twice"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if d := w.Describe("x"); d.Head.Status != journal.Suspended {
			t.Fatalf("it is %v", d.Head.Status)
		}
		if err := w.Engine.Resume(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if d := w.Describe("x"); d.Head.Status != journal.Waiting {
			t.Errorf("resumed, it is %v: %s", d.Head.Status, d.Why)
		}
	})
}

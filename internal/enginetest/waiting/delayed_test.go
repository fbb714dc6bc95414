package waiting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
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
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// inAnHour is the time an hour from now.
func inAnHour() schedule.At { return schedule.At(time.Now().Add(time.Hour)) }

var greeting = perdure.NewSignal[string]("greeting")

// greeted waits for a signal, and returns when its code was called, and what it got.
var greeted = perdure.Define("greeted", func(ctx context.Context, _ int) (string, error) {
	began, err := perdure.Now(ctx)
	if err != nil {
		return "", err
	}
	got, err := greeting.Wait(ctx)
	return began.UTC().Format(time.TimeOnly) + " " + got, err
})

// spec: B-26
func TestADelayedRunExistsAtOnceAndBeginsAtItsTime(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		due := time.Now().Add(time.Hour)
		run := world.StartAndSettle(w, greeted, 0, perdure.ID("a"), schedule.At(due))
		if again := world.Start(w, greeted, 0, perdure.ID("a")); again.RunID() != run.RunID() {
			t.Errorf("its ID starts another run")
		}
		if _, err := greeting.Send(t.Context(), w.Engine, "a", "hello"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		d := w.Describe("a")
		text := "begins at " + due.UTC().Format(time.RFC3339)
		if d.Head.Status != journal.Pending || d.Head.Cause != text || !d.Head.Wake.Equal(due) ||
			d.Head.Owner != 0 || d.Why != "it "+text {
			t.Errorf("before: %+v: %s", d.Head, d.Why)
		}
		if len(w.History("a")) != 1 {
			t.Errorf("a message woke it: %v", w.History("a"))
		}
		out, err := run.Result(t.Context())
		if want := due.UTC().Format(time.TimeOnly) + " hello"; err != nil || out != want {
			t.Errorf("%q, %v: want %q", out, err, want)
		}
		if late := time.Since(due); late > time.Second {
			t.Errorf("it began %v after its time", late)
		}
	}, greeted)
}

// spec: B-26
func TestADelayedRunThatNoEngineTakesUpNamesThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, greeted)
		world.StartAndSettle(w, greeted, 0, perdure.ID("a"), inAnHour())
		w.End()
		c, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		why := func() string {
			d, err := c.Describe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return d.Why
		}
		if got := why(); !strings.HasPrefix(got, "it begins at ") ||
			!strings.HasSuffix(got, "; no engine has the store") {
			t.Errorf("before its time: %q", got)
		}
		time.Sleep(2 * time.Hour)
		if got := why(); got != "no engine has the store" {
			t.Errorf("after its time: %q", got)
		}
	})
}

// spec: B-26, R-11
func TestADelayedRunIsCancelledTerminatedAndSuspendedWhileItWaits(t *testing.T) {
	ctx := context.Background()
	order := func(action journal.Action) func(*world.World) error {
		return func(w *world.World) error {
			_, err := admin.New(w.Engine).Act(ctx, "a", admin.Order{Action: action, By: "ada"})
			return err
		}
	}
	for name, c := range map[string]struct {
		end  func(*world.World) error
		want journal.Status
	}{
		"cancel": {
			func(w *world.World) error { return w.Engine.Cancel(ctx, "a", "not needed") },
			journal.Cancelled,
		},
		"cancel by a client": {
			func(w *world.World) error {
				c, err := perdure.NewClient(ctx, w.DB)
				if err != nil {
					return err
				}
				return c.Cancel(ctx, "a", "not needed")
			},
			journal.Cancelled,
		},
		"terminate": {order(journal.ActionTerminate), journal.Cancelled},
		"suspend":   {order(journal.ActionSuspend), journal.Suspended},
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Int32
			counted := perdure.Define("counted", func(ctx context.Context, _ int) (int, error) {
				called.Add(1)
				return 0, nil
			}, perdure.Timeout(30*time.Minute))
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				called.Store(0)
				due := time.Now().Add(time.Hour)
				world.StartAndSettle(w, counted, 0, perdure.ID("a"), schedule.At(due))
				if err := c.end(w); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if d := w.Describe("a"); d.Head.Status != c.want {
					t.Fatalf("it is %v: %s", d.Head.Status, d.Why)
				}
				if c.want == journal.Suspended {
					if err := w.Engine.Resume(ctx, "a"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					d := w.Describe("a")
					if d.Head.Status != journal.Pending || !d.Head.Wake.Equal(due) ||
						!strings.HasPrefix(d.Why, "it begins at ") {
						t.Errorf("resumed, it is %v until %v: %s", d.Head.Status, d.Head.Wake,
							d.Why)
					}
				}
				time.Sleep(2 * time.Hour)
				resumed := c.want == journal.Suspended
				if (called.Load() == 1) != resumed {
					t.Errorf("its code was called %d times", called.Load())
				}
				if s := w.Status("a"); resumed && s != journal.Completed {
					t.Errorf("at last it is %v", s)
				}
				w.History("a")
			}, counted)
		})
	}
}

// spec: B-26
func TestEveryKindOfStartMayBeDelayed(t *testing.T) {
	ctx := context.Background()
	var due time.Time
	at := func() schedule.At { return schedule.At(due) }
	for name, start := range map[string]func(w *world.World) error{
		"by name": func(w *world.World) error {
			_, err := w.Engine.Start(ctx, "greeted", []byte("0"), perdure.ID("a"), at())
			return err
		},
		"by a client": func(w *world.World) error {
			c, err := perdure.NewClient(ctx, w.DB)
			if err == nil {
				_, err = greeted.Start(ctx, c, 0, perdure.ID("a"), at())
			}
			return err
		},
		"many": func(w *world.World) error {
			_, errs := greeted.StartAll(ctx, w.Engine, []int{0, 0},
				func(i int) []perdure.StartOption {
					return []perdure.StartOption{perdure.ID([]string{"a", "b"}[i]), at()}
				})
			return errors.Join(errs...)
		},
		"with a signal": func(w *world.World) error {
			_, err := perdure.SendWithStart(ctx, w.Engine, greeting, "hello", greeted, 0,
				perdure.ID("a"), at())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				due = time.Now().Add(time.Hour)
				if err := start(w); err != nil {
					t.Fatal(err)
				}
				time.Sleep(59 * time.Minute)
				if d := w.Describe("a"); d.Head.Status != journal.Pending || d.Head.Owner != 0 ||
					!d.Head.Wake.Equal(due) {
					t.Errorf("before: %+v", d.Head)
				}
				if name != "with a signal" {
					if _, err := greeting.Send(ctx, w.Engine, "a", "hello"); err != nil {
						t.Fatal(err)
					}
				}
				out, err := world.OutcomeOf(w, greeted, "a")
				if want := due.UTC().Format(time.TimeOnly) + " hello"; err != nil || out != want {
					t.Errorf("%q, %v: want %q", out, err, want)
				}
			}, greeted)
		})
	}
}

// spec: B-26
func TestADelayedStartIsPartOfATransaction(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "db")
	s, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	handle, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	c, err := perdure.NewClient(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	db := sqlite.Transactions(handle)
	for _, id := range []string{"rolled-back", "committed"} {
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := greeted.Start(ctx, c.In(tx), 0, perdure.ID(id), inAnHour()); err != nil {
			t.Fatal(err)
		}
		if id == "committed" {
			err = db.Commit(ctx, tx)
		} else {
			err = db.Rollback(ctx, tx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.Statuses(ctx, "rolled-back", "committed")
	if err != nil || all[0].Found || all[1].Head.Status != journal.Pending ||
		!all[1].Head.Wake.After(time.Now()) || !strings.HasPrefix(all[1].Head.Cause, "begins at ") {
		t.Errorf("%+v, %v", all, err)
	}
}

// spec: B-26
func TestTheTimeoutOfADelayedRunCountsFromItsTime(t *testing.T) {
	stuck := perdure.Define("stuck", func(ctx context.Context, _ int) (string, error) {
		return greeting.Wait(ctx)
	}, perdure.Timeout(10*time.Minute))
	noSweep := perdure.Options{Sweep: -1}
	world.InBothModesWith(t, noSweep, func(t *testing.T, w *world.World) {
		due := time.Now().Add(time.Hour)
		run := world.Start(w, stuck, 0, schedule.At(due))
		_, err := run.Result(t.Context())
		took := time.Since(due).Round(time.Minute)
		if journal.CodeOf(err) != journal.CodeTimedOut || took != 10*time.Minute {
			t.Errorf("%v, %v after its time", err, took)
		}
	}, stuck)
}

// spec: B-26
func TestARunThatGoesOnFromADelayedOneDoesNotWaitAgain(t *testing.T) {
	broken := true
	wf := perdure.Define("twice", func(ctx context.Context, n int) (int, error) {
		if err := perdure.Do(ctx, "work", func(context.Context) error {
			if broken {
				return perdure.Permanent(errors.New("broken"))
			}
			return nil
		}); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, perdure.ContinueAsNew(ctx, 1)
		}
		return n, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		broken = true
		run := world.Start(w, wf, 0, perdure.ID("a"), inAnHour())
		if _, err := run.Result(t.Context()); err == nil {
			t.Fatal("it does not fail")
		}
		broken = false
		began := time.Now()
		if _, err := w.Engine.Retry(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if out, err := world.OutcomeOf(w, wf, "a"); err != nil || out != 1 {
			t.Errorf("%d, %v", out, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the rest took %v", took)
		}
		world.StartAndSettle(w, wf, 1, perdure.ID("b"), inAnHour())
		if err := w.Engine.Cancel(t.Context(), "b", "a mistake"); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if _, err := w.Engine.Retry(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if out, err := world.OutcomeOf(w, wf, "b"); err != nil || out != 1 {
			t.Errorf("%d, %v", out, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the retry of one that had not begun took %v", took)
		}
	}, wf)
}

// A delayed run is not in the line of its limit before its time.
//
// spec: B-26, R-32
func TestADelayedRunTakesNoSlotBeforeItsTime(t *testing.T) {
	wf := perdure.Define("limited", func(ctx context.Context, _ int) (time.Time, error) {
		now, err := perdure.Now(ctx)
		if err != nil {
			return now, err
		}
		return now, perdure.Sleep(ctx, 50*time.Minute)
	}, limit.Control{Concurrency: 1})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		began := time.Now()
		late := world.Start(w, wf, 0, inAnHour())
		want := []time.Duration{0, 50 * time.Minute, 100 * time.Minute}
		runs := []*perdure.Run[time.Time]{
			world.StartAndSettle(w, wf, 0), world.StartAndSettle(w, wf, 0), late,
		}
		for i, run := range runs {
			at, err := run.Result(t.Context())
			if got := at.Sub(began).Round(time.Minute); err != nil || got != want[i] {
				t.Errorf("run %d began after %v, %v: want %v", i, got, err, want[i])
			}
		}
	}, wf)
}

// spec: B-26
func TestDelayedStartsOverCrashes(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		began := time.Now()
		due := began.Add(time.Hour)
		run := perduretest.Start(env, greeted, 0, perdure.ID("a"), schedule.At(due))
		perduretest.Start(env, greeted, 0, perdure.ID("b"), schedule.At(due))
		env.Sleep(time.Minute)
		if err := env.Do(func(e *perdure.Engine) error {
			_, err := greeting.Send(env.Context(), e, "a", "hello", perdure.SendKey("1"))
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := env.Do(func(e *perdure.Engine) error {
			return e.Cancel(env.Context(), "b", "not needed")
		}); err != nil {
			t.Error(err)
		}
		env.Sleep(2 * time.Hour)
		out, err := run.Result()
		at, got, _ := strings.Cut(out, " ")
		if at < due.UTC().Format(time.TimeOnly) {
			t.Errorf("it began at %s, before %v", at, due)
		}
		perduretest.Get(env, greeted, "b").Is(journal.Cancelled)
		return fmt.Sprint(got, err)
	}, greeted)
}

// spec: B-26
func TestTimesThatNoRunCanBeginAtAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{greeted}}
		w.Begin()
		defer w.End()
		for _, at := range []time.Time{{}, time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, err := greeted.Start(t.Context(), w.Engine, 0, schedule.At(at))
			if journal.CodeOf(err) != journal.CodeInvalid ||
				!strings.Contains(err.Error(), "allowed are times before the year 2262") {
				t.Errorf("at %v: %v", at, err)
			}
		}
		odd := time.FixedZone("odd", 3*3600+17)
		for _, at := range []time.Time{time.Now(), time.Now().Add(-time.Hour), time.Unix(0, 0),
			time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Now().Add(time.Minute).In(odd)} {
			run := world.Start(w, greeted, 0, schedule.At(at))
			time.Sleep(2 * time.Minute)
			if s := w.Status(run.RunID()); s != journal.Waiting {
				t.Errorf("at %v it is %v", at, s)
			}
		}
	})
}

// The engine that was asked for the start may be gone when the time comes.
//
// spec: B-26
func TestADelayedRunBeginsOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := world.NewCluster(t, 2, greeted)
		defer c.End()
		due := time.Now().Add(time.Hour)
		world.StartAndSettle(c.Nodes[0], greeted, 0, perdure.ID("a"), schedule.At(due))
		if _, err := greeting.Send(t.Context(), c.Nodes[1].Engine, "a", "hello"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		c.Kill(c.Nodes[0])
		out, err := world.OutcomeOf(c.Nodes[1], greeted, "a")
		if want := due.UTC().Format(time.TimeOnly) + " hello"; err != nil || out != want {
			t.Errorf("%q, %v: want %q", out, err, want)
		}
	})
}

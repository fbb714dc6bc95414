package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
)

// An operator in another process gives orders to runs of a workflow that is paused. Each is carried
// out while the pause lasts, also if the engine dies meanwhile. The steps of a clean-up wait.
//
// spec
func TestOrdersReachRunsOfAPausedWorkflow(t *testing.T) {
	begun := map[string]int{}
	cleaned := 0
	def := perdure.Define("job", func(ctx context.Context, what string) (string, error) {
		if what == "cleans-up" {
			err := perdure.OnCancel(ctx, "clean", func(ctx context.Context) error {
				return perdure.Do(ctx, "free", func(context.Context) error {
					cleaned++
					return nil
				})
			})
			if err != nil {
				return "", err
			}
		}
		wait := time.Minute
		if what == "asleep" {
			wait = 1000 * time.Hour
		}
		if err := perdure.Sleep(ctx, wait); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "step", func(context.Context) (string, error) {
			begun[what]++
			return "", nil
		})
	})
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		clear(begun)
		cleaned = 0
		w := world.With(t, o, def)
		defer func() { w.End() }()
		outside := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		op := admin.New(outside)
		start := func(what string) {
			_, err := def.Start(t.Context(), outside, what, perdure.ID(what))
			world.NoError(t, err)
		}
		for _, what := range []string{"asleep", "held", "cleans-up", "ends", "parks", "other"} {
			start(what)
		}
		time.Sleep(time.Second)
		world.NoError(t, op.PauseWorkflow(t.Context(), "job", operator))
		time.Sleep(time.Hour)
		start("new")
		for _, what := range []string{"asleep", "held", "cleans-up", "new"} {
			world.NoError(t, outside.Cancel(t.Context(), what, "not needed"))
		}
		_, err := op.Act(t.Context(), "ends", admin.Order{Action: journal.ActionTerminate})
		world.NoError(t, err)
		world.NoError(t, outside.Suspend(t.Context(), "parks", ""))
		w.Crash()
		outside = world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		op = admin.New(outside)
		is := func(want map[string]journal.Status) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			for what, status := range want {
				if d := w.Describe(what); d.Head.Status != status {
					t.Errorf("%s is %v, want %v: %s", what, d.Head.Status, status, d.Why)
				}
			}
			if paused := want["other"] == journal.Waiting; paused && len(begun)+cleaned > 0 {
				t.Errorf("begun while paused: %v, clean-ups: %d", begun, cleaned)
			}
		}
		is(map[string]journal.Status{
			"asleep": journal.Cancelled, "held": journal.Cancelled, "new": journal.Cancelled,
			"ends": journal.Cancelled, "parks": journal.Suspended,
			"cleans-up": journal.Waiting, "other": journal.Waiting,
		})
		world.NoError(t, outside.Resume(t.Context(), "parks"))
		is(map[string]journal.Status{"parks": journal.Waiting, "other": journal.Waiting})
		world.NoError(t, op.ResumeWorkflow(t.Context(), "job", operator))
		is(map[string]journal.Status{
			"cleans-up": journal.Cancelled, "parks": journal.Completed, "other": journal.Completed,
		})
		if begun["other"] != 1 || begun["parks"] != 1 || len(begun) != 2 || cleaned != 1 {
			t.Errorf("begun: %v, clean-ups: %d", begun, cleaned)
		}
	})
}

// A cancel with compensation of a run whose workflow is paused is taken in, and what it undoes is
// undone when the pause is over.
//
// spec
func TestCompensationsWaitForTheEndOfAPause(t *testing.T) {
	undone := 0
	trip := saga.New[string]("trip", perdure.Timeout(24*time.Hour))
	saga.Add(trip, "hotel", func(context.Context, string) (int, error) { return 1, nil }).
		Undo(func(context.Context, string, int) error { undone++; return nil })
	saga.Add(trip, "visa", func(context.Context, string) (int, error) {
		return 0, errors.New("the office is closed")
	}).Retry(perdure.Retry{Attempts: 9, First: 10 * time.Minute})
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		undone = 0
		w := world.With(t, o, trip)
		defer func() { w.End() }()
		outside := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		op := admin.New(outside)
		_, err := outside.Start(t.Context(), "trip", []byte(`"oslo"`), perdure.ID("t"))
		world.NoError(t, err)
		time.Sleep(time.Second)
		world.NoError(t, op.PauseWorkflow(t.Context(), "trip", operator))
		time.Sleep(15 * time.Minute)
		if d := w.Describe("t"); d.Head.Status == journal.Compensating || d.Head.Owner != 0 {
			t.Fatalf("before the cancel it is %v, with engine %d", d.Head.Status, d.Head.Owner)
		}
		world.NoError(t, outside.Cancel(t.Context(), "t", "not needed"))
		time.Sleep(15 * time.Minute)
		if d := w.Describe("t"); undone != 0 || d.Head.Status != journal.Compensating {
			t.Errorf("while paused it is %v, and %d steps are undone", d.Head.Status, undone)
		}
		world.NoError(t, op.ResumeWorkflow(t.Context(), "trip", operator))
		time.Sleep(15 * time.Minute)
		if d := w.Describe("t"); undone != 1 || d.Head.Status != journal.Cancelled {
			t.Errorf("at the end it is %v, and %d steps are undone", d.Head.Status, undone)
		}
	})
}

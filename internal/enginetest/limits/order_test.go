package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
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

package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// The clock is a day behind in the next life.
//
// spec: R-13, P-5
func TestWhatIsDueDoesNotWaitForAClockThatWasPutBack(t *testing.T) {
	for _, how := range []string{
		"stopped in good order", "message while down", "pending", "resumed",
	} {
		var db *memory.Store
		wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
			if how == "message while down" || how == "resumed" {
				return world.GoSignal.Wait(ctx)
			}
			return perdure.Step(ctx, "s", world.Work("s", time.Minute, nil))
		})
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(24 * time.Hour)
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf},
				Options: perdure.Options{Drain: -1, Build: "test"}}
			if how == "pending" {
				if _, err := wf.Start(context.Background(), otherClient(t, w), 0,
					perdure.ID("x")); err != nil {
					t.Fatal(err)
				}
				db = w.DB
				return
			}
			w.Begin()
			world.StartAndSettle(w, wf, 0, perdure.ID("x"))
			time.Sleep(30 * time.Second)
			w.End()
			w.DB = w.DB.Reopen()
			db = w.DB
			if how == "message while down" {
				if _, err := world.GoSignal.Send(context.Background(), otherClient(t, w), "x",
					3); err != nil {
					t.Fatal(err)
				}
			}
		})
		synctest.Test(t, func(t *testing.T) {
			w := &world.World{T: t, DB: db, Workflows: []perdure.Definition{wf},
				Options: perdure.Options{Drain: -1, Build: "test"}}
			w.Begin()
			defer w.End()
			if how == "resumed" {
				if _, err := world.GoSignal.Send(context.Background(), w.Engine, "x",
					3); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Minute)
			if d := w.Describe("x"); d.Head.Status != journal.Completed {
				t.Errorf("%s: it is %v, due %v: %s", how, d.Head.Status, d.Head.Wake, d.Why)
			}
		})
	}
}

// otherClient returns a client in another process.
func otherClient(t *testing.T, w *world.World) *perdure.Client {
	t.Helper()
	c, err := perdure.NewClient(context.Background(), w.DB)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

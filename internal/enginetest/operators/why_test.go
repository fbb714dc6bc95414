package operators

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/tcc"
)

// spec: B-7
func TestATCCBetweenAttemptsNamesTheStepAndItsNextTime(t *testing.T) {
	trip := tcc.New[string]("trip")
	tcc.Add(trip, "seat", func(context.Context, string) (string, error) { return "12A", nil }).
		Confirm(func(context.Context, string, string) error {
			return errors.New("the bank is closed")
		}).
		Cancel(func(context.Context, string, string) error { return nil })
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		if _, err := w.Engine.Start(t.Context(), "trip", []byte(`"ada"`), perdure.ID("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		why := w.Describe("a").Why
		if !strings.Contains(why, "seat has failed in attempt 1, and is tried again at ") ||
			!strings.Contains(why, "the bank is closed") {
			t.Errorf("why: %q", why)
		}
	}, trip)
}

// spec: B-7
func TestASignalThatTheCodeLeavesInTheInboxIsNotAwaited(t *testing.T) {
	wait := perdure.NewSignal[string]("go")
	picky := perdure.Define("picky", func(ctx context.Context, _ int) (string, error) {
		return wait.Wait(ctx, perdure.Where(func(s string) bool { return s == "now" }))
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{IdleTimeout: time.Hour}, picky)
		defer func() { w.End() }()
		world.Start(w, picky, 0, perdure.ID("s"))
		time.Sleep(time.Second)
		if why := w.Describe("s").Why; why != "it waits for signal go" {
			t.Errorf("before: %q", why)
		}
		if _, err := wait.Send(t.Context(), w.Engine, "s", "later"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if why := w.Describe("s").Why; !strings.HasPrefix(why, "signal go is in its inbox") {
			t.Errorf("why: %q", why)
		}
	})
}

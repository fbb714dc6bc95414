package operators_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// The step of 7 s ends while the engine drains for 10 s. That of an hour is left behind.
//
// spec: R-35
func TestAnEngineThatDrainsSaysWhatItStillHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(d) // it does not heed its context
				return 0, nil
			})
		})
		rests := perdure.Define("rests", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		w := world.With(t, perdure.Options{IdleTimeout: time.Hour}, slow, rests)
		a := admin.New(w.Engine)
		held := func() admin.Held {
			h, err := a.Held()
			if err != nil {
				t.Error(err)
			}
			return h
		}
		begun := time.Now()
		world.Start(w, slow, time.Hour, perdure.ID("hour"))
		time.Sleep(time.Second)
		world.Start(w, slow, 7*time.Second, perdure.ID("short"))
		world.Start(w, rests, 0, perdure.ID("rests"))
		time.Sleep(time.Second)
		h := held()
		if h.Draining || !h.Since.IsZero() || h.Runs != 3 || h.Steps != 2 || len(h.InFlight) != 2 {
			t.Fatalf("%+v", h)
		}
		if s := h.InFlight[0]; s.WorkflowID != "hour" || s.Workflow != "slow" || s.Step != "s" ||
			s.Attempt != 1 || !s.Since.Equal(begun) || s.RunID == "" {
			t.Errorf("%+v", s)
		}
		stopping := time.Now()
		go w.End()
		time.Sleep(time.Second)
		h = held()
		if !h.Draining || !h.Since.Equal(stopping) || h.Until.Sub(stopping) != 10*time.Second ||
			h.Steps != 2 {
			t.Errorf("%+v", h)
		}
		is(t, check(t, a, "engines"), admin.Healthy, "the one here drains until")
		seen := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB)))
		is(t, check(t, seen, "engines"), admin.Healthy, "1 with the store; engine 1 drains until "+
			h.Until.UTC().Format(time.RFC3339)+" and still holds 3 runs, 2 steps in flight")
		time.Sleep(6 * time.Second)
		is(t, check(t, seen, "engines"), admin.Healthy, "2 steps in flight")
		if h = held(); h.Steps != 1 || h.InFlight[0].WorkflowID != "hour" {
			t.Errorf("%+v", h)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		is(t, check(t, seen, "engines"), admin.Failing, "no engine has the store")
		told := w.Seen(observe.EngineDraining)
		if len(told) != 2 || told[0].Rows != 2 || told[1].Rows != 2 || told[1].Attempt != 2 ||
			!told[0].Due.Equal(h.Until) || !strings.Contains(told[0].Reason, "s of hour (slow)") {
			t.Errorf("the drain was told as %+v", told)
		}
		left := w.Seen(observe.StepsLeft)
		if len(left) != 1 || left[0].Rows != 1 || strings.Contains(left[0].Reason, "short") ||
			!strings.Contains(left[0].Reason, "s of hour (slow) for 12s") {
			t.Errorf("what was left was told as %+v", left)
		}
		time.Sleep(time.Hour)
	})
}

// On a store with leases each renewal says again what an engine that drains holds, and the other
// engines tell it, too.
//
// spec: R-35
func TestTheOtherEnginesTellOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(d)
				return 0, nil
			})
		})
		c := world.NewCluster(t, 1, slow)
		w := c.Nodes[0]
		other := c.Node() // it executes nothing
		other.Begin()
		defer other.End()
		world.Start(w, slow, time.Hour, perdure.ID("hour"))
		world.Start(w, slow, 7*time.Second, perdure.ID("short"))
		time.Sleep(time.Second)
		a := admin.New(other.Engine)
		defer time.Sleep(time.Hour)
		if c := check(t, a, "engines"); strings.Contains(c.Evidence, "drains") {
			t.Errorf("before it stops: %s", c.Evidence)
		}
		go w.End()
		time.Sleep(time.Second)
		is(t, check(t, a, "engines"), admin.Healthy, "and still holds 2 runs, 2 steps in flight")
		time.Sleep(8 * time.Second)
		is(t, check(t, a, "engines"), admin.Healthy, "and still holds 1 run, 1 step in flight")
	})
}

// spec: R-35
func TestAnEngineWithNothingInFlightDrainsInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, perdure.Define("n", world.Nothing))
		time.Sleep(time.Second)
		w.End()
		told := append(w.Seen(observe.EngineDraining), w.Seen(observe.StepsLeft)...)
		if told != nil {
			t.Errorf("%+v", told)
		}
	})
}

// spec: R-35
func TestAClientWithoutAnEngineHoldsNothing(t *testing.T) {
	c, err := perdure.NewClient(t.Context(), memory.New())
	if err != nil {
		t.Fatal(err)
	}
	var e *perdure.Error
	if _, err := admin.New(c).Held(); !errors.As(err, &e) || e.Code != journal.CodeMisuse {
		t.Error(err)
	}
}

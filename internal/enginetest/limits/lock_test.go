package limits

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// careful is a workflow that does a part of its work with a slot of a semaphore.
func careful(g *gauge, s limit.Semaphore) *perdure.Workflow[string, string] {
	return perdure.Define("careful", func(ctx context.Context, in string) (string, error) {
		info, err := perdure.InfoOf(ctx)
		if err != nil {
			return "", err
		}
		return in, s.Do(ctx, func(ctx context.Context) error {
			if err := perdure.Do(ctx, "begin", func(context.Context) error {
				g.enter(info.RunID, in)
				return nil
			}); err != nil {
				return err
			}
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			return perdure.Do(ctx, "end", func(context.Context) error {
				g.leave(info.RunID)
				return nil
			})
		})
	})
}

// spec: B-9
func TestALockIsTakenInTurnAndShownMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		def := careful(g, limit.Semaphore{Name: "printer"})
		w := world.New(t, def)
		defer w.End()
		for _, id := range []string{"a", "b", "c"} {
			world.StartAndSettle(w, def, id, perdure.ID(id))
		}
		waits := w.Describe("c").State.Waits
		if len(waits) != 1 || waits[0].Kind != journal.WaitSlot ||
			waits[0].Reason != "printer:lock" {
			t.Errorf("c waits for %+v", waits)
		}
		if why := w.Describe("c").Why; why != "it waits at printer for limit printer:lock: it is "+
			"number 2 of 2 in line, and 1 of 1 slots are taken" {
			t.Errorf("why: %s", why)
		}
		if got := w.Status("c"); got != journal.Waiting {
			t.Errorf("c is %v", got)
		}
		for _, id := range []string{"a", "b", "c"} {
			if _, err := world.OutcomeOf(w, def, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if got := strings.Join(g.order, ""); got != "abc" || g.most[""] != 1 {
			t.Errorf("they had it in the order %s, %d at a time", got, g.most[""])
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestASemaphoreHoldsOverCrashes(t *testing.T) {
	world.OverCrashes(t, 10, func() world.Scenario {
		g := newGauge()
		def := careful(g, limit.Semaphore{Name: "printer", Slots: 2})
		ids := []string{"a", "b", "c", "d"}
		return world.Scenario{
			Workflows: []perdure.Definition{def},
			Begin:     startAll(def, ids),
			Over:      allOver(ids),
			Check: func(t *testing.T, w *world.World, _ int) {
				completed(t, w, ids)
				if g.most[""] > 2 {
					t.Errorf("%d had it at a time", g.most[""])
				}
				noSlots(t, w)
			},
		}
	})
}

func startAll(def *perdure.Workflow[string, string], ids []string) func(*world.World) error {
	return func(w *world.World) error {
		for _, id := range ids {
			if _, err := def.Start(context.Background(), w.Engine, id, perdure.ID(id),
				perdure.Dedup(time.Hour)); err != nil {
				return err
			}
		}
		return nil
	}
}

func allOver(ids []string) func(*world.World) bool {
	return func(w *world.World) bool {
		statuses, err := w.Engine.Statuses(context.Background(), ids...)
		if err != nil {
			return false
		}
		for _, s := range statuses {
			if !s.Found || !s.Head.Status.IsTerminal() {
				return false
			}
		}
		return true
	}
}

func completed(t *testing.T, w *world.World, ids []string) {
	t.Helper()
	for _, id := range ids {
		d := w.Describe(id)
		if d.Head.Status != journal.Completed {
			t.Errorf("%s is %v: %s", id, d.Head.Status, d.Head.Cause)
		}
		if wrong := world.Audit(d, w.History(id)); wrong != nil {
			t.Error(wrong)
		}
	}
}

// spec: B-9
func TestAWaitForALockEndsOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := limit.Semaphore{Name: "door"}
		var mu sync.Mutex
		var said []string
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(format, args...))
		}
		holder := perdure.Define("holder", func(ctx context.Context, _ int) (int, error) {
			_, err := lock.Acquire(ctx)
			if err == nil {
				err = perdure.Sleep(ctx, time.Hour)
			}
			return 0, err // its end frees the slot
		})
		within := perdure.Define("within", func(ctx context.Context, _ int) (int, error) {
			short := lock
			short.Within = time.Minute
			_, err := short.Acquire(ctx)
			say("within: %s", journal.CodeOf(err))
			return 0, nil
		})
		branch := perdure.Define("branch", func(ctx context.Context, _ int) (int, error) {
			f := perdure.Go(ctx, "wait", func(ctx context.Context) (int, error) {
				_, err := lock.Acquire(ctx)
				return 0, err
			})
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			if _, err := f.Cancel(ctx, "no more"); err != nil {
				return 0, err
			}
			return 0, perdure.Sleep(ctx, 2*time.Hour)
		})
		last := perdure.Define("last", func(ctx context.Context, _ int) (int, error) {
			h, err := lock.Acquire(ctx)
			if err != nil {
				return 0, err
			}
			say("last: taken")
			if err := h.Release(ctx); err != nil {
				return 0, err
			}
			return 0, h.Release(ctx)
		})
		w := world.New(t, holder, within, branch, last)
		defer w.End()
		world.StartAndSettle(w, holder, 0)
		world.StartAndSettle(w, within, 0)
		b := world.StartAndSettle(w, branch, 0)
		world.StartAndSettle(w, holder, 0, perdure.ID("cancelled"))
		l := world.StartAndSettle(w, last, 0)
		world.NoError(t, w.Engine.Cancel(t.Context(), "cancelled", "not needed"))
		if _, err := l.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := b.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(said, ", "); got != "within: timed_out, last: taken" {
			t.Errorf("they say %s", got)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestABadSemaphoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("bad", func(ctx context.Context, _ int) (int, error) {
			for _, s := range []limit.Semaphore{
				{}, {Name: "a\x00"}, {Name: strings.Repeat("x", 200)}, {Name: "x", Slots: -1},
				{Name: "x", Within: -1}, {Name: "x", Priority: 1 << 32},
			} {
				if _, err := s.Acquire(ctx); journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("%+v: %v", s, err)
				}
			}
			long := limit.Semaphore{Name: "x", Key: strings.Repeat("\xff", 1<<20)}
			return 0, long.Do(ctx, func(context.Context) error { return nil })
		})
		w := world.New(t, def)
		defer w.End()
		if _, _, err := world.Result(w, def, 0); err != nil {
			t.Error(err)
		}
		if _, err := (limit.Semaphore{Name: "x"}).Acquire(t.Context()); err == nil {
			t.Error("it is acquired outside of workflow code")
		}
	})
}

package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/pattern"
)

// tidy is a workflow that plans a clean-up before anything else, as sagas do.
func tidy(cleaned *int) *perdure.Workflow[int, int] {
	return perdure.Define("tidy", func(ctx context.Context, in int) (int, error) {
		if err := perdure.OnCancel(ctx, "tidy", func(ctx context.Context) error {
			return perdure.Do(ctx, "undo", func(context.Context) error {
				*cleaned++
				return nil
			})
		}); err != nil {
			return 0, err
		}
		return in, perdure.Sleep(ctx, time.Hour)
	}, pattern.CleansUp, limit.Control{Concurrency: 1})
}

// Nothing is done yet that could be undone, so such a run does not wait for its slot to end.
//
// spec
func TestARunInLineThatWouldCleanUpIsCancelledAtOnce(t *testing.T) {
	for name, crash := range map[string]bool{"at once": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cleaned := 0
				def := tidy(&cleaned)
				w := world.New(t, def)
				defer w.End()
				for _, id := range []string{"a", "b"} {
					world.StartAndSettle(w, def, 0, perdure.ID(id))
				}
				if crash {
					w.Crash()
				}
				world.NoError(t, w.Engine.Cancel(t.Context(), "b", "not needed"))
				synctest.Wait()
				if got := w.Status("b"); got != journal.Cancelled || cleaned != 0 {
					t.Errorf("b is %v, with %d clean-ups", got, cleaned)
				}
				world.NoError(t, w.Engine.Cancel(t.Context(), "a", "not needed"))
				synctest.Wait()
				if got := w.Status("a"); got != journal.Cancelled || cleaned != 1 {
					t.Errorf("a is %v, with %d clean-ups", got, cleaned)
				}
				noSlots(t, w)
			})
		})
	}
}

// spec
func TestARetryGetsInLineAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := true
		def := perdure.Define("job", func(ctx context.Context, in int) (int, error) {
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			return in, perdure.Do(ctx, "work", func(context.Context) error {
				if fails {
					return perdure.Permanent(context.Canceled)
				}
				return nil
			})
		}, limit.Control{Concurrency: 1})
		w := world.New(t, def)
		defer w.End()
		_, _, err := world.Result(w, def, 1, perdure.ID("a"))
		if err == nil {
			t.Fatal("it does not fail")
		}
		fails = false
		world.StartAndSettle(w, def, 2, perdure.ID("b"))
		again, err := w.Engine.Retry(t.Context(), "a")
		world.NoError(t, err)
		synctest.Wait()
		if got := w.Status(again.RunID()); got != journal.Pending {
			t.Errorf("the retry is %v, but b has the only slot", got)
		}
		for _, id := range []string{"a", "b"} {
			if _, err := world.OutcomeOf(w, def, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		noSlots(t, w)
	})
}

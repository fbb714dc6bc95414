package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/pattern"
)

// An ask may be in the very commit by which its run ends, or is continued.
//
// spec: R-32, B-9
func TestARunThatEndsWhileItAsksLeavesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := limit.Semaphore{Name: "p"}
		def := perdure.Define("asks", func(ctx context.Context, in int) (int, error) {
			for range 3 {
				perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
					_, err := lock.Acquire(ctx)
					return 0, err
				})
				perdure.Async(ctx, "s", func(context.Context) (int, error) { return 0, nil },
					limit.Control{Name: "r", Rate: limit.Rate{Tokens: 1, Per: time.Minute}})
			}
			if in == 1 {
				return 0, perdure.ContinueAsNew(ctx, 2)
			}
			return 1, perdure.Sleep(ctx, time.Second*time.Duration(in))
		})
		w := world.New(t, def)
		defer w.End()
		for in := range 4 {
			world.StartAndSettle(w, def, in)
		}
		time.Sleep(time.Hour)
		noSlots(t, w)
	})
}

// spec: R-11, B-9
func TestACleanUpTakesTheLockThatTheCancelledCodeHad(t *testing.T) {
	for name, crash := range map[string]bool{"at once": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := limit.Semaphore{Name: "p"}
				def := perdure.Define("r", func(ctx context.Context, _ int) (int, error) {
					if err := perdure.OnCancel(ctx, "tidy", func(ctx context.Context) error {
						return lock.Do(ctx, func(ctx context.Context) error {
							return perdure.Sleep(ctx, time.Minute)
						})
					}); err != nil {
						return 0, err
					}
					return 1, lock.Do(ctx, func(ctx context.Context) error {
						return perdure.Sleep(ctx, time.Hour)
					})
				})
				w := world.New(t, def)
				defer w.End()
				world.StartAndSettle(w, def, 0, perdure.ID("a"))
				world.NoError(t, w.Engine.Cancel(t.Context(), "a", "no"))
				synctest.Wait()
				if crash {
					w.Crash()
				}
				time.Sleep(10 * time.Minute)
				if got := w.Status("a"); got != journal.Cancelled {
					t.Errorf("it is %v: %s", got, w.Describe("a").Why)
				}
				noSlots(t, w)
			})
		})
	}
}

// spec: B-9
func TestACancelledBranchFreesItsSlot(t *testing.T) {
	for name, crash := range map[string]bool{"at once": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := limit.Semaphore{Name: "p"}
				def := perdure.Define("r", func(ctx context.Context, _ int) (int, error) {
					f := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
						return 0, lock.Do(ctx, func(ctx context.Context) error {
							return perdure.Sleep(ctx, time.Hour)
						})
					})
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return 0, err
					}
					if _, err := f.Cancel(ctx, "no"); err != nil {
						return 0, err
					}
					return 1, lock.Do(ctx, func(ctx context.Context) error {
						return perdure.Sleep(ctx, time.Hour)
					})
				})
				w := world.New(t, def)
				defer w.End()
				world.StartAndSettle(w, def, 0, perdure.ID("a"))
				time.Sleep(2 * time.Minute)
				if crash {
					w.Crash()
				}
				time.Sleep(10 * time.Hour)
				if got := w.Status("a"); got != journal.Completed {
					t.Errorf("it is %v: %s", got, w.Describe("a").Why)
				}
				noSlots(t, w)
			})
		})
	}
}

// The effects of the run that failed are undone, although the retry has no slot.
//
// spec
func TestARetryInLineThatIsCancelledIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned, fails := 0, true
		def := perdure.Define("tidy", func(ctx context.Context, in int) (int, error) {
			if err := perdure.OnCancel(ctx, "tidy", func(ctx context.Context) error {
				return perdure.Do(ctx, "undo", func(context.Context) error {
					cleaned++
					return nil
				})
			}); err != nil {
				return 0, err
			}
			if err := perdure.Do(ctx, "reserve", func(context.Context) error {
				return nil
			}); err != nil {
				return 0, err
			}
			if fails {
				return 0, perdure.Do(ctx, "work", func(context.Context) error {
					return perdure.Permanent(errors.New("no"))
				})
			}
			return in, perdure.Sleep(ctx, time.Hour)
		}, pattern.CleansUp, limit.Control{Concurrency: 1})
		w := world.New(t, def)
		defer w.End()
		if _, _, err := world.Result(w, def, 1, perdure.ID("a")); err == nil {
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
		world.NoError(t, w.Engine.Cancel(t.Context(), again.RunID(), "no"))
		synctest.Wait()
		if got := w.Status(again.RunID()); got != journal.Cancelled || cleaned != 1 {
			t.Errorf("the retry is %v, with %d clean-ups", got, cleaned)
		}
	})
}

package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// Runs that an engine claims together get in line in the order of their starts, although it
// computes their keys at the same time.
//
// spec: R-32, B-9
func TestRunsThatAreClaimedTogetherAreInLineInTheOrderOfTheirStarts(t *testing.T) {
	const starts = 300
	for name, c := range map[string]struct {
		control limit.Control
		want    func(begun []int) bool
	}{
		"first come first admitted": {limit.Control{Concurrency: 1}, slices.IsSorted[[]int]},
		"the last input counts": {
			limit.Control{Debounce: limit.Debounce{Quiet: time.Second}},
			func(begun []int) bool { return len(begun) == 1 && begun[0] == starts-1 },
		},
		"the last start replaces the others": {
			limit.Control{Singleton: limit.Replace},
			func(begun []int) bool {
				return slices.IsSorted(begun) && len(begun) > 0 && begun[len(begun)-1] == starts-1
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun []int
				def := perdure.Define("job", func(ctx context.Context, in int) (int, error) {
					return in, perdure.Do(ctx, "do", func(context.Context) error {
						begun = append(begun, in)
						return nil
					})
				}, c.control)
				w := world.New(t, def)
				w.Kill()
				outside, err := perdure.NewClient(t.Context(), w.DB, def)
				world.NoError(t, err)
				var all []int
				for i := range starts {
					all = append(all, i)
				}
				_, errs := def.StartAll(t.Context(), outside, all, nil)
				world.NoError(t, errors.Join(errs...))
				w.Begin()
				time.Sleep(time.Minute)
				synctest.Wait()
				if !c.want(begun) {
					t.Errorf("begun in the order %s", fmt.Sprint(begun))
				}
				noSlots(t, w)
				w.End()
			})
		})
	}
}

// A key whose computation does not return holds up the runs after it for a moment only.
//
// spec: R-32
func TestAKeyThatIsNeverComputedDoesNotHoldUpOthersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		def := perdure.Define("job", func(context.Context, int) (int, error) {
			return 1, nil
		}, limit.Control{PerKey: 1, Key: limit.By(func(in int) string {
			if in == 0 {
				<-free
			}
			return fmt.Sprint(in)
		})})
		w := world.New(t, def)
		w.Kill()
		outside, err := perdure.NewClient(t.Context(), w.DB, def)
		world.NoError(t, err)
		runs, errs := def.StartAll(t.Context(), outside, []int{0, 1, 2}, nil)
		world.NoError(t, errors.Join(errs...))
		w.Begin()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.Count()[journal.Completed]; got != 2 {
			t.Errorf("%d runs have ended, want 2", got)
		}
		close(free)
		_, err = runs[0].Result(t.Context())
		world.NoError(t, err)
		noSlots(t, w)
		w.End()
	})
}

// A run that was started first is before others in line, although an engine asked for it later.
//
// spec: R-32
func TestWhoWasStartedFirstIsFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var begun []int
		def := perdure.Define("job", func(ctx context.Context, in int) (int, error) {
			err := perdure.Do(ctx, "do", func(context.Context) error {
				begun = append(begun, in)
				return nil
			})
			return in, errors.Join(err, perdure.Sleep(ctx, time.Hour))
		}, limit.Control{PerKey: 1, Key: limit.By(func(in int) string {
			if in == 1 {
				<-free
			}
			return "one"
		})})
		w := world.New(t, def)
		_, err := def.Start(t.Context(), w.Engine, 0)
		world.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		w.Kill()
		outside, err := perdure.NewClient(t.Context(), w.DB, def)
		world.NoError(t, err)
		for in := range 3 {
			time.Sleep(time.Second)
			_, err = def.Start(t.Context(), outside, in+1)
			world.NoError(t, err)
		}
		w.Begin()
		time.Sleep(time.Minute)
		synctest.Wait() // 2 and 3 wait in line
		close(free)
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if want := []int{0, 1, 2, 3}; !slices.Equal(begun, want) {
			t.Errorf("begun in the order %v, want %v", begun, want)
		}
		noSlots(t, w)
		w.End()
	})
}

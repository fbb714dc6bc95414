package limits

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// spec: B-9
func TestASettingKeepsThePriorityOfASingleton(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		def := perdure.Define("job", func(ctx context.Context, in string) (string, error) {
			order = append(order, in)
			time.Sleep(time.Second)
			return in, nil
		}, limit.Control{
			Singleton: limit.Join, Key: limit.By(func(in string) string { return in }),
			Rank: limit.RankBy(func(in string) int { return len(in) }),
		})
		w := world.New(t, def)
		defer w.End()
		world.NoError(t, admin.New(w.Engine).SetLimit(t.Context(), "job", limit.Bounds{
			Concurrency: number(1),
		}, operator))
		time.Sleep(time.Minute)
		for _, in := range []string{"first", "a", "ccc", "bb"} {
			world.StartAndSettle(w, def, in)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"first", "ccc", "bb", "a"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// spec: B-9
func TestARunThatEndsWhileItIsGathered(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var rec record
			def := perdure.Define("index", rec.code(), limit.Control{
				Gather: limit.Gather{Within: time.Minute},
			})
			parent := perdure.Define("parent", func(ctx context.Context, in string) (string,
				error) {
				return def.Child(ctx, []string{in}, perdure.ID("child")).Await(ctx)
			})
			slow := time.Time{}
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def, parent}}
			w.Options.Build = "test"
			w.Wrap = func(s store.Store) store.Store {
				return slowSlots{s, func(q store.SlotQuery, s []store.Slot) {
					if time.Since(slow) > 0 && q.Count == limit.MostGathered {
						time.Sleep(2 * time.Second)
					}
				}}
			}
			slow = time.Now().Add(time.Minute - time.Second)
			w.Begin()
			defer w.End()
			a := world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
			world.StartAndSettle(w, def, []string{"x"}, perdure.ID("x"))
			p := world.StartAndSettle(w, parent, "c")
			time.Sleep(time.Minute + 3*time.Second)
			if cancels {
				world.NoError(t, w.Engine.Cancel(t.Context(), "x", "no"))
				world.NoError(t, w.Engine.Cancel(t.Context(), "child", "no"))
			}
			late := world.StartAndSettle(w, def, []string{"late"}, perdure.ID("late"))
			for _, r := range []*perdure.Run[string]{a, p, late} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				_, err := r.Result(ctx)
				cancel()
				if cancels && r == p {
					world.CodeIs(t, err, journal.CodeCancelled)
				} else {
					world.NoError(t, err)
				}
			}
			if s := w.Status("a"); s != journal.Completed {
				t.Error(s, w.Describe("a").Why)
			}
			noSlots(t, w)
		})
	}
}

package limits

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

type slowBefore struct {
	store.Store
	f func(q store.SlotQuery)
}

func (e slowBefore) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	e.f(q)
	return e.Store.(store.SlotReader).Slots(ctx, q)
}

// spec: B-9
func TestAChildThatIsGatheredWhileItLooksHasNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
			return fmt.Sprint(in), perdure.Sleep(ctx, 10*time.Hour)
		}, limit.Control{
			Gather: limit.Gather{Within: time.Minute},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}, perdure.ID("child")).Await(ctx)
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def, parent}}
		w.Options.Build = "test"
		w.Wrap = func(s store.Store) store.Store {
			return slowBefore{s, func(q store.SlotQuery) {
				if q.Count == 1 {
					time.Sleep(5 * time.Second)
				}
			}}
		}
		w.Begin()
		defer w.End()
		world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
		time.Sleep(58 * time.Second)
		p := world.StartAndSettle(w, parent, "c")
		time.Sleep(10 * time.Second)
		begin := time.Now()
		world.StartAndSettle(w, def, []string{"late"}, perdure.ID("late"))
		for w.Status("late") == w.Status("child") && time.Since(begin) < 20*time.Hour {
			time.Sleep(time.Minute)
		}
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("the late one begins after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Hour)
		defer cancel()
		if out, err := p.Result(ctx); err != nil || out != "[a c]" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

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

// A slowAfter answers a question about slots late: what it says may be out of date then.
type slowAfter struct {
	store.Store
	wait func(q store.SlotQuery, line []store.Slot) time.Duration
}

func (e slowAfter) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	line, err := e.Store.(store.SlotReader).Slots(ctx, q)
	time.Sleep(e.wait(q, line))
	return line, err
}

// A run that looks who has the slot may get it meanwhile. It must not stand in line then: nobody
// would wake it.
//
// spec: B-9
func TestARunThatGetsItsSlotWhileItLooksGoesOn(t *testing.T) {
	for name, c := range map[string]limit.Control{
		"debounce": {Debounce: limit.Debounce{Quiet: 10 * time.Second}},
		"gather":   {Gather: limit.Gather{Within: 10 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			def := perdure.Define("index", func(_ context.Context, in []string) (string, error) {
				return fmt.Sprint(in), nil
			}, c)
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def}}
			w.Options.Build = "test"
			w.Wrap = func(s store.Store) store.Store {
				return slowAfter{s, func(_ store.SlotQuery, line []store.Slot) time.Duration {
					if len(line) == 1 { // the first run sees itself alone, and takes nobody
						return 2 * time.Second
					}
					return 10 * time.Second
				}}
			}
			w.Begin()
			defer w.End()
			world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
			time.Sleep(13 * time.Second) // it has looked once, and looks for its line now
			second := world.StartAndSettle(w, def, []string{"b"}, perdure.ID("b"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if out, err := second.Result(ctx); err != nil || out != "[b]" {
				t.Errorf("%s: %q, %v; it waits: %s", name, out, err, w.Describe("b").Why)
			}
		})
	}
}

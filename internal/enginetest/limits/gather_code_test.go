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
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

type slowSlots struct {
	store.Store
	f func(q store.SlotQuery, s []store.Slot)
}

func (e slowSlots) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	s, err := e.Store.(store.SlotReader).Slots(ctx, q)
	e.f(q, s)
	return s, err
}

// spec: B-9
func TestAReplaceIsNotLostIfTheFirstInLineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("one", func(ctx context.Context, in string) (string, error) {
			return in, perdure.Sleep(ctx, 10*time.Hour)
		}, limit.Control{Singleton: limit.Replace})
		slow := false
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def}}
		w.Options.Build = "test"
		w.Wrap = func(s store.Store) store.Store {
			return slowSlots{s, func(q store.SlotQuery, s []store.Slot) {
				if slow {
					slow = false
					time.Sleep(5 * time.Second)
				}
			}}
		}
		w.Begin()
		defer w.End()
		a := world.StartAndSettle(w, def, "a")
		slow = true
		world.StartAndSettle(w, def, "x", perdure.ID("x"))
		time.Sleep(time.Second)
		world.StartAndSettle(w, def, "y", perdure.ID("y"))
		time.Sleep(time.Second)
		world.NoError(t, w.Engine.Cancel(t.Context(), "x", "no"))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := a.Result(ctx)
		world.CodeIs(t, err, journal.CodeCancelled)
	})
}

// spec: B-9
func TestASuspendedRunInLineIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("one", func(ctx context.Context, in string) (string, error) {
			err := perdure.Finally(ctx, "leave", func(ctx context.Context) error {
				return perdure.Sleep(ctx, 10*time.Second)
			})
			if err != nil {
				return "", err
			}
			return in, perdure.Sleep(ctx, time.Minute)
		}, limit.Control{Singleton: limit.Replace})
		w := world.New(t, def)
		defer w.End()
		world.StartAndSettle(w, def, "a")
		world.StartAndSettle(w, def, "x", perdure.ID("x"))
		world.NoError(t, w.Engine.Suspend(t.Context(), "x", "look"))
		synctest.Wait()
		world.StartAndSettle(w, def, "y", perdure.ID("y"))
		time.Sleep(time.Minute)
		z := world.StartAndSettle(w, def, "z", perdure.ID("z"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if out, err := z.Result(ctx); err != nil || out != "z" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// spec: B-9
func TestAGatheredChildIsNotDoneAgainIfTheCodeGathersNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		code := func(ctx context.Context, in []string) (string, error) {
			out, err := rec.code()(ctx, in)
			if err != nil {
				return "", err
			}
			return out, perdure.Sleep(ctx, time.Hour)
		}
		def := perdure.Define("index", code, limit.Control{
			Gather: limit.Gather{Within: time.Minute},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}).Await(ctx)
		})
		w := world.New(t, def, parent)
		defer w.End()
		world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
		world.StartAndSettle(w, parent, "b", perdure.ID("p"))
		time.Sleep(2 * time.Minute)
		w.Deploy("v2", perdure.Define("index", code), parent)
		out, err := world.OutcomeOf(w, parent, "p")
		if err != nil || out != "[a b]" || len(rec.all) != 1 {
			t.Errorf("%q, %v; they began with %v", out, err, rec.all)
		}
		noSlots(t, w)
	})
}

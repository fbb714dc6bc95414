package patterns

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
)

// What leaves its policy to the engine has that of the engine, and keeps the one that it has begun
// with when a later engine has another.
//
// spec: P-12, P-13
func TestTheEngineHasABackpressurePolicy(t *testing.T) {
	for name, define := range map[string]func(func(context.Context) error) perdure.Definition{
		"list": func(do func(context.Context) error) perdure.Definition {
			return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				_, err := backpressure.ForEach(ctx, "item", make([]int, 9),
					backpressure.Each[int]{Policy: backpressure.Default},
					func(ctx context.Context, _ int) (int, error) { return 0, do(ctx) })
				return 0, err
			})
		},
		"saga": func(do func(context.Context) error) perdure.Definition {
			s := saga.New[int]("w", perdure.Timeout(time.Hour)).Backpressure(backpressure.Default)
			for i := range 9 {
				saga.Add(s, fmt.Sprint("s", i), func(ctx context.Context, _ int) (int, error) {
					return 0, do(ctx)
				})
			}
			return s
		},
	} {
		for after := 30 * time.Second; after < 5*time.Minute; after += 30 * time.Second {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				now, most := 0, 0
				def := define(func(ctx context.Context) error {
					mu.Lock()
					now++
					most = max(most, now)
					mu.Unlock()
					err := nap(ctx, time.Minute)
					mu.Lock()
					now--
					mu.Unlock()
					return err
				})
				w := world.With(t, perdure.Options{
					Backpressure: backpressure.Config{Strategy: "batched", BatchSize: 2},
				}, def)
				defer w.End()
				_, err := w.Engine.Start(t.Context(), "w", []byte("1"), perdure.ID("w"))
				world.NoError(t, err)
				time.Sleep(after)
				w.Kill()
				synctest.Wait()
				w.Options.Backpressure = backpressure.Config{}
				w.Begin()
				time.Sleep(time.Hour)
				if got := w.Status("w"); got != journal.Completed || most != 2 {
					t.Errorf("%s, after %v: %v, %d at a time", name, after, got, most)
				}
			})
		}
	}
	_, err := perdure.New(memory.New(), perdure.Options{
		Backpressure: backpressure.Config{Strategy: "odd"},
	})
	world.CodeIs(t, err, journal.CodeNotFound)
}

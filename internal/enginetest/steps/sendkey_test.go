package steps

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// A key makes a signal happen once, and an ID a start.
func TestAStartRefusesTheKeyOfASignal(t *testing.T) {
	other, news := perdure.Define("other", world.Nothing), perdure.NewSignal[int]("news")
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx, key := t.Context(), perdure.SendKey("k")
		_, byType := other.Start(ctx, w.Engine, 1, key)
		_, byName := w.Engine.Start(ctx, "other", []byte("1"), key)
		_, many := other.StartAll(ctx, w.Engine, []int{1}, func(int) []perdure.StartOption {
			return []perdure.StartOption{key}
		})
		for _, err := range []error{byType, byName, many[0]} {
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		if _, err := perdure.SendWithStart(ctx, w.Engine, news, 1, other, 1, perdure.ID("x"),
			key); err != nil {
			t.Error(err)
		}
	}, other)
}

package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/limit"
)

// spec: B-9
func TestARetriedChildDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := true
		one := perdure.Define("one", func(ctx context.Context, in string) (string, error) {
			if fails && in == "child" {
				return "", perdure.Fail(ctx, errors.New("no luck"))
			}
			return in, perdure.Sleep(ctx, time.Minute)
		}, limit.Control{Singleton: limit.Join})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return one.Child(ctx, in, perdure.ID("child")).Await(ctx)
		})
		w := world.New(t, one, parent)
		defer w.End()
		p := world.StartAndSettle(w, parent, "child", perdure.ID("p"))
		if _, err := p.Result(t.Context()); err == nil {
			t.Fatal("it does not fail")
		}
		fails = false
		world.StartAndSettle(w, one, "other")
		again, err := w.Engine.Retry(t.Context(), "p")
		world.NoError(t, err)
		synctest.Wait()
		if out, err := again.Result(t.Context()); err != nil || string(out) != `"child"` {
			t.Errorf("%s, %v", out, err)
		}
		noSlots(t, w)
	})
}

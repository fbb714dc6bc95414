package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// A signal of the engine does not reach the store. Before the engine sends it again, somebody else
// sends the run another signal with the same key. The store cannot tell them apart: the run gets
// the one that is there.
//
// spec: R-17, L-6
func TestASignalThatIsSentAgainIsNotTakenForAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loud, quiet := perdure.NewSignal[string]("loud"), perdure.NewSignal[string]("quiet")
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return quiet.Wait(ctx)
		})
		var w *world.World
		var lost atomic.Bool
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			if c := &g.Changes[0]; g.Engine == 0 || len(c.Posts) == 0 || lost.Swap(true) {
				return do()
			}
			c, err := perdure.NewClient(t.Context(), w.DB)
			if err == nil {
				_, err = quiet.Send(t.Context(), c, "x", "psst", perdure.SendKey("k"))
			}
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			return storetest.ErrInjected
		}}
		w = world.Hooked(t, h, perdure.Options{IdleTimeout: time.Minute}, wf)
		defer func() { w.End() }()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it waits
		_, err = loud.Send(t.Context(), w.Engine, run.ID(), "hey", perdure.SendKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := run.Result(ctx); got != "psst" || err != nil || !lost.Load() {
			t.Errorf("%q, %v, lost: %t", got, err, lost.Load())
		}
		w.History(run.ID())
	})
}

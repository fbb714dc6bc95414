package perdure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// A store that is lost while a run has the next entries ready, and more in a turn that goes
// on, ends the engine and nothing else.
//
// spec: L-12
func TestStoreIsLostWhileMoreIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, turns := 0, make(chan bool, 1)
		h := &hook{commit: func(_ *store.Group, do func() error) error {
			if n++; n == 1 {
				return do()
			}
			time.Sleep(10 * time.Millisecond)
			return store.ErrClosed
		}}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := perdure.Sleep(ctx, 2*time.Millisecond); err != nil {
				return 0, err
			}
			if err := perdure.Publish(ctx, "x", 1); err != nil {
				return 0, err
			}
			turns <- true
			time.Sleep(20 * time.Millisecond) // it has the turn when the store is lost
			return 0, nil
		})
		w := hooked(t, h, perdure.Options{}, wf)
		if _, err := wf.Start(context.Background(), w.eng, 0); err != nil {
			t.Fatal(err)
		}
		<-turns
		time.Sleep(time.Second)
		if !w.stopped() || n != 2 {
			t.Errorf("stopped: %v, after %d commits", w.stopped(), n)
		}
		w.stop()
	})
}

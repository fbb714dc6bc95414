package kernel

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A slowStore commits one group for each value that it is sent.
type slowStore struct {
	store.Store
	next chan struct{}
}

func (s *slowStore) Commit(ctx context.Context, g *store.Group) error {
	<-s.next
	return s.Store.Commit(ctx, g)
}

// Memory that is not durable is bounded: above the bound starts wait, and no step begins.
//
// spec: L-7
func TestWhatIsNotDurableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starts, size, bound = 50, 10_000, 100_000
		s := &slowStore{memory.New(), make(chan struct{})}
		e := New(s, Config{
			MaxPending: bound, MaxPayload: 1 << 20, SpillOver: 1 << 20, Capacity: 2 * starts,
			MaxLoaded: 1 << 30, MaxCrashes: 20, Sweep: -1,
		})
		var begun atomic.Int64
		w := &Workflow{Name: "w", Body: func(
			ctx context.Context, _ []byte,
		) ([]byte, *journal.Failure) {
			step := Step{Name: "s"}
			step.Body = func(context.Context) ([]byte, *journal.Failure) {
				begun.Add(1)
				return nil, nil
			}
			out, _ := Do(ctx, step)
			return nil, out.Failure
		}}
		if err := e.Register(w); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		for i := range starts {
			input := make([]byte, size*min(i, 1)) // the first one is small
			go func() {
				if _, err := e.Start(ctx, Start{
					Workflow: "w", ID: fmt.Sprint(i), Input: input,
				}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		k, _ := e.current()
		if n := k.gate.bytes.Load(); n < bound || n > bound+2*size {
			t.Errorf("%d bytes wait to be durable, the bound is %d", n, bound)
		}
		s.next <- struct{}{} // the first run is durable, and the other runs that have begun are not
		synctest.Wait()
		if n := begun.Load(); n > 0 || k.gate.open() {
			t.Errorf("%d steps begin while %d bytes wait to be durable", n, k.gate.bytes.Load())
		}
		close(s.next)
		time.Sleep(time.Second)
		if n := begun.Load(); n != starts || k.gate.bytes.Load() != 0 {
			t.Errorf("in the end %d steps have begun, and %d bytes wait", n, k.gate.bytes.Load())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

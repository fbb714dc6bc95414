package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
)

// A client that shares the store of an engine in one process starts runs that the engine takes up
// at once, not at its next sweep.
//
// spec: P-2
func TestAClientOnTheStoreOfAnEngineStartsRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 7, nil })
		w := world.New(t, wf)
		defer w.End()
		synctest.Wait()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB, wf))
		began := time.Now()
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), client, 1))
		if got, err := run.Result(t.Context()); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("in virtual time it took %v", took)
		}
	})
}

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/limit"
)

// Starts come through three nodes, of which one is killed. Each input is in the list of one run.
//
// spec: B-9, R-33
func TestEachStartIsInOneListOnManyNodes(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			lists := map[string][]string{} // by run ID
			wf := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
				info, err := perdure.InfoOf(ctx)
				if err != nil {
					return "", err
				}
				mu.Lock()
				lists[info.RunID] = in
				mu.Unlock()
				return fmt.Sprint(in), perdure.Sleep(ctx, time.Second)
			}, limit.Control{
				Gather: limit.Gather{Most: 4, Within: 3 * time.Second}, Concurrency: 2,
			})
			c := world.NewCluster(t, 3, wf)
			defer c.End()
			var want []string
			for i := range 60 {
				if i == 25 {
					c.Kill(c.Nodes[2])
				}
				node := c.Nodes[rng.IntN(2)]
				if i < 25 {
					node = c.Nodes[rng.IntN(3)]
				}
				id := fmt.Sprintf("%02d", i)
				_, err := wf.Start(t.Context(), node.Engine, []string{id}, perdure.ID(id))
				world.NoError(t, err)
				want = append(want, id)
				time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			var got []string
			for _, list := range lists {
				got = append(got, list...)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("seed %d: the lists are %v", seed, lists)
			}
			for _, id := range want {
				run, err := c.Nodes[0].Engine.Get(t.Context(), id)
				world.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if _, err := run.Result(ctx); err != nil {
					t.Errorf("seed %d: %s: %v", seed, id, err)
				}
				cancel()
			}
		})
	}
}

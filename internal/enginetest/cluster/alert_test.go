package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/internal/enginetest/world"
)

// A postman notes the workflow IDs that mails are about. It cannot reach the address bad@a.b.
type postman struct {
	mu   sync.Mutex
	told map[string]int
}

func (p *postman) Mail(_ context.Context, m alert.Mail) error {
	time.Sleep(30 * time.Millisecond)
	if m.Address == "bad@a.b" {
		return errors.New("nobody is there")
	}
	_, id, _ := strings.Cut(m.Subject, "run ")
	id, _, _ = strings.Cut(id, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[id]++
	return nil
}

// The node that has the run of alerts dies at any time while runs end. The others take that run
// over. Each run that has failed is told of, and no other.
//
// spec: R-31
func TestEachFailedRunIsToldOfThoughTheNodeOfAlertsDies(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 31))
			wf := perdure.Define("bill", func(ctx context.Context, fails bool) (int, error) {
				return perdure.Step(ctx, "pay", func(context.Context) (int, error) {
					time.Sleep(20 * time.Millisecond)
					if fails {
						return 0, errors.New("no money")
					}
					return 1, nil
				}, perdure.NoRetry)
			})
			post := &postman{told: map[string]int{}}
			c := world.NewCluster(t, 0)
			defer c.End()
			join := func() {
				w := c.Node(wf, alert.Workflow(alert.Options{Mail: post}))
				w.Options.IdleTimeout = time.Hour // the run of alerts stays where it is
				w.Begin()
			}
			join()
			world.NoError(t, alert.Set(t.Context(), c.Nodes[0].Engine, "bill", alert.Rule{
				To:     []string{"mailto:bad@a.b", "mailto:good@a.b"},
				Causes: []alert.Cause{alert.CauseEnded},
			}, admin.Note{}))
			join()
			join()
			dies := 5 + rng.IntN(20)
			want := []string{}
			for i := range 40 {
				if i == dies {
					c.Kill(c.Nodes[0])
				}
				node := c.Nodes[1+rng.IntN(2)]
				if i < dies {
					node = c.Nodes[rng.IntN(3)]
				}
				id, fails := fmt.Sprintf("%02d", i), rng.IntN(3) > 0
				_, err := wf.Start(t.Context(), node.Engine, fails, perdure.ID(id))
				world.NoError(t, err)
				if fails {
					want = append(want, id)
				}
				time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			post.mu.Lock()
			defer post.mu.Unlock()
			var got []string
			for id := range post.told {
				got = append(got, id)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("seed %d: told of %v, want %v", seed, got, want)
			}
		})
	}
}

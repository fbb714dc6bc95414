package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
)

// mostCounted is the number of runs that one call of Fail starts.
const mostCounted = 60

// Fail starts runs of the workflows whose rules of alerts have thresholds, until over is closed.
// Most of them fail; in half of the cases, all. It returns their workflow IDs, which the prefix
// makes unique, when all have ended.
func (d *Actor) Fail(ctx context.Context, prefix string, over <-chan struct{}) (ids []string,
	err error) {
	x := &dealing{
		Actor: d, Case: &Case{ID: prefix}, rng: rand.New(rand.NewPCG(d.Seed, 23)),
	}
	names := slices.Sorted(maps.Keys(play.Thresholds))
	all := x.rng.IntN(2) == 0
	for pause := 0; len(ids) < mostCounted; {
		if pause--; pause < 0 {
			name := names[x.rng.IntN(len(names))]
			id := fmt.Sprintf("%s/%d/%s", prefix, len(ids), name)
			in, err := json.Marshal(play.Counted{Label: id, Fails: all || x.rng.IntN(8) > 0})
			if err != nil {
				return ids, err
			}
			ids = append(ids, id)
			if err := x.insist(ctx, "count", func(c *perdure.Client) error {
				_, err := c.Start(ctx, name, in, perdure.ID(id), perdure.Dedup(time.Hour))
				return err
			}); err != nil {
				return ids, err
			}
			// several at once, or after more than the time of a rule
			pause = []int{0, 0, 0, 1, 3, 100}[x.rng.IntN(6)]
		}
		if pause > 0 {
			if err := x.rest(ctx); err != nil {
				return ids, err
			}
		}
		select {
		case <-over:
			return ids, x.ended(ctx, ids)
		default:
		}
	}
	return ids, x.ended(ctx, ids)
}

// ended waits until the runs of some workflow IDs have ended.
func (x *dealing) ended(ctx context.Context, ids []string) error {
	return x.insist(ctx, "statuses", func(c *perdure.Client) error {
		all, err := c.Statuses(ctx, ids...)
		for _, s := range all {
			if s.Found && !s.Head.Status.IsTerminal() {
				err = errors.New("a run has not ended yet")
			}
		}
		return err
	})
}

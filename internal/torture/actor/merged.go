package actor

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// A merging is a start whose run may be merged with others, and the result that its handle has; nil
// if the run was cancelled.
type merging struct {
	id, workflow, item string
	result             []string
}

// Merge makes starts that become one run with others, until over is closed. When their runs have
// ended, it judges the results. It returns the workflow IDs, which the prefix makes unique.
func (d *Actor) Merge(ctx context.Context, prefix string, over <-chan struct{}) (ids []string,
	err error) {
	x := &dealing{
		Actor: d, Case: &Case{ID: prefix}, rng: rand.New(rand.NewPCG(d.Seed, 17)),
	}
	workflows := []string{play.Gathers, play.Settles, play.Joins, play.Replaces}
	var all []*merging
	for open := true; open && len(all) < 400; {
		m := &merging{workflow: workflows[x.rng.IntN(len(workflows))]}
		m.item = fmt.Sprintf("%s/%d/%d", prefix, x.rng.IntN(2), len(all))
		m.id = m.item + "/" + m.workflow
		ids, all = append(ids, m.id), append(all, m)
		in, err := json.Marshal([]string{m.item})
		if err != nil {
			return ids, err
		}
		if err := x.insist(ctx, "merge", func(c *perdure.Client) error {
			_, err := c.Start(ctx, m.workflow, in, perdure.ID(m.id), perdure.Dedup(time.Hour))
			return err
		}); err != nil {
			return ids, err
		}
		if x.rng.IntN(3) == 0 {
			if err := x.rest(ctx); err != nil {
				return ids, err
			}
		}
		select {
		case <-over:
			open = false
		default:
		}
	}
	for _, m := range all {
		if err := x.insist(ctx, "merged", func(c *perdure.Client) error {
			return m.read(ctx, c)
		}); err != nil {
			return ids, err
		}
	}
	return ids, judgeMerged(all)
}

// read reads the result.
func (m *merging) read(ctx context.Context, c *perdure.Client) error {
	run, err := c.Get(ctx, m.id)
	if err != nil {
		return err
	}
	data, err := run.Result(ctx)
	if err == nil {
		return json.Unmarshal(data, &m.result)
	}
	if s, e := c.Statuses(ctx, m.id); e == nil && s[0].Head.Status == journal.Cancelled &&
		m.workflow == play.Replaces {
		return nil
	}
	return err
}

// judgeMerged judges the results of starts: those that have become one run have the same one.
func judgeMerged(all []*merging) error {
	by := map[string]*merging{}
	for _, m := range all {
		by[m.workflow+m.item] = m
	}
	for _, m := range all {
		own := slices.Contains(m.result, m.item)
		switch m.workflow {
		case play.Gathers:
			if !own {
				return fmt.Errorf("start %s is not in the list %q", m.id, m.result)
			}
		case play.Replaces:
			if m.result != nil && !own {
				return fmt.Errorf("start %s has replaced others, and has the input %q", m.id,
					m.result)
			}
			continue
		default:
			if len(m.result) != 1 {
				return fmt.Errorf("start %s has the input %q", m.id, m.result)
			}
		}
		for _, item := range m.result {
			other := by[m.workflow+item]
			if other == nil || !slices.Equal(other.result, m.result) {
				return fmt.Errorf("start %s has the input %q, and so has not start %s", m.id,
					m.result, item)
			}
		}
	}
	return nil
}

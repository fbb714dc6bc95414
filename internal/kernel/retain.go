package kernel

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Retention says for how long runs are kept after their end. Below 0 is for
// ever.
type Retention struct {
	Period   time.Duration
	ByStatus map[journal.Status]time.Duration // where it differs
}

// rules gives what a purge may remove of a workflow's runs; of every one that has
// no rules of its own where the name is empty.
func (p Retention) rules(workflow string, now time.Time) []store.Rule {
	var out []store.Rule
	byPeriod := map[time.Duration][]journal.Status{}
	for _, s := range journal.Statuses() {
		if !s.IsTerminal() {
			continue
		}
		period, ok := p.ByStatus[s]
		if !ok {
			period = p.Period
		}
		byPeriod[period] = append(byPeriod[period], s)
	}
	for period, statuses := range byPeriod {
		before := now.Add(-period)
		if period < 0 {
			before = time.Unix(0, 1) // the rule names them and removes none
		}
		out = append(out, store.Rule{Workflow: workflow, Statuses: statuses, Before: before})
	}
	slices.SortFunc(out, func(a, b store.Rule) int { return a.Before.Compare(b.Before) })
	return out
}

// purge removes what is kept no longer, in small batches.
func (k *Kernel) purge(ctx context.Context) (runs, messages int, err error) {
	if err := k.running(ctx, "purge"); err != nil {
		return 0, 0, err
	}
	for {
		if !k.holds() {
			return runs, messages, k.err
		}
		now := time.Now()
		rules := append(k.cfg.Retain.rules("", now), k.retained(now)...)
		p, err := k.store.Purge(ctx, store.Purge{Engine: k.engine, Now: now, Rules: rules})
		if err != nil {
			return runs, messages, unavailable("purge", err)
		}
		runs, messages = runs+p.Runs, messages+p.Unrouted
		if !p.More || ctx.Err() != nil {
			return runs, messages, nil
		}
	}
}

// cleanUp purges now and then, until ctx ends.
func (k *Kernel) cleanUp(ctx context.Context) {
	if k.cfg.CleanUp <= 0 {
		return
	}
	t := time.NewTicker(k.cfg.CleanUp)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_, _, _ = k.purge(ctx)
		case <-ctx.Done():
			return
		case <-k.dead:
			return
		}
	}
}

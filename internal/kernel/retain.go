package kernel

import (
	"context"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// retention returns how long runs of a workflow that start now are kept. It is empty if the engine
// does not know the workflow: then the first engine that does sets it.
func (k *Kernel) retention(workflow string) journal.Retention {
	def := k.Lookup(workflow)
	switch {
	case def == nil:
		return ""
	case def.Retain != "":
		return def.Retain
	}
	return k.cfg.Retain
}

// purge removes the runs and messages that are kept no longer, in small slices.
func (k *Kernel) purge(ctx context.Context) (runs, messages int, err error) {
	if err := k.running(ctx, "purge"); err != nil {
		return 0, 0, err
	}
	unsaid := map[string]journal.Retention{}
	for _, name := range k.names() {
		unsaid[name] = k.retention(name)
	}
	for {
		if !k.holds() {
			return runs, messages, k.cause()
		}
		p, err := k.store.Purge(ctx, store.Purge{Engine: k.engine, Now: k.Now(), Unsaid: unsaid})
		if err != nil {
			return runs, messages, unavailable("purge", err)
		}
		runs, messages = runs+p.Runs, messages+p.Unrouted
		if !p.More || ctx.Err() != nil {
			return runs, messages, nil
		}
	}
}

// returnSlots frees the slots and tokens of runs that are not open. No commit leaves any: only
// somebody else who has written to the database.
func returnSlots(ctx context.Context, k *Kernel) error {
	reader := store.AbilitiesOf(k.store).SlotReader
	if reader == nil {
		return nil
	}
	for {
		lost, err := reader.Slots(ctx, store.SlotQuery{Lost: true, Count: store.MaxLimit})
		if err != nil || len(lost) == 0 {
			return err
		}
		var all []store.Change
		for _, s := range lost {
			all = append(all, store.Change{Run: s.Run, Frees: []int64{s.Slot}})
		}
		if _, err := k.submit(ctx, "return slots", all); err != nil || len(lost) < store.MaxLimit {
			return err
		}
	}
}

// cleanUp returns slots and purges, at the beginning and every CleanUp, until ctx ends.
func (k *Kernel) cleanUp(ctx context.Context) {
	t := time.NewTicker(k.cfg.CleanUp)
	defer t.Stop()
	for {
		if err := returnSlots(ctx, k); err != nil && ctx.Err() == nil {
			k.observe(observe.Notice{Kind: observe.PurgeFailed, Err: err.Error()})
		}
		select {
		case <-t.C:
			k.loops.retention.turn()
			if _, _, err := k.purge(ctx); err != nil && ctx.Err() == nil {
				k.observe(observe.Notice{Kind: observe.PurgeFailed, Err: err.Error()})
			}
		case <-ctx.Done():
			return
		case <-k.dead:
			return
		}
	}
}

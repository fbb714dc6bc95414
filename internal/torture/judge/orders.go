package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/journal"
)

// isUndo reports whether a call takes back the effect of another call.
func isUndo(c Call) bool {
	what := c.Label[strings.LastIndexByte(c.Label, '/')+1:]
	return c.After != "" && (strings.Contains(what, "undo") || strings.Contains(what, "cancel"))
}

// undone judges that each effect is undone under one key, whatever runs go on from the one that had
// it, and that it does not take place again under the same key.
func (b *bench) undone() {
	b.undoing = map[string]map[string]time.Time{}
	first := map[string]time.Time{}
	for _, c := range b.Calls {
		if !isUndo(c) {
			continue
		}
		i := slices.IndexFunc(b.calls[c.After], func(d Call) bool { return d.Gave == c.Number })
		if i < 0 {
			continue // see seen
		}
		of := b.calls[c.After][i].Key
		if b.undoing[of] == nil {
			b.undoing[of] = map[string]time.Time{}
		}
		if at, ok := b.undoing[of][c.Key]; !ok || c.Began.Before(at) {
			b.undoing[of][c.Key] = c.Began
		}
		if at, ok := first[of]; !ok || c.Began.Before(at) {
			first[of] = c.Began
		}
		if len(b.undoing[of]) > 1 {
			b.wrong("%s undoes an effect of %s that was undone under another key", c.Label, c.After)
		}
	}
	for _, c := range b.Calls {
		if at, ok := first[c.Key]; ok && c.Began.After(at) {
			b.wrong("%s took place again under the key under which it was undone, %v later",
				c.Label, c.Began.Sub(at))
		}
	}
}

// terminated judges that a run which an operator has terminated neither undoes nor cleans up, if it
// had not begun to.
func (b *bench) terminated() {
	for _, r := range b.Runs {
		if !r.isTerminated() {
			continue
		}
		if r.Head.Status != journal.Cancelled {
			b.wrong("run %s of %s was terminated and is %v", r.Head.ID, r.Head.WorkflowID,
				r.Head.Status)
		}
		if slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
			return e.Kind == journal.RunClosing || e.Kind == journal.CompensationStarted ||
				e.Kind == journal.PhaseStarted || e.Status == journal.Compensating
		}) {
			continue
		}
		for _, c := range b.Calls {
			if c.Run == string(r.Head.ID) && (isUndo(c) || strings.HasSuffix(c.Label, "/clean")) {
				b.wrong("%s took place, and run %s was terminated before it began to end", c.Label,
					r.Head.ID)
			}
		}
	}
}

// isTerminated reports whether an operator has terminated the run.
func (r *Run) isTerminated() bool {
	if len(r.Entries) == 0 {
		return false
	}
	last := r.Entries[len(r.Entries)-1]
	return last.Kind.EndsRun() && last.Detail != nil && last.Detail.Mode == journal.ActionTerminate
}

// stuck judges that a rollback which an operator has ordered stopped for one if a compensation
// failed for good: each, or the first one if the compensation was mended then.
func (b *bench) stuck(c *actor.Case) {
	if c.Program.Stuck == "" {
		return
	}
	rollbacks, stopped := 0, 0
	for _, r := range b.byID[c.ID] {
		if !r.isBy(journal.ActionCompensate) {
			continue
		}
		rollbacks++
		if slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
			return e.Status == journal.CompensationFailed
		}) {
			stopped++
		}
	}
	if stopped < rollbacks && (stopped == 0 || !c.Program.IsMended()) {
		b.wrong("%d of %d rollbacks of %s stopped, and some of its compensations fail for good",
			stopped, rollbacks, c.ID)
	}
}

// asked judges that runs have asked an operator about each phase that fails for good.
func (b *bench) asked(c *actor.Case) {
	for _, a := range c.Want.Asked {
		if !slices.ContainsFunc(b.byID[a[0]], func(r *Run) bool {
			return slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
				return e.Kind == journal.DecisionSought && e.Op.Name == a[1]
			})
		}) {
			b.wrong("%s has not asked what to do about %s, which fails for good", a[0], a[1])
		}
	}
}

package world

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// Describe returns a run as it stands.
func (w *World) Describe(id string) perdure.Description {
	w.T.Helper()
	d, err := w.Engine.Describe(context.Background(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	return d
}

// History returns the journal of a run, and audits it.
func (w *World) History(id string) []journal.Entry {
	w.T.Helper()
	d := w.Describe(id)
	entries, err := w.Engine.History(context.Background(), id, 0, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, bad := range Audit(d, entries) {
		w.T.Errorf("run %s: %s", id, bad)
	}
	return entries
}

// Status returns the status of a run, and 0 if it cannot be read.
func (w *World) Status(id string) journal.Status {
	all, err := w.Engine.Statuses(context.Background(), id)
	if err != nil {
		return 0
	}
	return all[0].Head.Status
}

// Count counts runs by status.
func (w *World) Count() map[journal.Status]int {
	w.T.Helper()
	out := map[journal.Status]int{}
	q := perdure.Query{Limit: 1000}
	for {
		heads, next, err := w.Engine.List(context.Background(), q)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, h := range heads {
			out[h.Status]++
		}
		if q.After = next; next.IsZero() {
			return out
		}
	}
}

// Chain returns the heads of the runs of a workflow ID, the oldest first.
func (w *World) Chain(id string) []journal.Head {
	w.T.Helper()
	heads, _, err := w.Engine.List(context.Background(), perdure.Query{WorkflowID: id, Limit: 1000})
	if err != nil {
		w.T.Fatal(err)
	}
	slices.Reverse(heads)
	return heads
}

// Children returns the heads of a run's children, the oldest first.
func (w *World) Children(id string) []journal.Head {
	w.T.Helper()
	run, err := w.Engine.Get(context.Background(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	heads, _, err := w.Engine.List(context.Background(),
		perdure.Query{Parent: run.RunID(), Limit: 1000})
	if err != nil {
		w.T.Fatal(err)
	}
	slices.Reverse(heads)
	return heads
}

// Unread returns the messages that a run has not taken, each with its payload.
func (w *World) Unread(id string) []string {
	w.T.Helper()
	out := []string{}
	for _, m := range w.Describe(id).Unread {
		out = append(out, m.Name+"="+string(m.Data))
	}
	return out
}

// Told returns all notices of the engines so far.
func (w *World) Told() []observe.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notices)
}

// Seen returns the notices of a kind.
func (w *World) Seen(kind observe.Kind) []observe.Notice {
	var out []observe.Notice
	for _, n := range w.Told() {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

// Forget drops the notices so far.
func (w *World) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = nil
}

// Purged purges by hand, and fails the test if another number of runs is removed.
func (w *World) Purged(want int) {
	w.T.Helper()
	if runs, _, err := w.Engine.Purge(context.Background()); runs != want || err != nil {
		w.T.Errorf("%d runs were removed, %v; want %d", runs, err, want)
	}
}

// Audit returns the faults of a run in the store, by rules that hold for every journal at every
// time.
func Audit(d perdure.Description, entries []journal.Entry) []string {
	var bad []string
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			bad = append(bad, fmt.Sprintf("entry %d has sequence %d", i+1, e.Seq))
		}
		if part := e.Misplaced(); part != "" {
			bad = append(bad, fmt.Sprintf("entry %d is %v and has a %s", i+1, e.Kind, part))
		}
	}
	if len(entries) == 0 || entries[0].Kind != journal.RunStarted {
		return append(bad, "the journal does not begin with the start")
	}
	if d.State.Status != d.Head.Status {
		bad = append(bad, fmt.Sprintf("the head says %v, the journal %v", d.Head.Status,
			d.State.Status))
	}
	terminal := d.Head.Status.IsTerminal()
	if last := entries[len(entries)-1]; last.Kind.EndsRun() != terminal {
		bad = append(bad, fmt.Sprintf("the run is %v and its last entry %v", d.Head.Status,
			last.Kind))
	}
	results := map[journal.Op]journal.Kind{}
	for _, e := range entries {
		if e.Kind.EndsStep() {
			if k := results[e.Op]; k != 0 {
				bad = append(bad, fmt.Sprintf("step %v ended %v and then %v", e.Op, k, e.Kind))
			}
			results[e.Op] = e.Kind
		}
	}
	for _, s := range d.State.Steps {
		if terminal && !s.Status.IsTerminal() && s.Opens == 0 {
			bad = append(bad, fmt.Sprintf("the run is %v and step %s %v", d.Head.Status, s.Path,
				s.Status))
		}
	}
	return bad
}

// Tail returns the kinds and names of the last n entries.
func Tail(entries []journal.Entry, n int) []string {
	var out []string
	for _, e := range entries[max(0, len(entries)-n):] {
		s := e.Kind.String()
		if !e.Op.IsZero() {
			s += " " + e.Op.String()
		}
		out = append(out, s)
	}
	return out
}

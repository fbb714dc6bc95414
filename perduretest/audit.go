package perduretest

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// audit fails the test for every run in the store whose record is wrong.
func (e *Env) audit() {
	e.Helper()
	f := store.Filter{Limit: store.MaxLimit}
	for {
		heads, next, err := e.db.Find(context.Background(), f)
		if err != nil {
			e.Errorf("perduretest: the runs cannot be read: %v", err)
			return
		}
		for _, h := range heads {
			entries, err := e.db.Load(context.Background(), h.Number, store.Range{})
			if err != nil {
				e.Errorf("perduretest: run %s cannot be read: %v", h.ID, err)
				continue
			}
			for _, bad := range faults(h, entries) {
				e.Errorf("perduretest: the journal of run %s is wrong: %s\n%s", h.ID, bad,
					tail(entries))
			}
		}
		if f.After = next; next.IsZero() {
			return
		}
	}
}

// faults returns the faults of a run as it is in the store. The rules hold for every run that no
// engine has loaded, whatever its code did.
func faults(h journal.Head, entries []journal.Entry) []string {
	var bad []string
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if len(entries) == 0 {
		return []string{"it has no entry"}
	}
	if err := journal.Whole(h.Number, 1, entries); err != nil {
		return []string{"it has a hole: " + err.Error()}
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	results := map[journal.Op]journal.Kind{}
	for i, e := range entries {
		if err := a.Apply(e); err != nil {
			return append(bad, fmt.Sprintf("entry %d does not follow: %v", i+1, err))
		}
		if e.Kind.EndsStep() {
			if before := results[e.Op]; before != 0 {
				wrong("step %v ended %v and then %v", e.Op, before, e.Kind)
			}
			results[e.Op] = e.Kind
		}
	}
	s, last := a.Snapshot(), entries[len(entries)-1]
	terminal := h.Status.IsTerminal()
	if s.Status != h.Status {
		wrong("the head says %v, the journal %v", h.Status, s.Status)
	}
	if last.Kind.EndsRun() != terminal || terminal && h.Last != last.Seq {
		wrong("it is %v by entry %d, and its last entry is %d, %v", h.Status, h.Last, last.Seq,
			last.Kind)
	}
	if h.Owner != 0 {
		wrong("engine %d still owns it", h.Owner)
	}
	for _, step := range s.Steps {
		if terminal && step.Opens == 0 && !step.Status.IsTerminal() {
			wrong("it is %v and its step %s %v", h.Status, step.Path, step.Status)
		}
	}
	return bad
}

const tailLength = 12

// tail returns the last entries of a journal, one per line.
func tail(entries []journal.Entry) string {
	var b strings.Builder
	if n := len(entries) - tailLength; n > 0 {
		fmt.Fprintf(&b, "\t… %d entries before\n", n)
		entries = entries[n:]
	}
	for _, e := range entries {
		fmt.Fprintf(&b, "\t%3d %s %s", e.Seq, e.At.UTC().Format("2006-01-02 15:04:05.000"), e.Kind)
		if !e.Op.IsZero() {
			b.WriteString(" " + e.Op.String())
		}
		if e.Status != 0 {
			b.WriteString(" → " + e.Status.String())
		}
		switch f := e.Failure(); {
		case f != nil:
			b.WriteString(": " + clip(f.Message))
		case len(e.Data) > 0:
			b.WriteString(": " + clip(string(e.Data)))
		}
		if d := e.Detail; d != nil && !d.Due.IsZero() {
			b.WriteString(", due " + d.Due.UTC().Format("2006-01-02 15:04:05.000"))
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// clip shortens a text to fit in a line.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\n", " "), "\ufffd")
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}

package judge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Orphans names the open runs of a store that nothing will ever wake: for each open run
// there must be a row that backs one of these.
//
//   - a living engine that owns it
//   - a wake time, at which an engine claims it
//   - nobody owns it, and it waits for a message, which sets the wake time when it comes:
//     a signal, a decision or a resume; all that it has of them was taken or seen
//   - a child that it waits for, which is open itself, or whose end is in the inbox
//
// It asks the store alone. What is written meanwhile by an engine may be seen in part, so
// of a store that is in use a run counts as one that is an orphan twice.
func Orphans(ctx context.Context, s store.Store) ([]string, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	alive := map[journal.EngineID]bool{}
	for _, e := range info.Engines {
		alive[e.ID] = true
	}
	var out []string
	for f := (store.Filter{Open: true, Limit: store.MaxLimit}); ; {
		heads, next, err := s.Find(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			why, err := orphan(ctx, s, h, alive)
			if err != nil {
				return nil, err
			}
			if why != "" {
				out = append(out, fmt.Sprintf("run %s of %s (%s, %v): %s", h.ID, h.WorkflowID,
					h.Workflow, h.Status, why))
			}
		}
		if f.After = next; next.IsZero() {
			return out, nil
		}
	}
}

// orphan returns why nothing wakes a run; empty if something does.
func orphan(ctx context.Context, s store.Store, h journal.Head,
	alive map[journal.EngineID]bool) (string, error) {
	if h.Owner != 0 {
		if alive[h.Owner] {
			return "", nil
		}
		return fmt.Sprintf("engine %d has it, and there is no such engine", h.Owner), nil
	}
	if h.Status == journal.Suspended {
		return "", nil // an operator resumes it by a message
	}
	entries, err := s.Load(ctx, h.Number, store.Range{})
	if err != nil {
		return "", err
	}
	state, bad := Audit(h, entries)
	if len(bad) > 0 {
		return bad[0], nil
	}
	due := earliest(state)
	switch {
	case !h.Wake.IsZero() && (due.IsZero() || !h.Wake.After(due)):
		return "", nil
	case !due.IsZero():
		return fmt.Sprintf("it is to go on at %v, and its wake time is %v", due, h.Wake), nil
	case len(state.Waits) == 0:
		return "nobody has it, it has no wake time and waits for nothing", nil
	}
	return unheard(ctx, s, h, state)
}

// earliest returns when the first of a run's waits is due; zero for never.
func earliest(s journal.Snapshot) time.Time {
	due := s.Due
	for _, w := range s.Waits {
		if !w.Due.IsZero() && (due.IsZero() || w.Due.Before(due)) {
			due = w.Due
		}
	}
	return due
}

// unheard returns the reason if a run waits only for things that have come, or never will.
func unheard(ctx context.Context, s store.Store, h journal.Head, state journal.Snapshot) (string,
	error) {
	inbox, err := s.Load(ctx, h.Number, store.Range{Inbox: true})
	if err != nil {
		return "", err
	}
	for _, w := range state.Waits {
		if w.Kind != journal.WaitChild {
			return "", nil // a message wakes it
		}
	}
	for _, w := range state.Waits {
		children, _, err := s.Find(ctx, store.Filter{Run: w.Child})
		if err != nil {
			return "", err
		}
		open := len(children) == 1 && !children[0].Status.IsTerminal()
		told := slices.ContainsFunc(inbox, func(e journal.Entry) bool {
			return e.Kind == journal.ChildCompleted
		})
		if open || told && !h.Wake.IsZero() {
			return "", nil
		}
	}
	return fmt.Sprintf("it waits for children alone (%s), and they are over", state.Waits[0].Path),
		nil
}

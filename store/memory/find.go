package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find returns the heads that match the filter, newest first.
func (s *Store) Find(_ context.Context, f store.Filter) (heads []journal.Head, next journal.Cursor,
	err error) {
	if err := s.enter(); err != nil {
		return nil, next, err
	}
	defer s.leave()
	runs, looks := s.data.candidates(f)
	for i, r := range slices.Backward(runs) {
		if s.data.matches(f, r) {
			if len(heads) == f.Page() {
				return heads, heads[len(heads)-1].Cursor(), nil
			}
			heads = append(heads, r.head)
		}
		if looks--; looks == 0 && i > 0 {
			return heads, r.head.Cursor(), nil
		}
	}
	return heads, next, nil
}

// candidates returns runs in the order of their creation; all that match are among them. It also
// returns the number of runs to look at; -1 for all of them.
func (d *data) candidates(f store.Filter) (runs []*run, looks int) {
	var some []*run
	switch {
	case f.Run != "":
		some = d.byRunID(f.Run)
	case len(f.Runs) > 0:
		some = d.byRunID(f.Runs...)
	case f.IDs() != nil:
		for _, id := range f.IDs() {
			some = append(some, d.byID[id]...)
		}
	case !f.After.IsZero():
		return d.byAge[:ageIn(d.byAge, f.After)], f.Look()
	default:
		return d.byAge, f.Look()
	}
	slices.SortFunc(some, byAge)
	return slices.Compact(some), -1
}

// byRunID returns the runs with these IDs, as far as they exist.
func (d *data) byRunID(ids ...journal.RunID) []*run {
	var runs []*run
	for _, id := range ids {
		n, ok := id.Number(d.database)
		if r := d.runs[n]; ok && r != nil {
			runs = append(runs, r)
		}
	}
	return runs
}

func byNumber(a, b *run) int { return cmp.Compare(a.head.Number, b.head.Number) }

func byAge(a, b *run) int { return a.head.Cursor().Compare(b.head.Cursor()) }

func (d *data) matches(f store.Filter, r *run) bool {
	h, ids, workflows := &r.head, f.IDs(), f.Names()
	switch {
	case !f.After.IsZero() && h.Cursor().Compare(f.After) >= 0,
		len(f.Runs) > 0 && !slices.Contains(f.Runs, h.ID),
		ids != nil && !slices.Contains(ids, h.WorkflowID),
		f.Newest && d.newest(h.WorkflowID) != r,
		workflows != nil && !slices.Contains(workflows, h.Workflow),
		f.Without != "" && strings.HasPrefix(h.Workflow, f.Without),
		len(f.Patterns) > 0 && !slices.Contains(f.Patterns, h.Pattern),
		f.Parent != 0 && h.Parent != f.Parent,
		f.Owner != 0 && (h.Owner != f.Owner || !r.isOpen()),
		f.Open && !r.isOpen(),
		!f.Busy.IsZero() && !r.isBusy(f.Busy),
		!f.Stale.IsZero() && !r.isStale(f.Stale),
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, h.Status),
		!within(h.Created, f.CreatedFrom, f.CreatedTo),
		!within(h.Ended, f.EndedFrom, f.EndedTo),
		f.Error != "" && !strings.Contains(store.Lower(h.Error), store.Lower(f.Error)):
		return false
	}
	for name, value := range f.Attributes {
		if has, ok := r.attributes[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// within reports whether a time is in a range. A zero time is in none that has a limit.
func within(t, from, to time.Time) bool {
	if t.IsZero() {
		return from.IsZero() && to.IsZero()
	}
	return !t.Before(from) && (to.IsZero() || t.Before(to))
}

// isStale reports whether the run is open and its last entry is older than a time.
func (r *run) isStale(since time.Time) bool {
	last := r.head.Created
	if n := len(r.rows); n > 0 {
		last = r.rows[n-1].entry.At
	}
	return r.isOpen() && last.Before(since)
}

// isBusy reports whether the run is open and either has an owner or is due at that time.
func (r *run) isBusy(by time.Time) bool {
	return r.isOpen() && (r.head.Owner != 0 || !r.head.Wake.IsZero() && !r.head.Wake.After(by))
}

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
func (s *Store) Find(_ context.Context, f store.Filter) ([]journal.Head, journal.Number, error) {
	if err := s.enter(); err != nil {
		return nil, 0, err
	}
	defer s.leave()
	var heads []journal.Head
	for _, r := range slices.Backward(s.data.candidates(f)) {
		if !s.data.matches(f, r) {
			continue
		}
		if len(heads) == f.Page() {
			return heads, heads[len(heads)-1].Number, nil
		}
		heads = append(heads, r.head)
	}
	return heads, 0, nil
}

// candidates returns runs in ascending order of their numbers; all that match are among them.
func (d *data) candidates(f store.Filter) []*run {
	var some []*run
	switch {
	case f.Run != "":
		some = d.byRunID(f.Run)
	case len(f.Runs) > 0:
		some = d.byRunID(f.Runs...)
	case f.WorkflowID != "":
		some = slices.Clone(d.byID[f.WorkflowID])
	case len(f.WorkflowIDs) > 0:
		for _, id := range f.WorkflowIDs {
			some = append(some, d.byID[id]...)
		}
	case f.After != 0:
		return d.byNumber[:d.position(f.After)]
	default:
		return d.byNumber
	}
	slices.SortFunc(some, byNumber)
	return slices.Compact(some)
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

func (d *data) matches(f store.Filter, r *run) bool {
	h := &r.head
	switch {
	case f.After != 0 && h.Number >= f.After,
		len(f.Runs) > 0 && !slices.Contains(f.Runs, h.ID),
		f.WorkflowID != "" && h.WorkflowID != f.WorkflowID,
		len(f.WorkflowIDs) > 0 && !slices.Contains(f.WorkflowIDs, h.WorkflowID),
		f.Newest && d.newest(h.WorkflowID) != r,
		f.Workflow != "" && h.Workflow != f.Workflow,
		f.Without != "" && strings.HasPrefix(h.Workflow, f.Without),
		f.Parent != 0 && h.Parent != f.Parent,
		f.Owner != 0 && (h.Owner != f.Owner || !r.isOpen()),
		f.Open && !r.isOpen(),
		!f.Busy.IsZero() && !r.isBusy(f.Busy),
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, h.Status):
		return false
	}
	for name, value := range f.Attributes {
		if has, ok := r.attributes[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// isBusy reports whether the run is open and either has an owner or is due at that time.
func (r *run) isBusy(by time.Time) bool {
	return r.isOpen() && (r.head.Owner != 0 || !r.head.Wake.IsZero() && !r.head.Wake.After(by))
}

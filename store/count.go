package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
)

// A Count is how many runs with one status Count has found.
type Count struct {
	Status journal.Status
	Runs   int
	More   bool // there may be more than Runs, because not all runs were looked at
}

// A Counter is a store that counts runs faster than by finding them. [CountRuns] asks it.
type Counter interface {
	// Count returns how many runs match the filter by status, in the order of the statuses. The
	// cursor and the limit of the filter are ignored. A status without a run is left out if it is
	// known that there is none.
	//
	// It looks at a bounded number of runs of each kind ([Filter.Counted]), of those that have
	// ended at the newest. If there are more, the counts of that kind have More: there are at least
	// as many runs. This does not apply to Run, Runs and Newest with workflow IDs, whose counts are
	// exact.
	Count(ctx context.Context, f Filter) ([]Count, error)
}

// CountRuns returns how many runs match a filter by status, as a [Counter] does. Of a store that is
// none it looks at the newest runs, whatever their kind.
func CountRuns(ctx context.Context, s Store, f Filter) ([]Count, error) {
	if c := AbilitiesOf(s).Counter; c != nil {
		return c.Count(ctx, f)
	}
	return CountFound(ctx, s, f)
}

// CountFound is CountRuns for a store that finds the runs.
func CountFound(ctx context.Context, s Store, f Filter) (all []Count, err error) {
	for _, kind := range f.Kinds() {
		if len(kind) == 0 {
			continue
		}
		of, found, left := f, map[journal.Status]int{}, f.Counted()
		of.Statuses, of.After, of.Limit = kind, journal.Cursor{}, MaxLimit
		for next := true; next && left > 0; next = !of.After.IsZero() {
			of.Looks = min(left, MaxLimit) // so that a page has room for all that match
			left -= of.Looks
			heads, after, err := s.Find(ctx, of)
			if err != nil {
				return nil, err
			}
			for _, h := range heads {
				found[h.Status]++
			}
			of.After = after
		}
		all = append(all, CountsOf(kind, found, !of.After.IsZero())...)
	}
	SortCounts(all)
	return all, nil
}

// MaxCounted bounds the number of runs that one Count looks at, of each kind ([Filter.Kinds]).
const MaxCounted = 10_000

// Counted returns the number of runs of each kind that Count looks at.
func (f *Filter) Counted() int {
	if f.Looks <= 0 || f.Looks > MaxCounted {
		return MaxCounted
	}
	return f.Looks
}

// The kinds of runs: each kind has an index.
const (
	KindOpen   = iota
	KindFailed // ended, and did not reach their goal
	KindDone   // ended otherwise
)

// Kinds returns the statuses that a run which matches may have, by kind. A kind of which no run
// can match is empty.
func (f *Filter) Kinds() (kinds [3][]journal.Status) {
	isOpen := f.Open || f.Owner != 0 || !f.Busy.IsZero() || !f.Stale.IsZero()
	isEnded := !f.EndedFrom.IsZero() || !f.EndedTo.IsZero()
	for _, s := range journal.Statuses() {
		switch kind := KindOf(s); {
		case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, s),
			kind == KindOpen && isEnded,
			kind != KindOpen && isOpen,
			kind != KindFailed && f.Error != "":
		default:
			kinds[kind] = append(kinds[kind], s)
		}
	}
	return kinds
}

// KindOf returns the kind of runs with a status.
func KindOf(s journal.Status) int {
	switch {
	case s.IsOpen():
		return KindOpen
	case s.IsFailure():
		return KindFailed
	}
	return KindDone
}

// CountsOf returns the counts of a kind, in the order of the statuses: of runs that were found, and
// whether there are more of that kind which nobody has looked at.
func CountsOf(kind []journal.Status, found map[journal.Status]int, more bool) (all []Count) {
	for _, s := range kind {
		if n := found[s]; n > 0 || more {
			all = append(all, Count{s, n, more})
		}
	}
	return all
}

// SortCounts puts counts of several kinds into the order of the statuses.
func SortCounts(all []Count) {
	slices.SortFunc(all, func(a, b Count) int { return cmp.Compare(a.Status, b.Status) })
}

package storetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// TestSuiteFailsWrongLists proves that the checks of lists can fail.
func TestSuiteFailsWrongLists(t *testing.T) {
	const filters = "list/each filter of lists limits, and together they limit more"
	without := func(change func(*store.Filter)) broken {
		return broken{find: func(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor,
			error) {
			change(&f)
			return s.Find(context.Background(), f)
		}}
	}
	never := time.Time{}
	for name, c := range map[string]struct {
		driver broken
		check  string
	}{
		"lists in the order of the numbers": {
			broken{find: byNumber}, "list/runs of all engines come in the order of their creation",
		},
		"continues behind a number of runs": {
			broken{find: byOffset},
			"list/a cursor keeps its position while runs are added and removed",
		},
		"ignores patterns":     {without(func(f *store.Filter) { f.Patterns = nil }), filters},
		"ignores workflows":    {without(func(f *store.Filter) { f.Workflows = nil }), filters},
		"ignores CreatedFrom":  {without(func(f *store.Filter) { f.CreatedFrom = never }), filters},
		"ignores CreatedTo":    {without(func(f *store.Filter) { f.CreatedTo = never }), filters},
		"ignores EndedFrom":    {without(func(f *store.Filter) { f.EndedFrom = never }), filters},
		"ignores EndedTo":      {without(func(f *store.Filter) { f.EndedTo = never }), filters},
		"includes CreatedTo":   {without(func(f *store.Filter) { later(&f.CreatedTo) }), filters},
		"includes EndedTo":     {without(func(f *store.Filter) { later(&f.EndedTo) }), filters},
		"excludes CreatedFrom": {without(func(f *store.Filter) { later(&f.CreatedFrom) }), filters},
		"excludes EndedFrom":   {without(func(f *store.Filter) { later(&f.EndedFrom) }), filters},
		"includes Stale": {
			without(func(f *store.Filter) { later(&f.Stale) }),
			"list/open runs without a new entry are found",
		},
		"ignores errors": {
			without(func(f *store.Filter) { f.Error = "" }), "list/a run is found by its failure",
		},
		"keeps no errors": {broken{commit: noErrors}, "list/a run is found by its failure"},
		"looks at all runs": {
			without(func(f *store.Filter) { f.Looks = 0 }),
			"list/a page looks at a bounded number of runs",
		},
		"finds part of the runs by ID": {
			broken{find: halfOfIDs},
			"list/a page of named runs is complete, however few it looks at",
		},
		"counts without the filter": {
			broken{count: func(s store.Store, f store.Filter) ([]store.Count, error) {
				return store.CountRuns(context.Background(), s, store.Filter{Looks: f.Looks})
			}},
			"count/the counts of each filter are those of its list",
		},
		"looks at all runs to count": {
			broken{count: func(s store.Store, f store.Filter) ([]store.Count, error) {
				f.Looks = 0
				return store.CountRuns(context.Background(), s, f)
			}},
			"count/no more runs of a kind are looked at than the bound",
		},
		"says that all are counted": {
			broken{count: func(s store.Store, f store.Filter) ([]store.Count, error) {
				all, err := store.CountRuns(context.Background(), s, f)
				for i := range all {
					all[i].More = false
				}
				return all, err
			}},
			"count/the counts of each filter are those of its list",
		},
		"counts a part of the named runs": {
			broken{count: func(s store.Store, f store.Filter) ([]store.Count, error) {
				f.Runs = f.Runs[:len(f.Runs)/2]
				return store.CountRuns(context.Background(), s, f)
			}},
			"count/the counts of named runs are exact",
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := failures(t, over(c.driver))
			if !strings.Contains(strings.Join(names, "\n"), c.check) {
				t.Errorf("%q passes; what fails is %q", c.check, names)
			}
		})
	}
}

// later puts off a time, if it is set.
func later(t *time.Time) {
	if !t.IsZero() {
		*t = t.Add(1)
	}
}

func byNumber(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	heads, next, err := s.Find(context.Background(), f)
	slices.SortFunc(heads, func(a, b journal.Head) int { return cmp.Compare(b.Number, a.Number) })
	return heads, next, err
}

func byOffset(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	skip := int(f.After.Number)
	f.After, f.Limit = journal.Cursor{}, f.Page()+skip
	heads, next, err := s.Find(context.Background(), f)
	if !next.IsZero() {
		next = journal.Cursor{Number: journal.Number(len(heads))}
	}
	return heads[min(skip, len(heads)):], next, err
}

func noErrors(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		if h := g.Changes[i].Head; h != nil {
			h.Error = ""
		}
	}
	return s.Commit(context.Background(), g)
}

func halfOfIDs(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	heads, next, err := s.Find(context.Background(), f)
	if f.Looks > 0 {
		heads = heads[:len(heads)/2]
	}
	return heads, next, err
}

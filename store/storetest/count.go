package storetest

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// countChecks are about numbers of runs.
//
// spec: P-1
func countChecks() []check {
	return []check{
		{"count/the counts of each filter are those of its list", countFilters},
		{"count/no more runs of a kind are looked at than the bound", countBound},
		{"count/the counts of named runs are exact", countNamed},
	}
}

// someOfEach commits runs of several statuses: 20 that are open, 10 that have failed, 10 others.
func someOfEach(w *world) {
	w.join(0)
	var changes []store.Change
	for i := range 40 {
		c := w.start(fmt.Sprint("order-", i))
		h := c.Head
		h.Workflow, h.Created = []string{"w", "v", "u"}[i%3], at(i/2)
		switch i % 4 {
		case 0:
			h.Status, h.Owner = journal.Suspended, 0
		case 1:
			h.Status, h.Ended = journal.Failed, at(100+i)
			h.Error = fmt.Sprint("card ", i%8, " declined")
		case 2:
			h.Status, h.Ended = journal.Completed, at(100+i)
		}
		if i == 9 {
			h.Status = journal.TimedOut
		}
		changes = append(changes, c)
	}
	w.written(changes...)
}

// tally returns the numbers of the runs of a list by status.
func tally(w *world, f store.Filter) map[journal.Status]int {
	heads, _ := walk(w, f)
	found := map[journal.Status]int{}
	for _, h := range heads {
		found[h.Status]++
	}
	return found
}

func countFilters(w *world) {
	someOfEach(w)
	failed := []journal.Status{journal.Failed}
	for _, f := range []store.Filter{
		{}, {Open: true}, {Workflow: "w"}, {Workflow: "w", Open: true}, {Workflow: "nothing"},
		{Workflow: "w", Workflows: []string{"v"}}, {Workflows: []string{"u", "v"}}, {Without: "w"},
		{Statuses: failed}, {Statuses: failed, Open: true}, {Error: "card 1"},
		{Statuses: []journal.Status{journal.Suspended, journal.TimedOut}}, {Stale: at(5)},
		{CreatedFrom: at(4), CreatedTo: at(11)}, {EndedFrom: at(120)}, {WorkflowID: "order-9"},
		{CreatedTo: at(3), Workflow: "v"}, {Workflow: "v", Error: "DECLINED"},
		{Patterns: []journal.Pattern{journal.PatternTCC}}, {Owner: w.engine}, {Busy: at(1000)},
		{Attributes: map[string]string{"customer": "nobody"}},
	} {
		for _, looks := range []int{0, 3, 100} { // with 3, no index shows that few runs match
			f.Looks = looks
			found := tally(w, f)
			f.After, f.Limit = journal.Cursor{Created: 1, Number: 1}, 1 // to be ignored
			counts, err := store.CountRuns(w.Context(), w.s, f)
			f.After, f.Limit = journal.Cursor{}, 0
			w.ok(err)
			about := fmt.Sprintf("%+v: %v of %v", f, counts, found)
			if !slices.IsSortedFunc(counts, func(a, b store.Count) int {
				return int(a.Status) - int(b.Status)
			}) {
				w.Errorf("not in the order of the statuses: %s", about)
			}
			for _, c := range counts {
				n := found[c.Status]
				delete(found, c.Status)
				if c.Runs > n || c.Runs < n && !c.More || c.More && looks != 3 ||
					c.Runs == 0 && !c.More {
					w.Errorf("%v is wrong: %s", c.Status, about)
				}
			}
			if len(found) > 0 {
				w.Errorf("%v left out: %s", found, about)
			}
		}
	}
}

func countBound(w *world) {
	someOfEach(w)
	counts, err := store.CountRuns(w.Context(), w.s, store.Filter{Looks: 9})
	w.ok(err)
	var of [3]int
	for _, c := range counts {
		of[store.KindOf(c.Status)] += c.Runs
		if !c.More {
			w.Errorf("%v is said to be all, after 9 looks at 40 runs", c)
		}
	}
	for kind, n := range of { // one more may have been looked at, to know whether there are more
		if n == 0 || n > 10 {
			w.Errorf("%d runs of kind %d were found by 9 looks", n, kind)
		}
	}
}

func countNamed(w *world) {
	someOfEach(w)
	heads, _ := walk(w, store.Filter{})
	f := store.Filter{Looks: 1}
	for _, h := range heads[10:20] {
		f.Runs = append(f.Runs, h.ID)
	}
	exact := func(f store.Filter) {
		w.Helper()
		found := tally(w, f)
		counts, err := store.CountRuns(w.Context(), w.s, f)
		w.ok(err)
		for _, c := range counts {
			if c.More || c.Runs != found[c.Status] {
				w.Errorf("%+v: %v of %v", f, counts, found)
			}
			delete(found, c.Status)
		}
		if len(found) > 0 {
			w.Errorf("%+v: %v left out of %v", f, found, counts)
		}
	}
	exact(f)
	f.Runs = nil
	for _, h := range heads[5:15] {
		f.WorkflowIDs = append(f.WorkflowIDs, h.WorkflowID)
	}
	f.Newest = true
	exact(f)
}

package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// findChecks are about lists of runs.
func findChecks() []check {
	return []check{
		{"find/heads come newest first, page by page", findPages},
		{"find/each filter limits, and together they limit more", findFilters},
		{"find/several runs or workflow IDs are found at a time", findBulk},
		{"find/of a workflow ID the newest run stands for it", findNewest},
		{"find/open, busy and owned runs and children are found", findLive},
		{"find/a page has 100 heads, and 1,000 at most", findLimits},
	}
}

func findPages(w *world) {
	w.join(0)
	var want []journal.Head
	for range 7 {
		want = append(want, w.written(w.start(""))...)
	}
	slices.Reverse(want)
	w.same("all", w.find(store.Filter{}), want)
	for _, limit := range []int{1, 2, 3, 7, 8} {
		var got []journal.Head
		after, pages := journal.Cursor{}, 0
		for {
			page, next, err := w.s.Find(w.Context(), store.Filter{Limit: limit, After: after})
			w.ok(err)
			got = append(got, page...)
			pages++
			if after = next; next.IsZero() {
				break
			}
		}
		w.same("pages together", got, want)
		w.same("number of pages", pages, (len(want)+limit-1)/limit)
	}
}

func findFilters(w *world) {
	w.join(0)
	a, b, c := w.start("order-1"), w.start("order-2"), w.start("order-3")
	b.Head.Workflow, c.Head.Status = "v", journal.Waiting
	w.written(a, b, c)
	w.commit(ended(*a.Head, 2, 5))
	d := w.start("order-1")
	w.written(d)
	for _, f := range []struct {
		store.Filter
		want []journal.Number
	}{
		{store.Filter{Run: b.Head.ID}, []journal.Number{b.Run}},
		{store.Filter{Run: "elsewhere-1-1"}, nil},
		{store.Filter{Run: b.Head.ID, Workflow: "w"}, nil},
		{store.Filter{Run: b.Head.ID, After: b.Head.Cursor()}, nil},
		{store.Filter{WorkflowID: "order-1"}, []journal.Number{d.Run, a.Run}},
		{store.Filter{WorkflowID: "order-1", After: d.Head.Cursor()}, []journal.Number{a.Run}},
		{
			store.Filter{WorkflowID: "order-1", Statuses: []journal.Status{journal.Running}},
			[]journal.Number{d.Run},
		},
		{store.Filter{Workflow: "w"}, []journal.Number{d.Run, c.Run, a.Run}},
		{
			store.Filter{Statuses: []journal.Status{journal.Completed, journal.Waiting}},
			[]journal.Number{c.Run, a.Run},
		},
		{
			store.Filter{
				Workflow: "w", Statuses: []journal.Status{journal.Running}, After: d.Head.Cursor(),
			},
			nil,
		},
		{store.Filter{WorkflowID: "nobody's"}, nil},
		{store.Filter{Without: "v"}, []journal.Number{d.Run, c.Run, a.Run}},
		{store.Filter{Without: "vv"}, []journal.Number{d.Run, c.Run, b.Run, a.Run}},
		{store.Filter{Without: "w", Statuses: []journal.Status{journal.Running}}, []journal.Number{
			b.Run,
		}},
		{store.Filter{Workflow: "v", Without: "v"}, nil},
	} {
		w.same(fmt.Sprintf("%+v", f.Filter), numbersOf(w.find(f.Filter)), f.want)
	}
}

// spec: R-26
func findBulk(w *world) {
	w.join(0)
	a, b, c := w.start("order-1"), w.start("order-2"), w.start("order-3")
	w.written(a, b, c)
	w.commit(ended(*a.Head, 2, 5))
	d := w.start("order-1")
	w.written(d)
	for _, f := range []struct {
		store.Filter
		want []journal.Number
	}{
		{
			store.Filter{Runs: []journal.RunID{a.Head.ID, c.Head.ID, "elsewhere-1-1", a.Head.ID}},
			[]journal.Number{c.Run, a.Run},
		},
		{store.Filter{Runs: []journal.RunID{"elsewhere-1-1"}}, nil},
		{
			store.Filter{Runs: []journal.RunID{a.Head.ID, b.Head.ID}, WorkflowID: "order-1"},
			[]journal.Number{a.Run},
		},
		{store.Filter{Run: b.Head.ID, Runs: []journal.RunID{a.Head.ID}}, nil},
		{
			store.Filter{WorkflowIDs: []string{"order-1", "order-3", "nobody's", "order-1"}},
			[]journal.Number{d.Run, c.Run, a.Run},
		},
		{
			store.Filter{
				WorkflowIDs: []string{"order-1", "order-3"}, Open: true, After: d.Head.Cursor(),
			},
			[]journal.Number{c.Run},
		},
		{store.Filter{WorkflowIDs: []string{"order-1", "order-2"}, Newest: true}, []journal.Number{
			d.Run, b.Run,
		}},
		{store.Filter{WorkflowIDs: []string{"nobody's"}}, nil},
		{
			store.Filter{WorkflowID: "order-2", WorkflowIDs: []string{"order-1", "order-2"}},
			[]journal.Number{b.Run},
		},
		{store.Filter{WorkflowID: "order-2", WorkflowIDs: []string{"order-1"}}, nil},
	} {
		w.same(fmt.Sprintf("%+v", f.Filter), numbersOf(w.find(f.Filter)), f.want)
	}
}

// spec: R-26
func findNewest(w *world) {
	w.join(0)
	newer, older := w.start("order-1"), w.start("order-1")
	newer, older = older, newer // the run with the lower number begins last
	w.commit(ended(w.written(newer)[0], 2, 5))
	w.written(older)
	twice := []store.Change{w.start("order-2"), w.start("order-2")}
	w.commit(ended(w.written(twice[0])[0], 2, 5))
	w.commit(ended(w.written(twice[1])[0], 2, 4))
	newest := store.Filter{WorkflowID: "order-1", Newest: true}
	w.same("the open one", numbersOf(w.find(newest)), []journal.Number{older.Run})
	newest.Statuses = []journal.Status{journal.Completed}
	w.same("no other instead", numbersOf(w.find(newest)), []journal.Number{})
	w.commit(ended(*older.Head, 2, 9))
	w.same("the one that ended last", numbersOf(w.find(newest)), []journal.Number{older.Run})
	w.same("of all", numbersOf(w.find(store.Filter{Newest: true})),
		[]journal.Number{twice[0].Run, older.Run})
	same := w.start("order-2")
	w.commit(ended(w.written(same)[0], 2, 5))
	w.same("of those that ended at once", numbersOf(w.find(store.Filter{Newest: true})),
		[]journal.Number{same.Run, older.Run})
}

func findLive(w *world) {
	w.join(0)
	parent, mine, due, later, never, over := w.start("order-1"), w.start(""), w.free("", 10),
		w.free("", 11), w.free("", 0), w.start("")
	never.Head.Wake, never.Head.Status = time.Time{}, journal.Suspended
	mine.Head.Wake = at(99)
	mine.Head.Parent, over.Head.Parent = parent.Run, parent.Run
	w.written(parent, mine, due, later, never, over)
	w.commit(ended(*over.Head, 2, 5))
	for _, f := range []struct {
		store.Filter
		want []journal.Number
	}{
		{
			store.Filter{Open: true},
			[]journal.Number{never.Run, later.Run, due.Run, mine.Run, parent.Run},
		},
		{store.Filter{Busy: at(10)}, []journal.Number{due.Run, mine.Run, parent.Run}},
		{store.Filter{Busy: at(11), Statuses: []journal.Status{journal.Pending}}, []journal.Number{
			later.Run, due.Run,
		}},
		{store.Filter{Owner: w.engine}, []journal.Number{mine.Run, parent.Run}},
		{store.Filter{Parent: parent.Run}, []journal.Number{over.Run, mine.Run}},
		{store.Filter{Parent: parent.Run, Open: true}, []journal.Number{mine.Run}},
	} {
		w.same(fmt.Sprintf("%+v", f.Filter), numbersOf(w.find(f.Filter)), f.want)
	}
}

func findLimits(w *world) {
	w.join(0)
	var changes []store.Change
	for range store.MaxLimit + 1 {
		changes = append(changes, w.start(""))
	}
	w.written(changes...)
	for limit, want := range map[int]int{0: store.DefaultLimit, 5000: store.MaxLimit, 999: 999} {
		heads, next, err := w.s.Find(w.Context(), store.Filter{Limit: limit})
		w.ok(err)
		w.same("heads", len(heads), want)
		w.same("cursor", next, heads[want-1].Cursor())
	}
}

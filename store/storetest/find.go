package storetest

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// findChecks are about lists of runs.
func findChecks() []check {
	return []check{
		{"find/heads come newest first, page by page", findPages},
		{"find/each filter limits, and together they limit more", findFilters},
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
		after, pages := journal.Number(0), 0
		for {
			page, next, err := w.s.Find(w.Context(), store.Filter{Limit: limit, After: after})
			w.ok(err)
			got = append(got, page...)
			pages++
			if after = next; next == 0 {
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
		{store.Filter{Run: b.Head.ID, After: b.Run}, nil},
		{store.Filter{WorkflowID: "order-1"}, []journal.Number{d.Run, a.Run}},
		{store.Filter{WorkflowID: "order-1", After: d.Run}, []journal.Number{a.Run}},
		{store.Filter{WorkflowID: "order-1", Statuses: []journal.Status{journal.Running}}, []journal.Number{d.Run}},
		{store.Filter{Workflow: "w"}, []journal.Number{d.Run, c.Run, a.Run}},
		{store.Filter{Statuses: []journal.Status{journal.Completed, journal.Waiting}}, []journal.Number{c.Run, a.Run}},
		{store.Filter{Workflow: "w", Statuses: []journal.Status{journal.Running}, After: d.Run}, nil},
		{store.Filter{WorkflowID: "nobody's"}, nil},
	} {
		var got []journal.Number
		for _, h := range w.find(f.Filter) {
			got = append(got, h.Number)
		}
		w.same(fmt.Sprintf("%+v", f.Filter), got, f.want)
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
		w.same("cursor", next, heads[want-1].Number)
	}
}

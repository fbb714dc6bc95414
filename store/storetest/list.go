package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// listChecks are about lists of many runs.
//
// spec: P-1
func listChecks() []check {
	return []check{
		{"list/runs of all engines come in the order of their creation", listOrder},
		{"list/a cursor keeps its position while runs are added and removed", listCursor},
		{"list/each filter of lists limits, and together they limit more", listFilters},
		{"list/open runs without a new entry are found", listStale},
		{"list/a run is found by its failure", listErrors},
		{"list/a page looks at a bounded number of runs", listLooks},
		{"list/a page of named runs is complete, however few it looks at", listNamed},
	}
}

// byAge returns a copy of the heads, newest first.
func byAge(heads []journal.Head) []journal.Head {
	return slices.SortedFunc(slices.Values(heads), func(a, b journal.Head) int {
		return b.Cursor().Compare(a.Cursor())
	})
}

// walk returns the heads of all pages, and the number of pages.
func walk(w *world, f store.Filter) (all []journal.Head, pages int) {
	w.Helper()
	for {
		heads, next, err := w.s.Find(w.Context(), f)
		w.ok(err)
		if len(heads) > f.Page() {
			w.Errorf("%d heads on a page of %d", len(heads), f.Page())
		}
		all = append(all, heads...)
		pages++
		if pages > 10_000 {
			w.Fatalf("a list of 10,000 pages, the last of which begins after %v", f.After)
		}
		if f.After = next; next.IsZero() {
			return all, pages
		}
	}
}

// listOrder has starts of several engines, whose clocks stand still, differ and go back. An engine
// with a lower number starts the last run.
func listOrder(w *world) {
	w.join(0)
	var changes []store.Change
	for i, seconds := range []int{5, 5, 3, 9, 9, 1, 7} {
		c := w.start("")
		if i%2 == 1 { // a number of a later engine
			n, err := journal.MakeNumber(w.engine+journal.EngineID(9-i), int64(i+1))
			w.ok(err)
			c.Run, c.Head.Number, c.Head.ID = n, n, journal.MakeRunID(w.database, n)
			c.Head.Chain, c.Entries[0].Run, c.Head.WorkflowID = n, n, string(c.Head.ID)
		}
		c.Head.Created = at(seconds)
		changes = append(changes, c)
	}
	want := byAge(w.written(changes...))
	w.same("all", w.find(store.Filter{}), want)
	w.same("all of a workflow", w.find(store.Filter{Workflow: "w"}), want)
	w.same("all open ones", w.find(store.Filter{Open: true}), want)
	for limit := 1; limit < 9; limit++ {
		for _, f := range []store.Filter{
			{Limit: limit}, {Limit: limit, Workflow: "w"}, {Limit: limit, Open: true},
			{Limit: limit, Looks: 2}, {Limit: limit, Looks: 3, Without: "v"},
		} {
			got, _ := walk(w, f)
			w.same(fmt.Sprintf("pages of %+v", f), got, want)
		}
	}
}

func listCursor(w *world) {
	w.join(0)
	var changes []store.Change
	for i := range 6 {
		c := w.start("")
		c.Head.Created = at(10 * i)
		changes = append(changes, c)
	}
	all := w.written(changes...)
	page, next, err := w.s.Find(w.Context(), store.Filter{Limit: 2})
	w.ok(err)
	w.same("first page", numbersOf(page), []journal.Number{all[5].Number, all[4].Number})
	w.same("cursor", next, all[4].Cursor())
	newer, older := w.start(""), w.start("")
	newer.Head.Created, older.Head.Created = at(99), at(25) // the clock of another engine is behind
	w.written(newer, older)
	w.commit(ended(all[4], 2, 5)) // the run at the cursor is removed
	if _, err := w.s.Purge(w.Context(), store.Purge{Engine: w.engine, Now: at(1000)}); err != nil {
		w.Errorf("Purge: %v", err)
	}
	rest, _ := walk(w, store.Filter{Limit: 2, After: next})
	w.same("the rest", numbersOf(rest), []journal.Number{
		all[3].Number, older.Run, all[2].Number, all[1].Number, all[0].Number,
	})
	text, err := journal.ParseCursor(next.String())
	w.ok(err)
	w.same("cursor of its text", text, next)
}

func listFilters(w *world) {
	w.join(0)
	var changes []store.Change
	for i := range 5 {
		c := w.start("")
		c.Head.Workflow, c.Head.Pattern = []string{"w", "v", "u"}[i%3], journal.Pattern(i%2)
		c.Head.Created = at(10 * i)
		changes = append(changes, c)
	}
	all := w.written(changes...)
	w.commit(ended(all[0], 2, 100), ended(all[1], 2, 50), ended(all[4], 2, 200))
	is := func(f store.Filter, want ...int) {
		w.Helper()
		numbers := []journal.Number{}
		for _, i := range want {
			numbers = append(numbers, all[i].Number)
		}
		for _, looks := range []int{0, 1, 2} {
			f.Looks = looks
			got, _ := walk(w, f)
			w.same(fmt.Sprintf("%+v", f), numbersOf(got), numbers)
		}
	}
	is(store.Filter{Workflows: []string{"w", "u", "nothing"}}, 3, 2, 0)
	is(store.Filter{Workflows: []string{"w", "u"}, Workflow: "u"}, 2)
	is(store.Filter{Workflows: []string{"w", "u"}, Workflow: "v"})
	is(store.Filter{Patterns: []journal.Pattern{1}}, 3, 1)
	is(store.Filter{Patterns: []journal.Pattern{0, 1}, Workflows: []string{"v"}}, 4, 1)
	is(store.Filter{Patterns: []journal.Pattern{journal.PatternTCC}})
	is(store.Filter{CreatedFrom: at(20)}, 4, 3, 2)
	is(store.Filter{CreatedTo: at(20)}, 1, 0)
	is(store.Filter{CreatedFrom: at(10), CreatedTo: at(30)}, 2, 1)
	is(store.Filter{CreatedFrom: at(10), CreatedTo: at(30), After: all[2].Cursor()}, 1)
	is(store.Filter{CreatedTo: at(30), After: all[4].Cursor(), Workflow: "w"}, 0)
	is(store.Filter{CreatedFrom: time.Unix(0, 0), CreatedTo: time.Unix(0, 0)})
	is(store.Filter{EndedFrom: at(100)}, 4, 0)
	is(store.Filter{EndedTo: at(100)}, 1)
	is(store.Filter{EndedFrom: at(50), EndedTo: at(200), Workflow: "w"}, 0)
	is(store.Filter{EndedTo: at(1000), Statuses: []journal.Status{journal.Running}})
	is(store.Filter{EndedTo: at(1000), Open: true})
	is(store.Filter{EndedTo: at(1000), CreatedFrom: at(5), Without: "v"})
	is(store.Filter{Statuses: []journal.Status{journal.Running, journal.Failed}}, 3, 2)
}

// spec: P-5
func listStale(w *world) {
	w.join(0)
	a, b, c, over := w.start(""), w.start(""), w.free("", 10), w.start("")
	heads := w.written(a, b, c, over)
	w.commit(step(b.Run, 2), ended(heads[3], 2, 1))
	later := step(a.Run, 2)
	later.Entries[0].At = at(50)
	w.commit(later)
	for _, f := range []struct {
		store.Filter
		want []journal.Number
	}{
		{store.Filter{Stale: at(0)}, nil},
		{store.Filter{Stale: at(2)}, []journal.Number{c.Run}},
		{store.Filter{Stale: at(50)}, []journal.Number{c.Run, b.Run}},
		{store.Filter{Stale: at(51)}, []journal.Number{c.Run, b.Run, a.Run}},
		{store.Filter{Stale: at(51), Busy: at(5)}, []journal.Number{b.Run, a.Run}},
	} {
		w.same(fmt.Sprintf("%+v", f.Filter), numbersOf(w.find(f.Filter)), f.want)
	}
}

// failed returns the end of a run that has failed.
func failed(h journal.Head, seq int64, status journal.Status, why string) store.Change {
	c := ended(h, seq, 5)
	c.Head.Status, c.Head.Error = status, why
	c.Entries[0].Kind, c.Entries[0].Status = journal.RunFailed, status
	return c
}

func listErrors(w *world) {
	w.join(0)
	heads := w.written(w.start("order-1"), w.start(""), w.start(""), w.start(""), w.start(""))
	silent, odd := failed(heads[2], 2, journal.Cancelled, ""), "100%_Über\x01 DECLINED"
	w.commit(failed(heads[0], 2, journal.Failed, "step charge: card DECLINED"),
		failed(heads[1], 2, journal.TimedOut, odd), silent, ended(heads[3], 2, 5))
	w.same("the text of an end", w.head(heads[1].Number).Error, odd)
	w.same("of a success", w.head(heads[3].Number).Error, "")
	for _, f := range []struct {
		store.Filter
		want []journal.Number
	}{
		{store.Filter{Error: "Card declined"}, []journal.Number{heads[0].Number}},
		{store.Filter{Error: "declined"}, []journal.Number{heads[1].Number, heads[0].Number}},
		{store.Filter{Error: "%_ü"}, nil}, // only the case of A to Z is left out of account
		{store.Filter{Error: "%_Ü"}, []journal.Number{heads[1].Number}},
		{store.Filter{Error: "d%d"}, nil},
		{
			store.Filter{Error: "declined", Statuses: []journal.Status{journal.TimedOut}},
			[]journal.Number{heads[1].Number},
		},
		{store.Filter{Error: "declined", Workflow: "v"}, nil},
		{
			store.Filter{Statuses: []journal.Status{journal.Cancelled, journal.Failed}},
			[]journal.Number{heads[2].Number, heads[0].Number},
		},
	} {
		w.same(fmt.Sprintf("%+v", f.Filter), numbersOf(w.find(f.Filter)), f.want)
	}
	again := w.start("order-1")
	again.Head.Status, again.Head.Ended, again.Head.Error = journal.Failed, at(7), "at once"
	w.same("the text of a run that is new", w.written(again)[0].Error, "at once")
	w.same("and found", numbersOf(w.find(store.Filter{Error: "AT ONCE"})), []journal.Number{
		again.Run,
	})
}

// listLooks has a filter that no index serves. Many runs do not match.
func listLooks(w *world) {
	w.join(0)
	var changes []store.Change
	for i := range 40 {
		c := w.start("")
		c.Head.Pattern = journal.PatternSaga
		if i%20 == 7 {
			c.Head.Pattern = journal.PatternTCC
		}
		c.Head.Created = at(i / 3)
		changes = append(changes, c)
	}
	heads := w.written(changes...)
	f := store.Filter{Patterns: []journal.Pattern{journal.PatternTCC}, Looks: 4, Limit: 2}
	page, next, err := w.s.Find(w.Context(), f)
	w.ok(err)
	w.same("first page", len(page), 0)
	w.same("its cursor", next, heads[36].Cursor())
	got, pages := walk(w, f)
	w.same("found", numbersOf(got), []journal.Number{heads[27].Number, heads[7].Number})
	if pages != 10 && pages != 11 { // the last may be empty
		w.Errorf("%d pages, each of 4 looks at 40 runs", pages)
	}
	_, pages = walk(w, store.Filter{Patterns: f.Patterns, Limit: 2})
	w.same("pages without the limit of looks", pages, 1)
}

func listNamed(w *world) {
	w.join(0)
	var runs []journal.RunID
	var ids []string
	var want []journal.Number
	for i := range 9 {
		first := w.start(fmt.Sprint("order-", i))
		w.commit(ended(w.written(first)[0], 2, 5))
		second := w.start(fmt.Sprint("order-", i))
		w.written(second)
		runs, ids = append(runs, second.Head.ID), append(ids, second.Head.WorkflowID)
		want = append(want, second.Run)
	}
	slices.Reverse(want)
	w.same("runs", numbersOf(w.find(store.Filter{Runs: runs, Looks: 1})), want)
	w.same("workflow IDs",
		numbersOf(w.find(store.Filter{WorkflowIDs: ids, Newest: true, Looks: 1})), want)
}

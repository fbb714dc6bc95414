package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// commitChecks are about groups that change existing runs, and about invalid groups.
func commitChecks() []check {
	return []check{
		{"commit/entries follow those that are there", commitSteps},
		{"commit/a head changes what may change, and without one it stays", commitHead},
		{"commit/an empty group is committed", commitNothing},
		{"commit/a context that has ended does not stop it", commitCancelled},
		{"commit/an entry that is there refuses the whole group", refuseDuplicate},
		{"commit/an entry that leaves a hole refuses the whole group", refuseHole},
		{"commit/a change of a run that is not there refuses the whole group", refuseUnknownRun},
		{"commit/a number that is there refuses the whole group", refuseNumber},
		{"commit/a malformed group is refused", refuseMalformed},
		{"commit/a client may not change a run", refuseClient},
		{"commit/an engine that was taken over writes nothing", fencedByJoin},
		{"commit/an engine that has left writes nothing", fencedByLeave},
		{"commit/a workflow ID has letters of any script", anyScript},
	}
}

func commitSteps(w *world) {
	w.join(0)
	a, b := w.start(""), w.start("")
	w.written(a, b)
	w.commit(step(a.Run, 2), step(b.Run, 2))
	two := step(a.Run, 3)
	two.Entries = append(two.Entries, step(a.Run, 4).Entries...)
	w.commit(two)
	w.rows(a.Run, 4)
	w.rows(b.Run, 2)
	w.same("third", w.load(a.Run, store.Range{From: 3, Limit: 1}), two.Entries[:1])
}

func commitHead(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Head.Pattern, c.Head.Crashes = journal.PatternTCC, 2
	want := w.written(c)[0]
	w.commit(step(c.Run, 2))
	w.same("untouched", w.head(c.Run), want)

	change := journal.Head{
		Number: c.Run, Status: journal.Waiting, Owner: 0, Wake: at(7),
		Cause: "a timer", Workflow: "renamed", WorkflowID: "renamed", Created: at(9), Crashes: 9,
		Mail: 9, Chain: 9, Parent: 9, Keep: 9, Retain: "1h0m0s", Pattern: journal.PatternSaga,
	}
	w.commit(store.Change{Run: c.Run, Head: &change})
	want.Status, want.Owner, want.Wake, want.Cause, want.Keep, want.Retain = journal.Waiting, 0,
		at(7), "a timer", 9, "1h0m0s"
	want.Pattern = journal.PatternSaga
	w.same("changed", w.head(c.Run), want)

	w.commit(ended(want, 3, 8))
	want.Status, want.Wake, want.Ended, want.Last = journal.Completed, time.Time{}, at(8), 3
	w.same("ended", w.head(c.Run), want)
}

func commitNothing(w *world) {
	w.join(0)
	w.commit()
}

func commitCancelled(w *world) {
	w.join(0)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	c := w.start("")
	w.ok(w.s.Commit(ctx, w.group(c)))
	w.rows(c.Run, 1)
}

func refuseDuplicate(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	fresh := w.start("")
	moved := update(head, func(h *journal.Head) { h.Status = journal.Waiting })
	moved.Entries = step(head.Number, 2).Entries
	other := w.written(w.start(""))[0]
	w.refused(w.group(fresh, moved, step(other.Number, 1), step(other.Number, 2)))
	w.same("head", w.head(head.Number), head)
	w.rows(head.Number, 1)
	w.rows(other.Number, 1)
	w.absent(fresh.Run)
	w.written(fresh)
}

func refuseHole(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	w.commit(step(head.Number, 2))
	others := make([]store.Change, 70) // more than a driver may read with one statement
	for i := range others {
		others[i] = step(w.written(w.start(""))[0].Number, 2)
	}
	inside := step(head.Number, 3)
	inside.Entries = append(inside.Entries, step(head.Number, 5).Entries...)
	fresh, late := w.start(""), w.start("")
	late.Entries = append(late.Entries, step(late.Run, 3).Entries...)
	for _, bad := range []store.Change{step(head.Number, 4), inside, late} {
		g := w.group(append([]store.Change{fresh, bad}, others...)...)
		w.refused(g)
		g.Again = true
		w.refused(g)
	}
	w.rows(head.Number, 2)
	w.rows(others[0].Run, 1)
	w.absent(fresh.Run)
	w.absent(late.Run)
	w.commit(append(others, step(head.Number, 3))...)
	w.rows(head.Number, 3)
	w.rows(others[69].Run, 2)
}

func refuseUnknownRun(w *world) {
	w.join(0)
	fresh, gone := w.start(""), w.start("")
	w.refused(w.group(fresh, step(gone.Run, 1)))
	w.refused(w.group(fresh, update(*gone.Head, func(*journal.Head) {})))
	w.absent(fresh.Run)
	w.absent(gone.Run)
}

func refuseNumber(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	fresh, again := w.start(""), w.start("order-2")
	again.Run, again.Head.Number, again.Head.ID, again.Entries[0].Run = head.Number, head.Number,
		head.ID, head.Number
	w.refused(w.group(fresh, again))
	w.absent(fresh.Run)
	w.same("head", w.head(head.Number), head)
}

func refuseMalformed(w *world) {
	w.join(0)
	old := w.written(w.start(""))[0]
	headless, foreign, borrowed, mixed, backwards, nobody := w.start(""), w.start(""), w.start(""),
		w.start(""), w.start(""), w.start("")
	headless.Head = nil
	foreign.Head.ID = "elsewhere-1-1"
	borrowed.Head.Number++
	mixed.Entries = append(mixed.Entries, step(old.Number, 2).Entries...)
	backwards.Entries = append(backwards.Entries, step(backwards.Run, 1).Entries...)
	nobody.Run, nobody.Head.Number, nobody.Entries[0].Run = 0, 0, 0
	unloads := update(old, func(*journal.Head) {})
	unloads.Unload, unloads.Create = true, true
	continues := update(old, func(*journal.Head) {})
	continues.From = old.Number
	for _, bad := range []store.Change{
		headless, foreign, borrowed, mixed, backwards, nobody, unloads, continues,
	} {
		fresh := w.start("")
		w.refused(w.group(fresh, bad))
		w.absent(fresh.Run)
	}
	w.rows(old.Number, 1)
}

func refuseClient(w *world) {
	w.join(0)
	old := w.written(w.start(""))[0]
	fresh := w.free("", 0)
	for _, bad := range []store.Change{
		step(old.Number, 2),
		update(old, func(h *journal.Head) { h.Owner = 0 }),
		{Told: []int64{1}},
	} {
		g := w.group(fresh, bad)
		g.Engine = 0
		w.refused(g)
	}
	w.absent(fresh.Run)
	w.same("head", w.head(old.Number), old)
}

func fencedByJoin(w *world) {
	w.join(0)
	old, head := w.engine, w.written(w.start(""))[0]
	w.die(10)
	fresh := w.start("")
	for _, c := range []store.Change{
		step(head.Number, 2), fresh, update(head, func(h *journal.Head) { h.Cause = "late" }),
	} {
		g := w.group(c)
		g.Engine = old
		w.is(w.try(g), store.ErrFenced)
		g.Again = true
		w.is(w.try(g), store.ErrFenced)
	}
	empty := w.group()
	empty.Engine = old
	w.is(w.try(empty), store.ErrFenced)
	w.rows(head.Number, 1)
	w.absent(fresh.Run)
	w.same("cause", w.head(head.Number).Cause, "")
}

func fencedByLeave(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	w.claim(store.Leave{Engine: w.engine, Now: at(5)})
	w.is(w.try(w.group(step(head.Number, 2))), store.ErrFenced)
	w.rows(head.Number, 1)
}

// anyScript starts a run for each of some workflow IDs that differ in few bytes, and finds it
// by its ID.
func anyScript(w *world) {
	w.join(0)
	for _, id := range []string{
		"ada@shop.example/4711#2", "заказ-7", "Заказ-7", "注文/七", "é", "e\u0301", "a'b\"c\\d", "%_",
		strings.Repeat("ж", journal.MaxName/2),
	} {
		want := w.written(w.start(id))[0]
		got := w.find(store.Filter{WorkflowIDs: []string{id}, Newest: true, Limit: 1})
		if len(got) != 1 || got[0].Number != want.Number || got[0].WorkflowID != id {
			w.Errorf("the run of %q is %+v", id, got)
		}
		again := w.commit(w.start(id))[0]
		w.verdict(again, store.Exists)
	}
}

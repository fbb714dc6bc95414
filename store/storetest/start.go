package storetest

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// startChecks are about new runs and their workflow IDs.
func startChecks() []check {
	return []check{
		{"start/a new run is there with its head and its entries", newRun},
		{"start/a start whose ID has an open run writes nothing", startExists},
		{"start/a start whose ID has another workflow's open run is told so", startTaken},
		{"start/a suspended run keeps its ID", startSuspended},
		{"start/an ended run counts within the window", startWindow},
		{"start/of several ended runs the last one counts", startLatest},
		{"start/another workflow's ended run does not count", startOtherEnded},
		{"start/of several starts of one ID in a group the first is written", startTwins},
		{"start/a run that ends in a group holds its ID until the group is written", startHeld},
		{"start/a client may start", clientStarts},
	}
}

func newRun(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Head.Pattern, c.Head.Cause, c.Head.Crashes = journal.PatternSaga, "because", 3
	c.Head.Parent, c.Head.Keep, c.Head.Chain = 77, time.Hour+1, 99
	c.Entries = append(c.Entries, step(c.Run, 2).Entries...)
	head := w.written(c)[0]
	w.same("head", w.head(c.Run), head)
	w.same("entries", w.load(c.Run, store.Range{}), c.Entries)
	w.reopen()
	w.same("head after reopening", w.head(c.Run), head)
	w.same("entries after reopening", w.load(c.Run, store.Range{}), c.Entries)
}

func startExists(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	c := w.commit(w.start("order-1"))[0]
	w.verdict(c, store.Exists)
	w.same("found", c.Found, first)
	w.absent(c.Run)
	w.rows(first.Number, 1)
}

func startTaken(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	c := w.start("order-1")
	c.Head.Workflow = "other"
	c = w.commit(c)[0]
	w.verdict(c, store.Taken)
	w.same("found", c.Found, first)
	w.absent(c.Run)
}

func startSuspended(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	for _, status := range []journal.Status{journal.Suspended, journal.CompensationFailed} {
		w.commit(update(first, func(h *journal.Head) {
			h.Status, h.Owner, h.Wake = status, 0, time.Time{}
		}))
		c := w.commit(w.start("order-1"))[0]
		w.verdict(c, store.Exists)
		w.absent(c.Run)
	}
}

func startWindow(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	w.commit(ended(first, 2, 100))
	for _, seconds := range []int{99, 100} {
		c := w.start("order-1")
		c.Since = at(seconds)
		c = w.commit(c)[0]
		w.verdict(c, store.Exists)
		w.same("found", c.Found, w.head(first.Number))
		w.absent(c.Run)
	}
	late := w.start("order-1")
	late.Since = at(100).Add(1)
	w.commit(ended(w.written(late)[0], 2, 200))
	w.written(w.start("order-1")) // without a window only open runs count
}

func startLatest(w *world) {
	w.join(0)
	older, newer := w.start("order-1"), w.start("order-1")
	w.commit(ended(w.written(newer)[0], 2, 100)) // the run with the higher number ends first
	w.commit(ended(w.written(older)[0], 2, 200))
	c := w.start("order-1")
	c.Since = at(50)
	c = w.commit(c)[0]
	w.verdict(c, store.Exists)
	w.same("found", c.Found.Number, older.Run)
}

func startOtherEnded(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Head.Workflow = "other"
	w.commit(ended(w.written(c)[0], 2, 100))
	c = w.start("order-1")
	c.Since = at(50)
	w.written(c)
}

func startTwins(w *world) {
	w.join(0)
	other := w.start("order-1")
	other.Head.Workflow = "other"
	all := w.commit(w.start("order-1"), w.start("order-1"), w.start("order-2"), other,
		w.start("order-1"))
	w.verdict(all[0], store.Written)
	w.verdict(all[1], store.Exists)
	w.verdict(all[2], store.Written)
	w.verdict(all[3], store.Taken)
	w.verdict(all[4], store.Exists)
	w.same("found", []journal.Head{all[1].Found, all[3].Found, all[4].Found},
		[]journal.Head{*all[0].Head, *all[0].Head, *all[0].Head})
	w.same("runs", len(w.find(store.Filter{})), 2)
}

func startHeld(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	early := w.start("order-1")
	all := w.commit(ended(first, 2, 100), early)
	w.verdict(all[1], store.Exists)
	w.same("found", all[1].Found, first)
	w.absent(early.Run)
	w.written(w.start("order-1"))
}

func clientStarts(w *world) {
	g := w.group(w.free("order-1", 10))
	w.ok(w.try(g))
	w.verdict(g.Changes[0], store.Written)
	w.join(20)
	w.same("claimed", numbers(w.take(20, 10)), []journal.Number{g.Changes[0].Run})
}

package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// againChecks are about groups that are sent again because their outcome was unknown.
func againChecks() []check {
	return []check{
		{"again/a group that was written is not written twice", againWritten},
		{"again/a group that was not written is written", againLost},
		{"again/a start that had found a run finds it again", againExists},
		{"again/a start beside a group that was written is judged", againHalf},
		{"again/a start that had found a run finds it although the group has ended it", againEnded},
		{"again/a run that was released and claimed meanwhile stays claimed", againReleased},
		{
			"again/an unload without an entry that was written is not written once more",
			againUnloaded,
		},
	}
}

func (w *world) again(changes ...store.Change) []store.Change {
	w.Helper()
	g := w.group(changes...)
	g.Again = true
	w.ok(w.try(g))
	return changes
}

func againWritten(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	fresh, end := w.start("order-1"), ended(head, 2, 10)
	w.commit(fresh, end)
	want := []journal.Head{w.head(fresh.Run), w.head(head.Number)}
	for range 2 {
		w.verdict(w.again(fresh, end)[0], store.Written)
	}
	w.same("heads", []journal.Head{w.head(fresh.Run), w.head(head.Number)}, want)
	w.rows(fresh.Run, 1)
	w.rows(head.Number, 2)
}

func againLost(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	fresh := w.start("order-1")
	w.verdict(w.again(fresh, ended(head, 2, 10))[0], store.Written)
	w.rows(fresh.Run, 1)
	w.rows(head.Number, 2)
	w.same("status", w.head(head.Number).Status, journal.Completed)
}

func againExists(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	c := w.start("order-1")
	w.commit(c)
	c = w.again(c)[0]
	w.verdict(c, store.Exists)
	w.same("found", c.Found, first)
	w.absent(c.Run)
}

func againHalf(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	mine, theirs, more := w.start("order-2"), w.start("order-1"), step(first.Number, 2)
	w.commit(mine, theirs, more)
	all := w.again(mine, theirs, more)
	w.verdict(all[0], store.Written)
	w.verdict(all[1], store.Exists)
	w.same("found", all[1].Found, first)
	w.rows(mine.Run, 1)
	w.absent(theirs.Run)
	w.rows(first.Number, 2)
}

// spec: R-22
func againEnded(w *world) {
	w.join(0)
	first := w.written(w.start("order-1"))[0]
	theirs, end := w.start("order-1"), ended(first, 2, 10)
	theirs.Posts = []store.Post{toID("order-1", signal("x", "1"))}
	w.verdict(w.commit(theirs, end)[0], store.Exists)
	all := w.again(theirs, end)
	w.verdict(all[0], store.Exists)
	w.same("found", all[0].Found.Number, first.Number)
	w.absent(theirs.Run)
	w.same("inbox", labels(w.inbox(first.Number)), []string{"1:x"})
}

func againReleased(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	release := update(head, func(h *journal.Head) {
		h.Status, h.Owner, h.Wake = journal.Waiting, 0, at(5)
	})
	release.Entries = step(head.Number, 2).Entries
	w.commit(release)
	w.same("claimed", numbers(w.take(6, 1)), []journal.Number{head.Number})
	w.again(release)
	w.same("owner", w.head(head.Number).Owner, w.engine)
}

// spec: B-6
func againUnloaded(w *world) {
	w.join(0)
	head := w.filled("", 1)
	unload := unloading(head, 1, 2)
	unload.Head.Cause, unload.Entries = "", nil
	w.verdict(w.commit(unload)[0], store.Written)
	w.clientPosts(7, toRun(head.Number, signal("y", "y")))
	w.verdict(w.again(unload)[0], store.Written) // and not Mail: no engine owns the run
	unloaded := w.head(head.Number)
	w.same("owner, mail", []int64{int64(unloaded.Owner), unloaded.Mail}, []int64{0, 2})
	w.same("wake", unloaded.Wake, at(7))
	w.same("claimed", numbers(w.take(7, 5)), []journal.Number{head.Number})
	lost := unloading(head, 2, 2)
	lost.Entries = nil
	w.verdict(w.again(lost)[0], store.Written) // the group had not been written
	w.same("wake", w.head(head.Number).Wake, at(90))
}

package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// elseChecks are about messages that are sent with a start.
func elseChecks() []check {
	return []check{
		{"with/the message of a start goes to the new run", withNew},
		{"with/the message of a start goes to the run that is there", withExisting},
		{"with/a start that is refused posts what is meant for that case", withTaken},
		{"with/a start that finds an ended run posts to no run", withWindow},
		{"with/of several starts of one ID each posts", withTwins},
		{"with/Else is nothing to a change of another kind", withNoStart},
	}
}

// greeted returns a start with a message for the run that has the ID, and a message for the
// run beside it if the start creates no run.
func (w *world) greeted(id string, beside journal.Number) store.Change {
	c := w.start(id)
	c.Posts = []store.Post{toID(id, signal("hello", string(c.Head.ID)))}
	c.Else = []store.Post{toRun(beside, signal("refused", string(c.Head.ID)))}
	return c
}

// spec: R-22
func withNew(w *world) {
	w.join(0)
	beside := w.filled("", 0).Number
	c := w.commit(w.greeted("order-1", beside))[0]
	w.verdict(c, store.Written)
	w.judged(c.Posts[0], store.Delivered, c.Run, 1)
	w.same("inbox", labels(w.inbox(c.Run)), []string{"1:hello"})
	w.same("inbox beside it", labels(w.inbox(beside)), []string{})
	w.same("verdict of what was not sent", c.Else[0].Verdict, store.Written)
}

// spec: R-22
func withExisting(w *world) {
	w.join(0)
	beside, first := w.filled("", 0).Number, w.filled("order-1", 1).Number
	c := w.commit(w.greeted("order-1", beside))[0]
	w.verdict(c, store.Exists)
	w.judged(c.Posts[0], store.Delivered, first, 2)
	w.judged(c.Else[0], store.Delivered, beside, 1)
	w.same("inbox", labels(w.inbox(first)), []string{"1:x1", "2:hello"})
	w.same("inbox beside it", labels(w.inbox(beside)), []string{"1:refused"})
	w.absent(c.Run)
}

// spec: R-23
func withTaken(w *world) {
	w.join(0)
	beside, first := w.filled("", 0).Number, w.filled("order-1", 0).Number
	c := w.greeted("order-1", beside)
	c.Head.Workflow = "other"
	c = w.commit(c)[0]
	w.verdict(c, store.Taken)
	w.judged(c.Else[0], store.Delivered, beside, 1)
	w.same("inbox", labels(w.inbox(first)), []string{})
	w.same("inbox beside it", labels(w.inbox(beside)), []string{"1:refused"})
}

func withWindow(w *world) {
	w.join(0)
	beside, first := w.filled("", 0).Number, w.filled("order-1", 0)
	w.commit(ended(first, 2, 50))
	c := w.greeted("order-1", beside)
	c.Since = at(40)
	c = w.commit(c)[0]
	w.verdict(c, store.Exists)
	w.judged(c.Posts[0], store.Nobody, 0, 0)
	w.judged(c.Else[0], store.Delivered, beside, 1)
}

// spec: R-22
func withTwins(w *world) {
	w.join(0)
	beside := w.filled("", 0).Number
	all := w.commit(w.greeted("order-1", beside), w.greeted("order-1", beside))
	w.verdict(all[0], store.Written)
	w.verdict(all[1], store.Exists)
	w.judged(all[0].Posts[0], store.Delivered, all[0].Run, 1)
	w.judged(all[1].Posts[0], store.Delivered, all[0].Run, 2)
	w.judged(all[1].Else[0], store.Delivered, beside, 1)
}

func withNoStart(w *world) {
	w.join(0)
	beside, run := w.filled("", 0).Number, w.filled("", 0).Number
	c := step(run, 2)
	c.Else = []store.Post{toRun(beside, signal("x", "1"))}
	w.commit(c)
	w.same("inbox", labels(w.inbox(beside)), []string{})
}

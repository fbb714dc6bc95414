package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// unloadChecks are about runs that are unloaded.
func unloadChecks() []check {
	return []check{
		{"unload/a run whose messages are all known is unloaded", unloadWritten},
		{"unload/a run that was sent a message stays its engine's", unloadMail},
		{"unload/a message of the same group counts, wherever it is in the group", unloadSameGroup},
		{"unload/a run that was told of its mail is unloaded", unloadAfterMail},
		{"unload/a run that is unloaded is due when a message comes", unloadWakes},
		{"unload/between posts and unloads no message is stranded", unloadRace},
	}
}

// unloading returns the change that unloads a run after its engine has seen the given number
// of messages.
func unloading(h journal.Head, seen int64, seq int64) store.Change {
	c := update(h, func(h *journal.Head) {
		h.Status, h.Owner, h.Wake, h.Cause, h.Mail = journal.Waiting, 0, at(90), "a timer", seen
	})
	c.Unload = true
	c.Entries = step(h.Number, seq).Entries
	return c
}

// spec: B-6
func unloadWritten(w *world) {
	w.join(0)
	for _, n := range []int{0, 2} {
		head := w.filled("", n)
		c := w.commit(unloading(head, int64(n), 2))[0]
		w.verdict(c, store.Written)
		head.Status, head.Owner, head.Wake, head.Cause = journal.Waiting, 0, at(90), "a timer"
		w.same("head", w.head(head.Number), head)
		w.rows(head.Number, 2)
	}
	w.same("claimed", len(w.take(90, 5).Runs), 2)
}

func unloadMail(w *world) {
	w.join(0)
	head := w.filled("", 1)
	w.clientPosts(1, toRun(head.Number, signal("y", "y")))
	c := w.commit(unloading(head, 1, 2))[0]
	w.verdict(c, store.Mail)
	head.Status, head.Cause, head.Mail = journal.Waiting, "a timer", 2
	w.same("head", w.head(head.Number), head)
	w.same("found", c.Found, head)
	w.rows(head.Number, 2)
	w.same("mail", labels(w.mail()[0].Inbox), []string{"2:y"})
}

func unloadSameGroup(w *world) {
	w.join(0)
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		head := w.filled("", 1)
		both := make([]store.Change, 2)
		both[order[0]] = unloading(head, 1, 2)
		both[order[1]] = store.Change{Posts: []store.Post{toRun(head.Number, signal("y", "y"))}}
		w.commit(both...)
		w.verdict(both[order[0]], store.Mail)
		w.judged(both[order[1]].Posts[0], store.Delivered, head.Number, 2)
		w.same("owner before the group's heads", both[order[1]].Posts[0].To.Owner, w.engine)
		w.same("owner", w.head(head.Number).Owner, w.engine)
		knows := unloading(head, 3, 3) // it counts its own message
		knows.Posts = []store.Post{toRun(head.Number, signal("z", "z"))}
		w.verdict(w.commit(knows)[0], store.Written)
		w.same("owner", w.head(head.Number).Owner, journal.EngineID(0))
	}
}

func unloadAfterMail(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	w.clientPosts(1, toRun(head.Number, signal("y", "y")))
	w.verdict(w.commit(unloading(head, 0, 2))[0], store.Mail)
	seen := w.mail()[0].Head.Mail
	w.verdict(w.commit(unloading(head, seen, 3))[0], store.Written)
	w.same("owner", w.head(head.Number).Owner, journal.EngineID(0))
}

func unloadWakes(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	c := unloading(head, 0, 2)
	c.Head.Cause, c.Head.Wake = "", time.Time{}
	w.commit(c)
	w.same("claimed", numbers(w.take(1<<20, 5)), []journal.Number{})
	w.clientPosts(7, toID("order-1", signal("x", "1")))
	got := w.take(7, 5)
	w.same("claimed", numbers(got), []journal.Number{head.Number})
	w.same("inbox", labels(got.Runs[0].Inbox), []string{"1:x"})
}

// unloadRace posts from several goroutines to a run that its engine unloads whenever it has
// seen all mail. In the end the engine must have got every message.
func unloadRace(w *world) {
	const posters, each = 3, 15
	w.join(0)
	run := w.written(w.start(""))[0]
	var wg sync.WaitGroup
	for i := range posters {
		wg.Go(func() {
			for j := range each {
				posts := []store.Post{toRun(run.Number, signal("x", fmt.Sprint(i, "-", j)))}
				if err := w.try(&store.Group{
					Now:     at(1),
					Changes: []store.Change{{Posts: posts}},
				}); err != nil {
					w.Errorf("post: %v", err)
				}
			}
		})
	}
	r := &racer{world: w, run: run, seq: 1}
	for range posters * each {
		r.round()
	}
	wg.Wait()
	for range 3 {
		r.round()
	}
	w.same("messages given", r.given, posters*each)
	w.same("inbox", len(w.inbox(run.Number)), 0)
}

// A racer is the engine of a run that is unloaded again and again.
type racer struct {
	*world
	run   journal.Head
	seq   int64 // of the last entry
	seen  int64 // the number of the last message
	given int
}

// round unloads the run and takes the messages that have come.
func (r *racer) round() {
	r.Helper()
	r.seq++
	unload := unloading(r.run, r.seen, r.seq)
	unload.Head.Cause = ""
	r.commit(unload)
	got := r.take(10, 1)
	for _, has := range slices.Concat(got.Mail, got.Runs) {
		r.seen, r.given = has.Head.Mail, r.given+len(has.Inbox)
		for _, m := range has.Inbox {
			r.seq++
			r.commit(taking(r.run.Number, r.seq, m.Seq, m))
		}
	}
}

package storetest

import (
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// successorChecks are about runs that continue as new.
func successorChecks() []check {
	return []check{
		{"successor/it begins as its predecessor ends, under the same ID", successorBegins},
		{"successor/what was not taken moves along with its numbers", successorMessages},
		{"successor/a message of the same group moves along", successorSameGroup},
		{"successor/a message that the chain knows is a duplicate", successorKnows},
		{
			"successor/a message that follows the chain gets to its open run, and to no other",
			successorFollowed,
		},
		{
			"successor/a message gets to who retries a run, and what comes after that",
			successorRetries,
		},
		{"successor/the order of the changes does not matter", successorOrder},
		{"successor/its predecessor must have ended and have had its ID", successorRefused},
		{"successor/a group that is refused moves nothing", successorRolledBack},
		{"successor/a window does not stop it", successorWindow},
		{"successor/a group that is sent again writes it once", successorAgain},
	}
}

// continued returns the end of a run and the start of its successor, which the same engine
// owns.
func (w *world) continued(h journal.Head, seq int64, seconds int) []store.Change {
	w.Helper()
	end := ended(h, seq, seconds)
	end.Head.Status = journal.ContinuedAsNew
	end.Entries[0].Kind, end.Entries[0].Status = journal.RunContinued, journal.ContinuedAsNew
	next := w.start(h.WorkflowID)
	next.From, next.Head.Chain = h.Number, h.Chain
	return []store.Change{end, next}
}

// spec: R-25
func successorBegins(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	for i := range 3 {
		both := w.commit(w.continued(head, 2, 10+i)...)
		next := both[1]
		w.verdict(next, store.Written)
		next.Head.Mail = int64(i)
		w.same("found", next.Found, *next.Head)
		w.same("status", w.head(head.Number).Status, journal.ContinuedAsNew)
		w.same("successor", w.head(next.Run), *next.Head)
		w.same("its entries", w.load(next.Run, store.Range{}), next.Entries)
		w.judged(w.posted(20, toID("order-1", signal("x", fmt.Sprint(i))))[0], store.Delivered,
			next.Run, int64(i+1))
		head = w.head(next.Run)
	}
	w.same("newest", w.find(store.Filter{WorkflowID: "order-1", Newest: true}),
		[]journal.Head{head})
}

// spec: R-25
func successorMessages(w *world) {
	w.join(0)
	head := w.filled("order-1", 4)
	both := w.continued(head, 3, 10)
	both[0].Entries = append(taking(head.Number, 2, 2, signal("x2", "")).Entries,
		both[0].Entries...)
	w.commit(both...)
	next := both[1].Run
	w.same("mail as found", both[1].Found.Mail, int64(4))
	w.same("inbox", labels(w.inbox(next)), []string{"1:x1", "3:x3", "4:x4"})
	w.same("a message", w.inbox(next)[1], received(signal("x3", "3"), next, 3))
	w.same("inbox of the predecessor", labels(w.inbox(head.Number)), []string{})
	w.same("mail", w.head(next).Mail, int64(4))
	w.same("mail of the predecessor", w.head(head.Number).Mail, int64(4))
	w.same("mail that counts as not given", labels(w.mail()[0].Inbox),
		[]string{"1:x1", "3:x3", "4:x4"})
	w.judged(w.posted(11, toRun(next, signal("x5", "5")))[0], store.Delivered, next, 5)
	w.commit(taking(next, 2, 3, signal("x3", "")))
	w.same("inbox", labels(w.inbox(next)), []string{"1:x1", "4:x4", "5:x5"})
	w.die(20)
	w.same("claimed", labels(w.take(20, 1).Runs[0].Inbox), []string{"1:x1", "4:x4", "5:x5"})
}

// spec: R-25
func successorSameGroup(w *world) {
	w.join(0)
	head := w.filled("order-1", 1)
	both := w.continued(head, 2, 10)
	both[1].Posts = []store.Post{toID("order-1", signal("y", "y"))}
	late := store.Change{Posts: []store.Post{toRun(both[1].Run, signal("z", "z"))}}
	w.commit(append(both, late)...)
	w.judged(both[1].Posts[0], store.Delivered, head.Number, 2)
	w.judged(late.Posts[0], store.Nobody, 0, 0)
	w.same("inbox", labels(w.inbox(both[1].Run)), []string{"1:x1", "2:y"})
	w.same("mail", w.head(both[1].Run).Mail, int64(2))
}

// spec
func successorKnows(w *world) {
	w.join(0)
	head := w.filled("order-1", 2)
	both := w.continued(head, 3, 10)
	both[0].Entries = append(taking(head.Number, 2, 1, signal("x1", "")).Entries,
		both[0].Entries...)
	w.commit(both...)
	next := both[1].Run
	for _, id := range []string{"1", "2"} {
		w.judged(w.posted(11, toID("order-1", signal("x", id)))[0], store.Duplicate, next, 0)
		w.judged(w.posted(11, toRun(head.Number, signal("x", id)))[0], store.Duplicate, head.Number,
			0)
	}
	w.posted(11, toRun(next, signal("y", "3")))
	w.judged(w.posted(11, toRun(head.Number, signal("y", "3")))[0], store.Duplicate, head.Number, 0)
	w.judged(w.posted(11, toRun(head.Number, signal("y", "4")))[0], store.Closed, head.Number, 0)
	w.commit(ended(w.head(next), 2, 20))
	w.judged(w.posted(21, waiting("order-1", 90, signal("x", "1")))[0], store.Duplicate, next, 0)
	w.same("inbox", labels(w.inbox(next)), []string{"2:x2", "3:y"})
}

// spec
func successorFollowed(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	first := head.Number
	follow := func(id string) store.Post {
		p := toRun(first, signal("x", id))
		p.Follow = store.FollowChain
		return p
	}
	w.judged(w.posted(1, follow("1"))[0], store.Delivered, first, 1)
	for i := range 2 {
		head = w.head(w.commit(w.continued(head, 2, 10+i)...)[1].Run)
	}
	both := w.posted(12, toRun(first, signal("x", "2")), follow("3"), follow("3"))
	w.judged(both[0], store.Closed, first, 0)
	w.judged(both[1], store.Delivered, head.Number, 2)
	w.judged(both[2], store.Duplicate, head.Number, 2)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x", "2:x"})
	w.commit(ended(w.head(head.Number), 2, 20))
	w.judged(w.posted(21, follow("4"))[0], store.Closed, first, 0)
	other := w.written(w.start("order-1"))[0]
	w.judged(w.posted(22, follow("5"))[0], store.Closed, first, 0)
	w.same("inbox of another chain", labels(w.inbox(other.Number)), []string{})
}

// The message about a child's end follows to a run that retries its parent, but to no
// successor: a successor does not have that child.
//
// spec: F-18, P-4
func successorRetries(w *world) {
	w.join(0)
	n := 0
	follow := func(to journal.Number, f store.Following) store.Post {
		n++
		p := toRun(to, signal("x", fmt.Sprint(n)))
		p.Follow = f
		return p
	}
	head := w.written(w.start("order-1"))[0]
	first := head.Number
	w.judged(w.posted(1, follow(first, store.FollowRetry))[0], store.Delivered, first, 1)
	both := w.commit(w.continued(head, 2, 10)...)
	second := both[1].Run
	w.judged(w.posted(12, follow(first, store.FollowRetry))[0], store.Closed, first, 0)
	end := ended(w.head(second), 2, 20)
	end.Head.Status, end.Entries[0].Kind, end.Entries[0].Status = journal.Failed, journal.RunFailed,
		journal.Failed
	w.commit(end)
	w.judged(w.posted(21, follow(second, store.FollowRetry))[0], store.Closed, second, 0)
	again := w.start("order-1")
	again.Head.Chain = first
	w.written(again)
	all := w.posted(22, follow(first, store.FollowRetry), follow(second, store.FollowNone),
		follow(second, store.FollowRetry),
		follow(second, store.FollowChain), follow(first, store.FollowChain))
	w.judged(all[0], store.Closed, first, 0)
	w.judged(all[1], store.Closed, second, 0)
	for i, p := range all[2:] {
		w.judged(p, store.Delivered, again.Run, int64(i+1))
	}
}

func successorOrder(w *world) {
	w.join(0)
	both := w.continued(w.filled("order-1", 1), 2, 10)
	w.commit(both[1], both[0])
	w.same("inbox", labels(w.inbox(both[1].Run)), []string{"1:x1"})
}

func successorRefused(w *world) {
	w.join(0)
	head, other := w.filled("order-1", 1), w.filled("order-2", 1)
	open := w.continued(head, 2, 10)
	stray := w.continued(head, 2, 10)
	stray[1].From = w.number()
	foreign := w.continued(head, 2, 10)
	foreign[1].Head.WorkflowID = "order-9"
	second := w.continued(head, 2, 10)
	second[1].From = other.Number
	for _, bad := range [][]store.Change{open[1:], stray, foreign, second} {
		w.refused(w.group(bad...))
		w.same("head", w.head(head.Number), head)
	}
	w.same("runs", len(w.find(store.Filter{})), 2)
	over := w.continued(other, 2, 10)
	w.commit(ended(other, 2, 5))
	w.written(w.start("order-2"))
	w.refused(w.group(over[1]))
}

func successorRolledBack(w *world) {
	w.join(0)
	head := w.filled("order-1", 2)
	both := w.continued(head, 2, 10)
	again := both[1]
	again.Entries = append(again.Entries, taking(again.Run, 2, 99, signal("x", "")).Entries...)
	w.refused(w.group(both[0], again))
	w.absent(both[1].Run)
	w.same("head", w.head(head.Number), head)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x1", "2:x2"})
	w.commit(both...)
	w.same("inbox of the successor", labels(w.inbox(both[1].Run)), []string{"1:x1", "2:x2"})
}

func successorWindow(w *world) {
	w.join(0)
	both := w.continued(w.filled("order-1", 0), 2, 10)
	both[1].Since = at(0)
	w.commit(both...)
	w.verdict(both[1], store.Written)
}

// spec: R-25
func successorAgain(w *world) {
	w.join(0)
	head := w.filled("order-1", 2)
	both := w.continued(head, 2, 10)
	w.commit(both...)
	w.again(both...)
	w.verdict(both[1], store.Written)
	w.same("inbox", labels(w.inbox(both[1].Run)), []string{"1:x1", "2:x2"})
	w.rows(both[1].Run, 1)
	w.rows(head.Number, 2)
}

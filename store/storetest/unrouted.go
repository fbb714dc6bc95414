package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// unroutedChecks are about messages that found no run.
func unroutedChecks() []check {
	return []check{
		{"unrouted/a message for an ID without an open run is kept and listed", unroutedKept},
		{"unrouted/the same ID for the same workflow ID is kept once", unroutedDuplicate},
		{"unrouted/an ID that the group has kept is a duplicate for all later ones", unroutedTwins},
		{"unrouted/a run that is created gets what waited for its ID, in order", unroutedDelivered},
		{"unrouted/what waited is told to the engine that creates the run", unroutedGiven},
		{"unrouted/what was delivered is a duplicate when it comes again", unroutedKnown},
		{"unrouted/what has expired is not delivered", unroutedExpired},
		{"unrouted/a creation that is refused delivers nothing", unroutedRolledBack},
		{"unrouted/a message is moved by its number", unroutedMoved},
		{"unrouted/a message that cannot be moved stays", unroutedStays},
		{"unrouted/a range limits what is listed", unroutedRanges},
	}
}

// waiting returns a message for a workflow ID that is kept until a time.
func waiting(workflowID string, seconds int, m journal.Entry) store.Post {
	p := toID(workflowID, m)
	p.Until = at(seconds)
	return p
}

// kept commits messages for an ID that no open run has, named x1 to xn, and returns their
// numbers.
func (w *world) kept(workflowID string, names ...string) []int64 {
	w.Helper()
	var out []int64
	for _, name := range names {
		p := w.posted(1, waiting(workflowID, 90, signal(name, name)))[0]
		w.judged(p, store.Unrouted, 0, p.Number)
		out = append(out, p.Number)
	}
	return out
}

// unrouted demands the number of unrouted messages that Info counts.
func (w *world) unrouted(want int) {
	w.Helper()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("unrouted messages as counted", info.Unrouted, int64(want))
	w.same("unrouted messages as listed", len(w.inbox(0)), want)
}

// The workflow ID has had a run, which is not the receiver of what waits for the next one.
func unroutedTwins(w *world) {
	w.join(0)
	w.commit(ended(w.written(w.start("order-1"))[0], 2, 5))
	m := signal("paid", "1")
	m.Detail = &journal.Detail{MessageDetail: journal.MessageDetail{Message: "m"}}
	posts := w.posted(6, waiting("order-1", 90, m), toID("order-1", m), waiting("order-1", 90, m))
	w.judged(posts[0], store.Unrouted, 0, posts[0].Number)
	for _, p := range posts[1:] {
		if p.Verdict != store.Duplicate || p.To.Number != 0 {
			w.Fatalf("the verdict is %d on run %d", p.Verdict, p.To.Number)
		}
	}
	w.unrouted(1)
}

// spec: R-20
func unroutedKept(w *world) {
	w.join(0)
	old := w.written(w.start("order-1"))[0]
	w.commit(ended(old, 2, 5))
	m := signal("paid", "1")
	m.Op.Key = "k"
	first := w.posted(6, waiting("order-1", 90, m))[0]
	second := w.clientPosts(6, waiting("order-2", 80, signal("paid", "1")))[0]
	w.judged(first, store.Unrouted, 0, first.Number)
	w.judged(second, store.Unrouted, 0, second.Number)
	if first.Number <= 0 || second.Number <= first.Number {
		w.Fatalf("the numbers are %d and %d", first.Number, second.Number)
	}
	m = received(m, 0, first.Number)
	m.Detail = &journal.Detail{
		MessageDetail: journal.MessageDetail{Message: "1", To: "order-1"},
		Due:           at(90),
	}
	n := received(signal("paid", "1"), 0, second.Number)
	n.Detail = &journal.Detail{
		MessageDetail: journal.MessageDetail{Message: "1", To: "order-2"},
		Due:           at(80),
	}
	w.same("listed", w.inbox(0), []journal.Entry{m, n})
	w.same("the ended run's inbox", len(w.inbox(old.Number)), 0)
	w.die(10)
	w.same("listed after reopening", w.inbox(0), []journal.Entry{m, n})
	w.unrouted(2)
}

// spec: R-20
func unroutedDuplicate(w *world) {
	w.join(0)
	w.kept("order-1", "x")
	for _, p := range []store.Post{
		waiting("order-1", 99, signal("y", "x")), toID("order-1", signal("y", "x")),
	} {
		p = w.posted(2, p)[0]
		w.judged(p, store.Duplicate, 0, 0)
	}
	w.kept("order-2", "x")
	for range 2 { // without an ID each of them is a separate message
		w.judged(w.posted(2, toID("order-1", signal("y", "")))[0], store.Nobody, 0, 0)
		p := w.posted(2, waiting("order-1", 90, signal("y", "")))[0]
		w.judged(p, store.Unrouted, 0, p.Number)
	}
	w.unrouted(4)
}

// spec: R-20
func unroutedDelivered(w *world) {
	w.join(0)
	w.kept("order-1", "x1", "x2")
	w.kept("order-2", "y1")
	w.kept("order-1", "x3")
	c := w.free("order-1", 70)
	c.Posts = []store.Post{toRun(c.Run, signal("z", "z"))}
	early := store.Change{Posts: []store.Post{toID("order-1", signal("e", "e"))}}
	w.commit(early, c)
	w.verdict(c, store.Written)
	w.judged(early.Posts[0], store.Delivered, c.Run, 4)
	w.judged(c.Posts[0], store.Delivered, c.Run, 5)
	w.same("inbox", labels(w.inbox(c.Run)), []string{"1:x1", "2:x2", "3:x3", "4:e", "5:z"})
	w.same("mail", w.head(c.Run).Mail, int64(5))
	w.same("as it was sent", w.inbox(c.Run)[0], received(signal("x1", "x1"), c.Run, 1))
	w.unrouted(1)
	w.same("claimed at once", labels(w.take(0, 1).Runs[0].Inbox),
		[]string{"1:x1", "2:x2", "3:x3", "4:e", "5:z"})
}

func unroutedGiven(w *world) {
	w.join(0)
	w.kept("order-1", "x1", "x2")
	c := w.start("order-1")
	c.Posts = []store.Post{toRun(c.Run, signal("z", "z"))}
	c = w.commit(c)[0]
	w.same("mail as found", c.Found.Mail, int64(2))
	w.same("run as found", c.Found.Number, c.Run)
	w.same("mail", labels(w.mail()[0].Inbox), []string{"1:x1", "2:x2", "3:z"})
}

func unroutedKnown(w *world) {
	w.join(0)
	w.kept("order-1", "x1")
	head := w.written(w.start("order-1"))[0]
	w.judged(w.posted(2, waiting("order-1", 90, signal("x1", "x1")))[0], store.Duplicate,
		head.Number, 0)
	w.unrouted(0)
}

// spec: R-20
func unroutedExpired(w *world) {
	w.join(0)
	w.kept("order-1", "x1", "x2")
	w.posted(1, waiting("order-1", 200, signal("x3", "x3")))
	again := w.posted(90, waiting("order-1", 200, signal("x1", "x1")))[0]
	w.judged(again, store.Unrouted, 0, again.Number)
	c := w.start("order-1")
	g := w.group(c)
	g.Now = at(90)
	w.ok(w.try(g))
	w.same("inbox", labels(w.inbox(c.Run)), []string{"1:x3", "2:x1"})
}

func unroutedRolledBack(w *world) {
	w.join(0)
	numbers := w.kept("order-1", "x1", "x2")
	c := w.start("order-1")
	w.refused(w.group(c, step(w.number(), 1)))
	w.refused(w.group(store.Change{
		Posts: []store.Post{{Run: w.filled("", 0).Number, Unrouted: numbers[0]}},
	}, step(w.number(), 1)))
	w.unrouted(2)
	w.written(c)
	w.same("inbox", labels(w.inbox(c.Run)), []string{"1:x1", "2:x2"})
}

// spec: R-20
func unroutedMoved(w *world) {
	w.join(0)
	waits := w.kept("order-1", "x1", "x2")
	c := w.free("order-2", 90)
	c.Head.Cause = "an operator"
	head := w.written(c)[0]
	w.judged(w.posted(2, store.Post{Run: head.Number, Unrouted: waits[1]})[0], store.Delivered,
		head.Number, 1)
	w.same("wake", moment(w.head(head.Number).Wake), moment(at(90)))
	w.judged(w.posted(3, store.Post{Run: head.Number, Unrouted: waits[0], Force: true})[0],
		store.Delivered, head.Number, 2)
	w.same("wake by force", moment(w.head(head.Number).Wake), moment(at(3)))
	w.same("inbox", w.inbox(head.Number), []journal.Entry{
		received(signal("x2", "x2"), head.Number, 1), received(signal("x1", "x1"), head.Number, 2),
	})
	w.unrouted(0)
	w.judged(w.posted(4, toRun(head.Number, signal("x1", "x1")))[0], store.Duplicate, head.Number,
		0)
	w.judged(w.posted(4, store.Post{Run: head.Number, Unrouted: waits[0]})[0], store.Nobody, 0, 0)

	own := w.filled("", 0)
	last := w.kept("order-1", "x4")[0]
	w.judged(w.posted(5, store.Post{Run: own.Number, Unrouted: last})[0], store.Delivered,
		own.Number, 1)
	w.same("mail", labels(w.mail()[0].Inbox), []string{"1:x4"})
}

func unroutedStays(w *world) {
	w.join(0)
	number := w.kept("order-1", "x1")[0]
	over, knows := w.filled("order-2", 0), w.filled("order-3", 0)
	w.commit(ended(over, 2, 5))
	w.posted(1, toRun(knows.Number, signal("x1", "x1")))
	w.judged(w.posted(6, store.Post{Run: over.Number, Unrouted: number})[0], store.Closed,
		over.Number, 0)
	w.judged(w.posted(6, store.Post{Run: w.number(), Unrouted: number})[0], store.Nobody, 0, 0)
	w.judged(w.posted(6, store.Post{Run: knows.Number, Unrouted: number + 1})[0], store.Nobody, 0,
		0)
	w.unrouted(1)
	w.judged(w.posted(6, store.Post{Run: knows.Number, Unrouted: number})[0], store.Duplicate,
		knows.Number, 0)
	w.unrouted(0) // its receiver has the message
	w.same("inbox", labels(w.inbox(knows.Number)), []string{"1:x1"})
}

func unroutedRanges(w *world) {
	w.join(0)
	waits := w.kept("order-1", "a", "b", "c", "a2")
	for _, r := range []struct {
		store.Range
		want []int64
	}{
		{store.Range{}, waits}, {store.Range{From: waits[1]}, waits[1:]},
		{store.Range{Limit: 2}, waits[:2]},
		{store.Range{Tail: true, Limit: 1}, waits[3:]}, {store.Range{Name: "a"}, waits[:1]},
	} {
		r.Inbox = true
		var got []int64
		for _, e := range w.load(0, r.Range) {
			got = append(got, e.Seq)
		}
		w.same("numbers", got, r.want)
	}
}

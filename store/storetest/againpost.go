package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// againPostChecks are about posts and unloads of groups that are sent again.
func againPostChecks() []check {
	return []check{
		{"again/messages of a group that was written are not delivered twice", againPosts},
		{"again/messages of a group that was not written are delivered", againLostPosts},
		{"again/a message without companions is known by its ID", againPostAlone},
		{"again/a message is known although its receiver has ended", againPostEnded},
		{"again/a message that is there proves nothing of the others", againPostsApart},
		{"again/a message that follows a chain is known in the run that has it", againFollowed},
		{"again/a start that has posted to a run finds that one", againStartPosted},
		{
			"again/what came with a group that is there is not delivered twice, without an " +
				"ID either", againPostFound,
		},
		{"again/an unrouted message is kept once", againUnrouted},
		{"again/a message is moved once", againMoved},
		{"again/a message that an entry took stays taken", againTaken},
		{"again/an unload that was written has its verdict again", againUnload},
		{"again/an entry is in the outbox once", againOutbox},
	}
}

// alone sends posts again, in a group of their own.
func (w *world) alone(posts ...store.Post) []store.Post {
	w.Helper()
	w.again(store.Change{Posts: posts})
	return posts
}

func againPosts(w *world) {
	w.join(0)
	head, over := w.filled("order-1", 0), w.filled("order-2", 0)
	w.commit(ended(over, 2, 5))
	c := step(head.Number, 2)
	c.Posts = []store.Post{
		toRun(head.Number, signal("x", "1")), toRun(head.Number, signal("y", "")),
		toRun(over.Number, signal("z", "1")), toRun(w.number(), signal("z", "1")),
		toID("order-1", signal("v", "2")),
	}
	fresh := w.start("order-3")
	fresh.Posts = []store.Post{toRun(fresh.Run, signal("x", "1"))}
	w.commit(c, fresh)
	for range 2 {
		w.again(c, fresh)
		w.judged(c.Posts[0], store.Delivered, head.Number, 1)
		w.same("verdict without an ID", c.Posts[1].Verdict, store.Delivered)
		w.judged(c.Posts[2], store.Closed, over.Number, 0)
		w.judged(c.Posts[3], store.Nobody, 0, 0)
		w.judged(c.Posts[4], store.Delivered, head.Number, 3)
		w.judged(fresh.Posts[0], store.Delivered, fresh.Run, 1)
	}
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x", "2:y", "3:v"})
	w.same("inbox of the new run", labels(w.inbox(fresh.Run)), []string{"1:x"})
}

func againLostPosts(w *world) {
	w.join(0)
	head := w.filled("", 1)
	c := step(head.Number, 2)
	c.Posts = []store.Post{
		toRun(head.Number, signal("x", "1")), toRun(head.Number, signal("y", "")),
	}
	w.again(c)
	w.judged(c.Posts[0], store.Duplicate, head.Number, 0)
	w.judged(c.Posts[1], store.Delivered, head.Number, 2)
}

func againPostAlone(w *world) {
	w.join(0)
	head := w.filled("order-1", 0)
	p := toID("order-1", signal("x", "1"))
	w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
	w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
	w.commit(taking(head.Number, 2, 1, signal("x", "")))
	w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
	w.commit(ended(head, 3, 5))
	w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
	w.same("inbox", labels(w.inbox(head.Number)), []string{})
}

// The verdict names the run that has got the message: its engine reads it there.
//
// spec
func againFollowed(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	p := toRun(head.Number, signal("x", "1"))
	p.Follow = store.FollowChain
	next := w.commit(w.continued(head, 2, 10)...)[1].Run
	w.judged(w.posted(11, p)[0], store.Delivered, next, 1)
	for range 2 {
		w.judged(w.alone(p)[0], store.Delivered, next, 1)
	}
	w.same("inbox", labels(w.inbox(next)), []string{"1:x"})
}

// The same ID at another time is another message.
//
// spec
func againPostEnded(w *world) {
	w.join(0)
	head := w.filled("order-1", 0)
	p, q, r := toID("order-1", signal("x", "1")), waiting("order-2", 90, signal("y", "2")),
		toRun(head.Number, signal("z", "3"))
	later := p
	later.Message.At = at(3)
	w.clientPosts(1, p, q, r)
	second := w.written(w.start("order-2"))[0]
	w.commit(taking(head.Number, 2, 1, signal("x", "")))
	w.commit(ended(head, 3, 5), ended(second, 2, 5))
	next := w.filled("order-1", 0)
	w.filled("order-2", 0)
	for range 2 {
		w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
		w.judged(w.alone(q)[0], store.Delivered, second.Number, 1)
		w.judged(w.alone(r)[0], store.Delivered, head.Number, 2)
	}
	w.judged(w.alone(later)[0], store.Delivered, next.Number, 1)
	w.unrouted(0)
}

// spec: R-17
func againPostsApart(w *world) {
	w.join(0)
	head := w.filled("order-1", 0)
	p, q := toID("order-1", signal("x", "1")), toID("order-1", signal("y", "2"))
	w.clientPosts(1, p)
	posts := w.alone(p, q)
	w.judged(posts[0], store.Delivered, head.Number, 1)
	w.judged(posts[1], store.Delivered, head.Number, 2)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x", "2:y"})
}

// spec: R-22
func againStartPosted(w *world) {
	w.join(0)
	head := w.filled("order-1", 0)
	c := w.start("order-1")
	c.Posts = []store.Post{toID("order-1", signal("x", "1"))}
	w.verdict(w.commit(c)[0], store.Exists)
	w.commit(ended(head, 2, 5))
	w.commit(ended(w.filled("order-1", 0), 2, 6))
	c = w.again(c)[0]
	w.verdict(c, store.Exists)
	w.same("found", c.Found.Number, head.Number)
	w.judged(c.Posts[0], store.Delivered, head.Number, 1)
	w.absent(c.Run)
}

// A start that had found a run proves nothing by itself, but another change of its group may
// be a proof.
func againPostFound(w *world) {
	w.join(0)
	head, other := w.filled("order-1", 0), w.filled("order-2", 0)
	c := w.start("order-1")
	c.Posts = []store.Post{toID("order-1", signal("x", ""))}
	c.Else = []store.Post{toRun(other.Number, signal("y", ""))}
	w.commit(c, step(other.Number, 2))
	w.again(c, step(other.Number, 2))
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x"})
	w.same("inbox of the other", labels(w.inbox(other.Number)), []string{"1:y"})
}

func againUnrouted(w *world) {
	w.join(0)
	p := waiting("order-1", 90, signal("x", "1"))
	number := w.posted(1, p)[0].Number
	for range 2 {
		w.judged(w.alone(p)[0], store.Unrouted, 0, number)
	}
	w.unrouted(1)
	head := w.written(w.start("order-1"))[0]
	w.judged(w.alone(p)[0], store.Delivered, head.Number, 1)
	w.same("mail", w.head(head.Number).Mail, int64(1))
}

func againMoved(w *world) {
	w.join(0)
	number, head := w.kept("order-1", "x")[0], w.filled("order-2", 0)
	p := store.Post{Run: head.Number, Unrouted: number}
	for range 2 {
		w.same("verdict", w.alone(p)[0].Verdict, store.Delivered)
	}
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x"})
	w.unrouted(0)
}

func againTaken(w *world) {
	w.join(0)
	head := w.filled("", 2)
	c := taking(head.Number, 2, 1, signal("x1", ""))
	w.commit(c)
	w.again(c)
	w.rows(head.Number, 2)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"2:x2"})
}

func againUnload(w *world) {
	w.join(0)
	a, b := w.filled("", 0), w.filled("", 0)
	w.clientPosts(1, toRun(b.Number, signal("x", "1")))
	unloads := w.commit(unloading(a, 0, 2), unloading(b, 0, 2))
	for range 2 {
		w.verdict(unloads[0], store.Written)
		w.verdict(unloads[1], store.Mail)
		w.same("found", unloads[1].Found.Mail, int64(1))
		w.again(unloads...)
	}
	w.same("owners", []journal.EngineID{w.head(a.Number).Owner, w.head(b.Number).Owner},
		[]journal.EngineID{0, w.engine})
	w.verdict(w.again(unloading(b, 0, 3))[0], store.Mail) // the unload had not been written
	w.rows(b.Number, 3)
}

func againOutbox(w *world) {
	w.join(0)
	c := toOutbox(w.written(w.start(""))[0].Number, 2)
	w.commit(c)
	w.again(c)
	w.countOutbox(1)
}

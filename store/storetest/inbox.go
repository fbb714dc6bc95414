package storetest

import (
	"bytes"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// inboxChecks are about taking messages and reading them.
func inboxChecks() []check {
	return []check{
		{"inbox/an entry takes the message that it names, in any order", inboxTaken},
		{"inbox/a message that is not there, or taken, refuses the whole group", inboxNotThere},
		{"inbox/a group that is refused takes nothing", inboxRolledBack},
		{"inbox/what a run has not read stays listed after its end", inboxAfterEnd},
		{"inbox/a range limits what is listed", inboxRanges},
		{"inbox/a claim gives what was not taken", inboxClaimed},
		{"inbox/a claim gives a page, and says that there is more", inboxPage},
		{"inbox/a claim gives about 1 MB", inboxBytes},
	}
}

// mailChecks are about messages that an engine gets for a run that it owns.
func mailChecks() []check {
	return []check{
		{"mail/what others posted to an owned run is given once", mailGiven},
		{"mail/what the engine posted itself counts as given", mailOwn},
		{"mail/what follows a message not given counts as not given", mailAfterGap},
		{"mail/a claimed run was given all of its messages", mailAfterClaim},
		{"mail/a page is given, and what is left counts as given", mailPage},
		{"mail/only the engine's own open runs have mail", mailOwnOnly},
		{"mail/a claim of no run gives mail alone", mailAlone},
	}
}

// taking returns the entry by which a run takes a message.
func taking(run journal.Number, seq, number int64, m journal.Entry) store.Change {
	m.Run, m.Seq, m.Kind = run, seq, journal.SignalConsumed
	m.Detail = &journal.Detail{MessageDetail: journal.MessageDetail{Mail: number}}
	return store.Change{Run: run, Entries: []journal.Entry{m}}
}

// filled commits a new run that the engine owns and n messages for it, x1 to xn.
func (w *world) filled(id string, n int) journal.Head {
	w.Helper()
	c := w.start(id)
	for i := range n {
		c.Posts = append(c.Posts, toRun(c.Run, signal(fmt.Sprint("x", i+1), fmt.Sprint(i+1))))
	}
	w.written(c)
	return w.head(c.Run)
}

// clientPosts commits posts as a client does, which has no engine.
func (w *world) clientPosts(seconds int, posts ...store.Post) []store.Post {
	w.Helper()
	g := &store.Group{Now: at(seconds), Changes: []store.Change{{Posts: posts}}}
	w.ok(w.try(g))
	return posts
}

// mail claims the messages of the engine's own runs that the engine was not given.
func (w *world) mail() []store.Run {
	w.Helper()
	return w.take(0, 0).Mail
}

// spec: R-17
func inboxTaken(w *world) {
	w.join(0)
	run := w.filled("", 4).Number
	w.commit(taking(run, 2, 3, signal("x3", "")))
	w.same("inbox", labels(w.inbox(run)), []string{"1:x1", "2:x2", "4:x4"})
	two := taking(run, 3, 4, signal("x4", ""))
	two.Entries = append(two.Entries, taking(run, 4, 1, signal("x1", "")).Entries...)
	w.commit(two)
	w.same("inbox", labels(w.inbox(run)), []string{"2:x2"})
	w.same("mail", w.head(run).Mail, int64(4))
	w.rows(run, 4)
	w.die(10)
	w.same("inbox after reopening", labels(w.inbox(run)), []string{"2:x2"})
}

func inboxNotThere(w *world) {
	w.join(0)
	run, other := w.filled("", 2).Number, w.filled("", 3).Number
	w.commit(taking(run, 2, 1, signal("x1", "")))
	for _, number := range []int64{1, 3, 99} {
		w.refused(w.group(step(other, 2), taking(run, 3, number, signal("x", ""))))
	}
	late := taking(run, 3, 3, signal("x3", "")) // posts come after entries
	late.Posts = []store.Post{toRun(run, signal("x3", "3"))}
	w.refused(w.group(late))
	w.rows(other, 1)
	w.rows(run, 2)
	w.same("inbox", labels(w.inbox(run)), []string{"2:x2"})
}

func inboxRolledBack(w *world) {
	w.join(0)
	run := w.filled("", 2).Number
	w.refused(w.group(taking(run, 2, 1, signal("x1", "")), step(w.number(), 1)))
	w.same("inbox", labels(w.inbox(run)), []string{"1:x1", "2:x2"})
	w.same("payload", w.inbox(run)[0].Data, signal("x", "").Data)
	w.commit(taking(run, 2, 1, signal("x1", "")))
}

func inboxAfterEnd(w *world) {
	w.join(0)
	head := w.filled("order-1", 3)
	end := ended(head, 3, 10)
	end.Entries = append(taking(head.Number, 2, 2, signal("x2", "")).Entries, end.Entries...)
	w.commit(end)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x1", "3:x3"})
	fresh := w.written(w.start("order-1"))[0]
	w.same("inbox of a later run", labels(w.inbox(fresh.Number)), []string{})
	w.same("mail of a later run", w.head(fresh.Number).Mail, int64(0))
}

func inboxRanges(w *world) {
	w.join(0)
	run := w.filled("", 6).Number
	w.filled("", 2)
	w.posted(1, toRun(run, signal("x2", "again")))
	w.commit(taking(run, 2, 3, signal("x3", "")))
	for _, r := range []struct {
		store.Range
		want []string
	}{
		{store.Range{}, []string{"1:x1", "2:x2", "4:x4", "5:x5", "6:x6", "7:x2"}},
		{store.Range{From: 3, Limit: 2}, []string{"4:x4", "5:x5"}},
		{store.Range{From: 5}, []string{"5:x5", "6:x6", "7:x2"}},
		{store.Range{From: 8}, nil},
		{store.Range{From: 5, Limit: 2, Tail: true}, []string{"6:x6", "7:x2"}},
		{store.Range{Name: "x2"}, []string{"2:x2", "7:x2"}},
		{store.Range{Name: "x2", Limit: 1}, []string{"2:x2"}},
		{store.Range{Name: "x2", From: 3}, []string{"7:x2"}},
		{store.Range{Name: "x2", Tail: true, Limit: 1}, []string{"7:x2"}},
		{store.Range{Name: "x3"}, nil},
		{store.Range{Name: "x"}, nil},
	} {
		r.Inbox = true
		w.same(fmt.Sprintf("%+v", r.Range), labels(w.load(run, r.Range)), r.want)
	}
	w.same("of no run", labels(w.inbox(w.number())), []string{})
}

func inboxClaimed(w *world) {
	w.join(0)
	a, b := w.filled("", 3), w.filled("", 1)
	w.commit(taking(a.Number, 2, 2, signal("x2", "")))
	w.die(10)
	runs := w.take(10, 1).Runs
	w.same("claimed", runs[0].Inbox, []journal.Entry{
		received(signal("x1", "1"), a.Number, 1), received(signal("x3", "3"), a.Number, 3),
	})
	w.same("mail of the head", runs[0].Head.Mail, int64(3))
	w.same("more", runs[0].More, false)
	one := w.claim(store.TakeRun{Engine: w.engine, Run: b.Number}).Runs
	w.same("claimed by number", labels(one[0].Inbox), []string{"1:x1"})
	again := w.claim(store.TakeRun{Engine: w.engine, Run: a.Number}).Runs
	w.same("claimed again", labels(again[0].Inbox), []string{"1:x1", "3:x3"})
}

func inboxPage(w *world) {
	w.join(0)
	full, over := w.filled("", store.InboxPage).Number, w.filled("", store.InboxPage+1).Number
	w.die(10)
	runs := w.take(10, 2).Runs
	for i, run := range []journal.Number{full, over} {
		w.same("run", runs[i].Head.Number, run)
		w.same("messages", len(runs[i].Inbox), store.InboxPage)
		w.same("more", runs[i].More, i == 1)
	}
	rest := w.load(over, store.Range{Inbox: true, From: runs[1].Inbox[store.InboxPage-1].Seq + 1})
	w.same("the rest", labels(rest), []string{
		fmt.Sprintf("%d:x%d", store.InboxPage+1, store.InboxPage+1),
	})
	w.same("mail", len(w.mail()), 0)
}

func inboxBytes(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for range 5 {
		m := signal("x", "")
		m.Data = bytes.Repeat([]byte("x"), store.InboxBytes/2)
		w.posted(1, toRun(run, m))
	}
	w.die(10)
	got := w.take(10, 1).Runs[0]
	if n := len(got.Inbox); n < 1 || n > 3 || !got.More {
		w.Fatalf("%d messages of half a megabyte came, and more is %v", n, got.More)
	}
}

// spec: R-17
func mailGiven(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	w.same("mail", len(w.mail()), 0)
	w.clientPosts(1, toID("order-1", signal("x", "1")), toRun(head.Number, signal("y", "2")))
	head.Mail = 2
	w.same("mail", w.mail(), []store.Run{{Head: head, Inbox: []journal.Entry{
		received(signal("x", "1"), head.Number, 1), received(signal("y", "2"), head.Number, 2),
	}}})
	w.same("mail given twice", len(w.mail()), 0)
	w.clientPosts(1, toID("order-1", signal("x", "1")), toRun(head.Number, signal("z", "3")))
	got := w.take(1, 5)
	w.same("mail beside a claim", len(got.Mail), 1)
	w.same("mail beside a claim", labels(got.Mail[0].Inbox), []string{"3:z"})
}

func mailOwn(w *world) {
	w.join(0)
	c := w.start("")
	c.Posts = []store.Post{toRun(c.Run, signal("x", "1"))}
	w.written(c)
	w.posted(1, toRun(c.Run, signal("y", "2")))
	w.same("mail", len(w.mail()), 0)
	w.clientPosts(2, toRun(c.Run, signal("z", "3")))
	w.same("mail", labels(w.mail()[0].Inbox), []string{"3:z"})
}

func mailAfterGap(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	w.clientPosts(1, toRun(run, signal("x", "1")))
	w.posted(2, toRun(run, signal("y", "2")))
	w.same("mail", labels(w.mail()[0].Inbox), []string{"1:x", "2:y"})
}

func mailAfterClaim(w *world) {
	w.join(0)
	c := w.free("", 5)
	w.written(c)
	w.clientPosts(1, toRun(c.Run, signal("x", "1")))
	w.same("mail of a run that nobody owns", len(w.mail()), 0)
	got := w.take(5, 5)
	w.same("inbox", labels(got.Runs[0].Inbox), []string{"1:x"})
	w.same("mail beside it", len(got.Mail), 0)
	w.same("mail", len(w.mail()), 0)
	w.posted(6, toRun(c.Run, signal("y", "2")))
	w.same("mail after a post of its own", len(w.mail()), 0)
	w.clientPosts(7, toRun(c.Run, signal("z", "3")))
	w.claim(store.TakeRun{Engine: w.engine, Run: c.Run})
	w.same("mail after a claim by number", len(w.mail()), 0)
}

func mailPage(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	var posts []store.Post
	for i := range store.InboxPage + 2 {
		posts = append(posts, toRun(run, signal("x", fmt.Sprint(i))))
	}
	w.clientPosts(1, posts...)
	got := w.mail()
	w.same("messages", len(got[0].Inbox), store.InboxPage)
	w.same("more", got[0].More, true)
	w.same("mail", got[0].Head.Mail, int64(store.InboxPage+2))
	w.same("mail given twice", len(w.mail()), 0)
}

func mailOwnOnly(w *world) {
	w.join(0)
	a, b := w.start(""), w.start("")
	heads := w.written(a, b)
	w.clientPosts(1, toRun(a.Run, signal("x", "1")), toRun(b.Run, signal("y", "2")))
	w.commit(ended(heads[0], 2, 5), update(heads[1], func(h *journal.Head) {
		h.Owner, h.Status = 0, journal.Waiting
	}))
	w.same("mail", len(w.mail()), 0)
	w.die(10)
	w.same("mail after a death", len(w.mail()), 0)
	w.same("inbox", labels(w.inbox(b.Run)), []string{"1:y"})
}

func mailAlone(w *world) {
	w.join(0)
	free := w.free("", 0)
	heads := w.written(w.start(""), free)
	w.clientPosts(1, toRun(heads[0].Number, signal("x", "1")))
	got := w.claim(store.TakeDue{Engine: w.engine, Workflows: []string{"w"}, Now: at(5)})
	w.same("runs", numbers(got), []journal.Number{})
	w.same("mail", labels(got.Mail[0].Inbox), []string{"1:x"})
	w.same("more", got.More, false)
	w.same("next", moment(got.Next), "never")
	w.same("owner", w.head(free.Run).Owner, journal.EngineID(0))
}

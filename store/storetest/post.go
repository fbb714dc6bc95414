package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// postChecks are about messages on their way to an inbox.
func postChecks() []check {
	return []check{
		{"post/messages get the next numbers of their receiver's inbox", postNumbers},
		{"post/a message comes back as it was", postFields},
		{"post/a message by workflow ID goes to the open run", postByID},
		{"post/a message to a run of the same group is delivered", postToNew},
		{"post/a run that nobody owns is due when the message comes", postWakes},
		{"post/a run with a cause to stay unloaded wakes by force only", postForce},
		{"post/a message of a known ID is a duplicate", postDuplicate},
		{"post/the same ID to two runs is delivered twice", postTwice},
		{"post/without an ID nothing is a duplicate", postWithoutID},
		{"post/a known ID stays known when it was taken and after the end", postKnownForGood},
		{"post/a run that has ended takes no message", postClosed},
		{"post/a run that is not there gets nothing", postNobody},
		{"post/a change without a run posts alone", postAlone},
		{"post/a malformed message refuses the whole group", postMalformed},
		{"post/a group that is refused leaves no message", postRolledBack},
		{"post/a message that is handed over may be changed afterwards", postCopies},
	}
}

// signal returns a signal with a payload. Without an ID it is not deduplicated.
func signal(name, id string) journal.Entry {
	e := journal.Entry{
		Kind: journal.SignalReceived,
		Op:   journal.Op{Name: name},
		At:   at(1),
		Data: []byte(`{"paid":1}`),
	}
	if id != "" {
		e.Detail = &journal.Detail{MessageDetail: journal.MessageDetail{Message: id}}
	}
	return e
}

func toRun(run journal.Number, m journal.Entry) store.Post {
	return store.Post{Run: run, Message: m}
}

func toID(workflowID string, m journal.Entry) store.Post {
	return store.Post{WorkflowID: workflowID, Message: m}
}

// posted commits posts at a time and returns them with their verdicts.
func (w *world) posted(seconds int, posts ...store.Post) []store.Post {
	w.Helper()
	g := w.group(store.Change{Posts: posts})
	g.Now = at(seconds)
	w.ok(w.try(g))
	return posts
}

// judged demands the verdict on a post.
func (w *world) judged(p store.Post, want store.Verdict, to journal.Number, number int64) {
	w.Helper()
	if p.Verdict != want || p.To.Number != to {
		w.Fatalf("the verdict is %d on run %d, want %d on run %d", p.Verdict, p.To.Number, want, to)
	}
	if want == store.Delivered || want == store.Unrouted {
		w.same("number", p.Number, number)
	}
}

// inbox returns the untaken messages of a run, with their payloads.
func (w *world) inbox(run journal.Number) []journal.Entry {
	w.Helper()
	return w.load(run, store.Range{Inbox: true, Payloads: true})
}

// labels returns the numbers and names of messages, such as 1:paid.
func labels(messages []journal.Entry) []string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%d:%s", m.Seq, m.Op.Name))
	}
	return out
}

// received returns a message as it is in the run's inbox.
func received(m journal.Entry, run journal.Number, number int64) journal.Entry {
	m.Run, m.Seq = run, number
	return m
}

// spec: R-17
func postNumbers(w *world) {
	w.join(0)
	heads := w.written(w.start(""), w.start(""))
	a, b := heads[0].Number, heads[1].Number
	posts := w.posted(1, toRun(a, signal("x", "1")), toRun(b, signal("x", "2")),
		toRun(a, signal("y", "3")))
	w.judged(posts[0], store.Delivered, a, 1)
	w.judged(posts[1], store.Delivered, b, 1)
	w.judged(posts[2], store.Delivered, a, 2)
	w.same("mail as told", []int64{posts[0].To.Mail, posts[2].To.Mail}, []int64{1, 2})
	w.judged(w.posted(2, toRun(a, signal("z", "4")))[0], store.Delivered, a, 3)
	w.same("inbox", labels(w.inbox(a)), []string{"1:x", "2:y", "3:z"})
	heads[0].Mail, heads[1].Mail = 3, 1
	w.same("heads", []journal.Head{w.head(a), w.head(b)}, heads)
}

func postFields(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	wild := []journal.Entry{
		{
			Kind: journal.SignalReceived,
			Op:   journal.Op{Name: "paid", Key: "ключ \x00 \xff"},
			At:   at(1).Add(1),
			Data: []byte("a\x00\xff"),
		},
		{Kind: journal.SignalReceived, Data: []byte{}},
		{
			Kind: journal.TimerCancelled,
			Op:   journal.Op{Scope: 9, Name: "reminder", Key: "k", Occ: 3},
			At:   time.Unix(0, -1),
		},
		{
			Kind: journal.CancelAsked, At: at(3), Detail: &journal.Detail{
				Reason:        "no ☃",
				MessageDetail: journal.MessageDetail{Message: "m"},
			},
		},
		{Kind: journal.ChildCompleted, At: at(4), Data: []byte("null"), Detail: &journal.Detail{
			Other: "db-1-2", Outcome: journal.Failed, Failure: &journal.Failure{
				Message: "no stock", Data: json.RawMessage(`{"n":1}`),
			},
		}},
		{Kind: journal.SuspendAsked}, {Kind: journal.ResumeAsked},
		{Kind: journal.DecisionMade, Op: journal.Op{Name: "skip"}},
	}
	var posts []store.Post
	for i, m := range wild {
		posts = append(posts, toRun(run, m))
		wild[i] = received(m, run, int64(i+1))
	}
	w.posted(1, posts...)
	w.same("messages", w.inbox(run), wild)
	w.die(10)
	w.same("messages after reopening", w.inbox(run), wild)
	w.same("claimed", w.take(10, 1).Runs[0].Inbox, wild)
}

// spec
func postByID(w *world) {
	w.join(0)
	old := w.written(w.start("order-1"))[0]
	w.commit(ended(old, 2, 5))
	fresh := w.written(w.start("order-1"))[0]
	w.judged(w.posted(6, toID("order-1", signal("x", "1")))[0], store.Delivered, fresh.Number, 1)
	w.same("inbox", labels(w.inbox(fresh.Number)), []string{"1:x"})
	w.same("inbox of the ended one", labels(w.inbox(old.Number)), []string{})
}

// spec: R-23
func postToNew(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Posts = []store.Post{toRun(c.Run, signal("x", "1"))}
	before := store.Change{Posts: []store.Post{toID("order-1", signal("y", "2"))}}
	w.commit(before, c)
	w.judged(before.Posts[0], store.Delivered, c.Run, 1)
	w.judged(c.Posts[0], store.Delivered, c.Run, 2)
	w.same("inbox", labels(w.inbox(c.Run)), []string{"1:y", "2:x"})
}

// spec: B-6
func postWakes(w *world) {
	w.join(0)
	owned, later, never, due := w.start(""), w.free("", 90), w.free("", 0), w.free("", 10)
	owned.Head.Wake, never.Head.Wake = at(90), time.Time{}
	w.written(owned, later, never, due)
	for _, c := range []struct {
		change store.Change
		wake   int
	}{{owned, 90}, {later, 50}, {never, 50}, {due, 10}} {
		p := w.posted(50, toRun(c.change.Run, signal("x", "1")))[0]
		w.same("wake", moment(w.head(c.change.Run).Wake), moment(at(c.wake)))
		w.same("wake as told", moment(p.To.Wake), moment(at(c.wake)))
	}
	w.same("claimed", numbers(w.take(50, 10)), []journal.Number{due.Run, later.Run, never.Run})
}

func postForce(w *world) {
	w.join(0)
	c := w.free("", 0)
	c.Head.Wake, c.Head.Status, c.Head.Cause = time.Time{}, journal.Suspended, "an operator"
	w.written(c)
	w.judged(w.posted(50, toRun(c.Run, signal("x", "1")))[0], store.Delivered, c.Run, 1)
	w.same("wake", moment(w.head(c.Run).Wake), "never")
	w.same("claimed", numbers(w.take(60, 10)), []journal.Number{})
	p := toRun(c.Run, journal.Entry{Kind: journal.ResumeAsked, At: at(60)})
	p.Force = true
	w.judged(w.posted(60, p)[0], store.Delivered, c.Run, 2)
	w.same("cause", w.head(c.Run).Cause, "an operator")
	w.same("claimed", numbers(w.take(60, 10)), []journal.Number{c.Run})
}

// spec: R-17
func postDuplicate(w *world) {
	w.join(0)
	run := w.written(w.start("order-1"))[0].Number
	twins := w.posted(1, toRun(run, signal("x", "1")), toRun(run, signal("y", "1")))
	w.judged(twins[0], store.Delivered, run, 1)
	w.judged(twins[1], store.Duplicate, run, 0)
	w.judged(w.posted(2, toRun(run, signal("z", "1")))[0], store.Duplicate, run, 0)
	w.judged(w.posted(2, toID("order-1", signal("z", "1")))[0], store.Duplicate, run, 0)
	w.same("inbox", labels(w.inbox(run)), []string{"1:x"})
	w.same("mail", w.head(run).Mail, int64(1))
}

// spec: R-17
func postTwice(w *world) {
	w.join(0)
	heads := w.written(w.start(""), w.start(""))
	for _, h := range heads {
		w.judged(w.posted(1, toRun(h.Number, signal("x", "1")))[0], store.Delivered, h.Number, 1)
	}
}

func postWithoutID(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for i := range 3 {
		w.judged(w.posted(1, toRun(run, signal("x", "")))[0], store.Delivered, run, int64(i+1))
	}
	w.same("inbox", labels(w.inbox(run)), []string{"1:x", "2:x", "3:x"})
}

// spec: R-17
func postKnownForGood(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	run := head.Number
	w.posted(1, toRun(run, signal("x", "1")), toRun(run, signal("y", "2")))
	w.commit(taking(run, 2, 1, signal("x", "1")))
	w.judged(w.posted(2, toRun(run, signal("x", "1")))[0], store.Duplicate, run, 0)
	w.commit(ended(head, 3, 5))
	for _, id := range []string{"1", "2"} {
		w.judged(w.posted(6, toRun(run, signal("x", id)))[0], store.Duplicate, run, 0)
		p := toID("order-1", signal("x", id))
		p.Until = at(90)
		w.judged(w.posted(6, p)[0], store.Duplicate, run, 0)
	}
	w.die(10)
	w.judged(w.posted(11, toRun(run, signal("x", "1")))[0], store.Duplicate, run, 0)
}

func postClosed(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	w.posted(1, toRun(head.Number, signal("x", "1")))
	w.commit(ended(head, 2, 5))
	p := w.posted(6, toRun(head.Number, signal("y", "2")))[0]
	w.judged(p, store.Closed, head.Number, 0)
	w.same("status as told", p.To.Status, journal.Completed)
	w.same("what it has not read", labels(w.inbox(head.Number)), []string{"1:x"})
	w.same("mail", w.head(head.Number).Mail, int64(1))
}

func postNobody(w *world) {
	w.join(0)
	w.judged(w.posted(1, toRun(w.number(), signal("x", "1")))[0], store.Nobody, 0, 0)
	w.judged(w.posted(1, toID("order-1", signal("x", "1")))[0], store.Nobody, 0, 0)
	head := w.written(w.start("order-1"))[0]
	w.commit(ended(head, 2, 5))
	w.judged(w.posted(1, toID("order-1", signal("x", "1")))[0], store.Nobody, 0, 0)
}

func postAlone(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	both := []store.Change{
		{Posts: []store.Post{toRun(head.Number, signal("x", "1"))}},
		step(head.Number, 2),
		{Posts: []store.Post{toRun(head.Number, signal("y", "2"))}},
	}
	w.commit(both...)
	w.rows(head.Number, 2)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"1:x", "2:y"})
}

func postMalformed(w *world) {
	w.join(0)
	run := w.written(w.start("order-1"))[0].Number
	both := toRun(run, signal("x", "1"))
	both.WorkflowID = "order-1"
	broken := toRun(run, signal("x", "1"))
	broken.Message.Detail = &journal.Detail{Failure: &journal.Failure{Data: json.RawMessage("{")}}
	fact := toRun(run, journal.Entry{Kind: journal.StepCompleted, At: at(1)})
	moved := store.Post{WorkflowID: "order-1", Unrouted: 1}
	for _, bad := range []store.Post{both, broken, fact, moved, {Message: signal("x", "1")}} {
		w.refused(w.group(store.Change{Posts: []store.Post{toRun(run, signal("y", "2")), bad}}))
	}
	w.same("inbox", labels(w.inbox(run)), []string{})
	w.same("mail", w.head(run).Mail, int64(0))
}

func postRolledBack(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	lost := toID("nobody", signal("x", "1"))
	lost.Until = at(90)
	bad := w.start("order-2") // its head continues no existing run
	bad.From = head.Number
	w.refused(w.group(store.Change{Posts: []store.Post{toRun(head.Number, signal("x", "1")), lost}},
		bad))
	w.same("inbox", labels(w.inbox(head.Number)), []string{})
	w.same("unrouted", labels(w.inbox(0)), []string{})
	w.same("head", w.head(head.Number), head)
	w.judged(w.posted(1, toRun(head.Number, signal("x", "1")))[0], store.Delivered, head.Number, 1)
}

func postCopies(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	p := toRun(run, signal("x", "1"))
	p.Message.Detail.Reason = "mine"
	w.posted(1, p)
	want := text(w.inbox(run))
	p.Message.Detail.Reason, p.Message.Detail.Message = "x", "x"
	got := w.inbox(run)
	got[0].Detail.Reason = "y"
	w.same("inbox", text(w.inbox(run)), want)
}

package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// lineChecks are about messages of runs that continue each other.
func lineChecks() []check {
	return []check{
		{
			"line/a successor costs as many rows, however many messages were not taken",
			lineCopiesNone,
		},
		{"line/what was not taken is given to the newest run, in order", lineOrder},
		{"line/a run that was continued takes nothing, and is not continued again", lineOnce},
		{"line/a message that any run has taken is known in all", lineKnows},
		{"line/a message that was sent again is told of the run that has it", lineAgain},
		{"line/one that retries has an inbox of its own", lineRetried},
		{"line/runs go in any order, and leave what is needed and nothing else", linePurged},
		{"line/what was not taken stays when the first run goes", lineFirstGone},
	}
}

// succeeded commits the next entry of a run for each message that it takes, its end and its
// successor. It returns the successor.
func (w *world) succeeded(h journal.Head, takes ...journal.Entry) journal.Head {
	w.Helper()
	seq := int64(len(w.load(h.Number, store.Range{})) + 1)
	var taken []journal.Entry
	for _, m := range takes {
		taken = append(taken, taking(h.Number, seq, m.Seq, m).Entries...)
		seq++
	}
	both := w.continued(h, seq, 10)
	both[0].Entries = append(taken, both[0].Entries...)
	return w.head(w.commit(both...)[1].Run)
}

// spec: R-25
func lineCopiesNone(w *world) {
	if w.db.Written == nil {
		w.Skipf("nobody tells how many rows are written")
	}
	w.join(0)
	var rows []int64
	for i, n := range []int{10, 1000} {
		head := w.filled(fmt.Sprint("order-", i), n)
		for range 2 { // the second run has the inbox of another run
			both := w.continued(head, 2, 10)
			written, err := w.db.Written(func() { w.commit(both...) })
			w.ok(err)
			rows = append(rows, written)
			head = w.head(both[1].Run)
		}
		w.same("messages", len(w.inbox(head.Number)), n)
	}
	if slices.Max(rows) > slices.Min(rows) || rows[0] > 10 {
		w.Errorf("a successor with 10 messages costs %d rows and then %d, one with 1,000 %d "+
			"and then %d", rows[0], rows[1], rows[2], rows[3])
	}
}

// spec
func lineOrder(w *world) {
	w.join(0)
	head := w.filled("order-1", 6)
	first := head.Number
	head = w.succeeded(head, w.inbox(first)[0], w.inbox(first)[3])
	w.posted(11, toID("order-1", signal("x7", "7")))
	second := head.Number
	head = w.succeeded(w.head(second), w.inbox(second)[0], w.inbox(second)[4]) // 2 and 7
	third := head.Number
	w.clientPosts(12, toID("order-1", signal("x8", "8")))
	want := []string{"3:x3", "5:x5", "6:x6", "8:x8"}
	w.same("inbox", labels(w.inbox(third)), want)
	w.same("mail", w.head(third).Mail, int64(8))
	w.same("given", labels(w.mail()[0].Inbox), want)
	for _, run := range []journal.Number{first, second} {
		w.same("inbox of one that was continued", labels(w.inbox(run)), []string{})
	}
	w.commit(taking(third, 2, 5, signal("x5", "")))
	w.die(20)
	got := w.take(20, 1).Runs[0]
	w.same("claimed", labels(got.Inbox), []string{"3:x3", "6:x6", "8:x8"})
	w.same("a message", got.Inbox[0], received(signal("x3", "3"), third, 3))
	w.same("by name", labels(w.load(third, store.Range{Inbox: true, Name: "x6"})), []string{"6:x6"})
	w.same("from one on", labels(w.load(third, store.Range{Inbox: true, From: 4, Limit: 1})),
		[]string{"6:x6"})
	all := w.inbox(third)
	head = w.succeeded(w.head(third), all[:0]...)
	w.commit(taking(head.Number, 2, 3, all[0]), store.Change{})
	w.commit(taking(head.Number, 3, 6, all[1]))
	w.commit(taking(head.Number, 4, 8, all[2]))
	next := w.continued(w.head(head.Number), 5, 30)
	w.commit(next...)
	w.same("mail of one that has read all", len(w.mail()), 0)
	w.clientPosts(31, toID("order-1", signal("x9", "9")))
	w.same("mail", labels(w.mail()[0].Inbox), []string{"9:x9"})
}

// spec: R-25
func lineOnce(w *world) {
	w.join(0)
	first := w.filled("order-1", 3)
	next := w.succeeded(first)
	w.refused(w.group(taking(first.Number, 3, 1, signal("x1", ""))))
	w.same("inbox", labels(w.inbox(next.Number)), []string{"1:x1", "2:x2", "3:x3"})
	w.commit(ended(next, 2, 20))
	again := w.start("order-1")
	again.From, again.Head.Chain = first.Number, first.Number
	w.refused(w.group(again))
	w.same("inbox", labels(w.inbox(next.Number)), []string{"1:x1", "2:x2", "3:x3"})
}

// spec
func lineKnows(w *world) {
	w.join(0)
	head := w.filled("order-1", 3)
	first := head.Number
	head = w.succeeded(head, w.inbox(first)[0])
	head = w.succeeded(head, w.inbox(head.Number)[0])
	for _, id := range []string{"1", "2", "3"} {
		w.judged(w.posted(20, toID("order-1", signal("x", id)))[0], store.Duplicate, head.Number, 0)
		w.judged(w.posted(20, toRun(first, signal("x", id)))[0], store.Duplicate, first, 0)
	}
	w.judged(w.posted(20, toID("order-1", signal("x4", "4")))[0], store.Delivered, head.Number, 4)
	w.same("inbox", labels(w.inbox(head.Number)), []string{"3:x3", "4:x4"})
}

// spec
func lineAgain(w *world) {
	w.join(0)
	head := w.filled("order-1", 3)
	first := head.Number
	head = w.succeeded(head, w.inbox(first)[0])
	second := head.Number
	head = w.succeeded(head, w.inbox(second)[0])
	for i, run := range []journal.Number{first, second, head.Number} {
		g := &store.Group{Engine: w.engine, Now: at(20), Again: true,
			Changes: []store.Change{{Posts: []store.Post{
				toID("order-1", signal("x", fmt.Sprint(i+1))),
			}}}}
		w.ok(w.try(g))
		w.judged(g.Changes[0].Posts[0], store.Delivered, run, int64(i+1))
	}
	w.same("inbox", labels(w.inbox(head.Number)), []string{"3:x3"})
}

// retried commits the end of a run by failure and a run that retries its chain.
func (w *world) retried(h journal.Head) journal.Head {
	w.Helper()
	end := ended(h, 2, 20)
	end.Head.Status, end.Entries[0].Kind, end.Entries[0].Status = journal.Failed, journal.RunFailed,
		journal.Failed
	w.commit(end)
	again := w.start(h.WorkflowID)
	again.Head.Chain = h.Chain
	w.written(again)
	return *again.Head
}

// spec: P-4, R-25
func lineRetried(w *world) {
	w.join(0)
	head := w.succeeded(w.filled("order-1", 2))
	again := w.retried(head)
	w.same("inbox", labels(w.inbox(again.Number)), []string{})
	w.same("mail", w.head(again.Number).Mail, int64(0))
	w.judged(w.posted(21, toID("order-1", signal("y", "y")))[0], store.Delivered, again.Number, 1)
	next := w.succeeded(w.head(again.Number))
	w.judged(w.posted(22, toID("order-1", signal("z", "z")))[0], store.Delivered, next.Number, 2)
	w.same("inbox", labels(w.inbox(next.Number)), []string{"1:y", "2:z"})
	w.same("inbox of the one before", labels(w.inbox(head.Number)), []string{"1:x1", "2:x2"})
	w.commit(taking(next.Number, 2, 1, signal("y", "y")))
	w.same("inbox", labels(w.inbox(next.Number)), []string{"2:z"})
	w.same("inbox of the one before", labels(w.inbox(head.Number)), []string{"1:x1", "2:x2"})
}

// keptFor sets the retention in a change that ends a run to so many seconds, and returns the
// change.
func keptFor(c store.Change, seconds int) store.Change {
	c.Head.Retain = journal.Retention(fmt.Sprint(seconds, "s"))
	return c
}

// largeSignal returns a message whose payload is spilled.
func (w *world) largeSignal(name string) journal.Entry {
	w.Helper()
	m := signal(name, name)
	m.Data, m.Spill = []byte(name), w.number()
	return m
}

// spec: P-3, R-25
func linePurged(w *world) {
	w.join(0)
	for i, order := range [][3]int{
		{0, 1, 2},
		{0, 2, 1},
		{1, 0, 2},
		{1, 2, 0},
		{2, 0, 1},
		{2, 1, 0},
	} {
		id := fmt.Sprint("order-", i)
		var kept [3]int // how long each run is kept
		for place, run := range order {
			kept[run] = 100 * (place + 1)
		}
		head := w.written(w.start(id))[0]
		large := w.largeSignal("large")
		runs, rows := []journal.Number{head.Number}, 0
		for n := range 3 {
			w.posted(1, toID(id, signal("taken", fmt.Sprint("taken-", n))),
				toID(id, signal("left", fmt.Sprint("left-", n))))
			if n == 1 {
				w.posted(1, toID(id, large))
			}
			takes := taking(head.Number, 2, w.load(head.Number,
				store.Range{Inbox: true, Name: "taken"})[0].Seq, signal("taken", "")).Entries
			if n == 2 {
				end := keptFor(ended(w.head(head.Number), 3, 10), kept[n])
				end.Entries = append(takes, end.Entries...)
				w.commit(end)
				break
			}
			both := w.continued(w.head(head.Number), 3, 10)
			both[0] = keptFor(both[0], kept[n])
			both[0].Entries = append(takes, both[0].Entries...)
			head = w.head(w.commit(both...)[1].Run)
			runs = append(runs, head.Number)
		}
		for place, run := range order {
			if place > 0 {
				w.same("left", len(w.find(store.Filter{WorkflowID: id})), 3-place)
			}
			for n := range 3 {
				want := store.Closed
				if there := kept[n] > 100*place; there {
					want = store.Duplicate
				}
				if kept[2] > 100*place { // otherwise there is no such run
					w.judged(
						w.posted(50, toRun(runs[2], signal("taken", fmt.Sprint("taken-", n))))[0],
						want, runs[2], 0)
				}
			}
			if kept[2] > 100*place {
				w.same("inbox", labels(w.inbox(runs[2])), []string{
					"2:left", "4:left", "5:large", "7:left",
				})
				w.same("payload", w.inbox(runs[2])[2].Data, large.Data)
			}
			for more := true; more; {
				got := w.slice(10+100*(place+1), 3)
				rows, more = rows+got.Rows, got.More
			}
			w.absent(runs[run])
		}
		// heads and entries, messages, the large message and its payload
		w.same("rows", rows, 3*(1+3)+3+3+1+1)
		w.payload(w.written(w.start(""))[0].Number, 2, large.Spill, "")
	}
}

// The first run of a chain stays while the chain goes on. The first run of a chain that
// retries it does not.
//
// spec: P-4, R-25
func lineFirstGone(w *world) {
	w.join(0)
	again := w.retried(w.written(w.start("order-1"))[0])
	large := w.largeSignal("large")
	w.posted(1, toID("order-1", signal("x1", "1")), toID("order-1", large),
		toID("order-1", signal("x3", "3")))
	sent := step(again.Number, 2) // its journal names the payload too
	sent.Entries[0].Spill, sent.Entries[0].Data = large.Spill, nil
	w.commit(sent)
	both := w.continued(w.head(again.Number), 4, 30)
	both[0].Entries = append(taking(again.Number, 3, 1, signal("x1", "")).Entries,
		both[0].Entries...)
	next := w.head(w.commit(both...)[1].Run)
	w.same("purged", w.purge(100, 2), store.Purged{Runs: 1})
	w.absent(again.Number)
	w.same("inbox", labels(w.inbox(next.Number)), []string{"2:large", "3:x3"})
	w.same("payload", w.inbox(next.Number)[0].Data, large.Data)
	w.judged(w.posted(101, toID("order-1", signal("x4", "4")))[0], store.Delivered, next.Number, 4)
	w.commit(taking(next.Number, 2, 3, signal("x3", "")))
	next = w.head(w.commit(w.continued(w.head(next.Number), 3, 110)...)[1].Run)
	w.die(120)
	w.same("claimed", labels(w.take(120, 1).Runs[0].Inbox), []string{"2:large", "4:x4"})
	w.commit(ended(w.head(next.Number), 2, 130))
	w.purge(1000, 0)
	w.same("left", len(w.left()), 0)
	w.payload(w.written(w.start(""))[0].Number, 2, large.Spill, "")
}

// Many processes send to the workflow ID of a run that takes a few messages and continues as
// new, again and again.
//
// spec
func amongSuccessions(w *world) {
	const senders, each = 20, 12
	all, seed := w.several(2), rand.Uint64()
	head := w.written(w.start("order-1"))[0]
	var sending sync.WaitGroup
	for i := range senders {
		x := all[1+i%2]
		sending.Go(func() {
			for j := range each {
				if err := x.insists(store.Change{
					Posts: []store.Post{toID("order-1", signal("x", fmt.Sprint(i, "-", j)))},
				}); err != nil {
					w.Errorf("seed %d: Commit = %v", seed, err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { sending.Wait(); close(over) }()
	taken := w.takesOn(&head, over)
	slices.SortFunc(taken, func(a, b journal.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	w.gapless(seed, taken)
	w.same("messages", len(taken), senders*each)
}

// insists commits changes, and commits them again if the outcome is unknown, as engines do.
func (w *world) insists(changes ...store.Change) (err error) {
	g := w.group(changes...)
	for range 20 {
		if err = w.try(g); err == nil {
			return nil
		}
		g.Again = true
	}
	return err
}

// takesOn takes messages, up to four in each of the runs that continue each other, until over
// is closed and no more messages come.
func (w *world) takesOn(head *journal.Head, over chan struct{}) (taken []journal.Entry) {
	w.Helper()
	for last := false; ; {
		box := w.inbox(head.Number)
		if len(box) == 0 && last {
			return taken
		}
		select {
		case <-over:
			last = len(box) == 0
		default:
		}
		if box = box[:min(len(box), 4)]; len(box) > 0 {
			taken = append(taken, box...)
			*head = w.succeeded(*head, box...)
		}
	}
}

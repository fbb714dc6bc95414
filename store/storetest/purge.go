package storetest

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// purgeChecks are about removing data whose retention is over.
func purgeChecks() []check {
	return []check{
		{"purge/runs that ended by then go with all that is theirs", purgeOld},
		{"purge/each run goes when its own retention says", purgeRetention},
		{"purge/a retention is written with the head", purgeRetained},
		{
			"purge/a run that ended without a retention gets that of its workflow, if " +
				"somebody says it", purgeUnsaid,
		},
		{"purge/no transaction says the retention of more runs than rows may go", purgeUnsaidLimit},
		{"purge/a run that stands for its workflow ID stays", purgeKeep},
		{"purge/a run is kept as long as its head says at its end", purgeKept},
		{"purge/a run with an entry in the outbox stays", purgeOutbox},
		{"purge/the first run of a chain stays while the chain goes on", purgeChain},
		{"purge/a run that is retried stays while that goes on", purgeRetried},
		{"purge/open runs stay, whatever their status", purgeOpen},
		{"purge/no transaction removes more rows than it may, whatever a run has", purgeLimit},
		{"purge/no transaction removes many bytes, whatever a run has", purgeBytes},
		{"purge/a run that is removed in slices is gone from the first", purgeSlices},
		{"purge/it goes on where one that died has stopped", purgeGoesOn},
		{"purge/payloads go with the last run that names them", purgePayloads},
		{"purge/a run has payloads of one that is there, and keeps them", purgeShared},
		{"purge/messages and their IDs go with their run", purgeMessages},
		{"purge/unrouted messages go when they have expired", purgeUnrouted},
		{"purge/a client may, an engine that was taken over may not", purgeFence},
	}
}

// purge removes data that has expired by then, at most limit rows at a time, and returns how
// many runs and messages were removed.
func (w *world) purge(seconds, limit int) store.Purged {
	w.Helper()
	var sum store.Purged
	for range 10_000 {
		got := w.slice(seconds, limit)
		sum.Runs, sum.Unrouted = sum.Runs+got.Runs, sum.Unrouted+got.Unrouted
		if !got.More {
			return sum
		}
	}
	w.Fatalf("the purge does not end")
	return sum
}

// slice makes one call of Purge. It demands that the call keeps to the limit.
func (w *world) slice(seconds, limit int) store.Purged {
	w.Helper()
	p := store.Purge{Engine: w.engine, Now: at(seconds), Limit: limit}
	got, err := w.s.Purge(w.Context(), p)
	w.ok(err)
	if got.Rows > p.Rows() {
		w.Fatalf("%d rows of at most %d were removed", got.Rows, p.Rows())
	}
	return got
}

// over commits a run of a workflow that has ended with a status and keeps its workflow ID for
// a while. It may be removed after that.
func (w *world) over(workflow string, status journal.Status, seconds int,
	keep time.Duration) journal.Number {
	w.Helper()
	c := w.start("")
	c.Head.Workflow, c.Head.Keep = workflow, keep
	end := ended(w.written(c)[0], 2, seconds)
	end.Head.Status, end.Entries[0].Status = status, status
	w.commit(end)
	return c.Run
}

// left returns the runs that are there, oldest first.
func (w *world) left() []journal.Number {
	w.Helper()
	var out []journal.Number
	for _, h := range w.find(store.Filter{}) {
		out = append([]journal.Number{h.Number}, out...)
	}
	return out
}

// spec: P-3, R-37
func purgeOld(w *world) {
	w.join(0)
	a, b := w.over("w", journal.Completed, 10, 0), w.over("w", journal.Completed, 20, 0)
	c := w.over("w", journal.Completed, 20, 0)
	w.commit(step(c, 3)) // one entry more
	late := w.over("w", journal.Completed, 21, 0)
	w.same("purged", w.purge(9, 0), store.Purged{})
	w.same("purged", w.purge(20, 0), store.Purged{Runs: 3})
	w.same("left", w.left(), []journal.Number{late})
	for _, run := range []journal.Number{a, b, c} {
		w.absent(run)
		w.judged(w.posted(101, toRun(run, signal("x", "1")))[0], store.Nobody, 0, 0)
	}
	w.rows(late, 2)
	w.same("purged again", w.slice(20, 0), store.Purged{})
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("runs", info.Runs, int64(1))
	w.die(110)
	w.same("left after reopening", w.left(), []journal.Number{late})
}

// retained commits a run that has ended after ten seconds and has a retention.
func (w *world) retained(r journal.Retention, status journal.Status) journal.Number {
	w.Helper()
	c := w.start("")
	c.Head.Retain = r
	end := ended(w.written(c)[0], 2, 10)
	end.Head.Status, end.Entries[0].Status = status, status
	w.commit(end)
	return c.Run
}

// spec: P-3
func purgeRetention(w *world) {
	w.join(0)
	differ := journal.NewRetention(time.Minute, map[journal.Status]time.Duration{
		journal.Failed:    time.Hour,
		journal.Cancelled: -1,
	})
	done, failed, cancelled := w.retained(differ, journal.Completed),
		w.retained(differ, journal.Failed), w.retained(differ, journal.Cancelled)
	ever, unsaid := w.retained(journal.NewRetention(-1, nil), journal.Completed),
		w.retained("", journal.Completed)
	for _, c := range []struct {
		by, runs int
		left     []journal.Number
	}{
		{69, 0, []journal.Number{done, failed, cancelled, ever, unsaid}},
		{70, 1, []journal.Number{failed, cancelled, ever, unsaid}},
		{3609, 0, []journal.Number{failed, cancelled, ever, unsaid}},
		{3610, 1, []journal.Number{cancelled, ever, unsaid}},
		{math.MaxInt32, 0, []journal.Number{cancelled, ever, unsaid}},
	} {
		w.same(fmt.Sprint("purged by ", c.by), w.purge(c.by, 0), store.Purged{Runs: c.runs})
		w.same("left", w.left(), c.left)
	}
}

// spec: P-3
func purgeRetained(w *world) {
	w.join(0)
	c := w.free("order-1", 0)
	c.Head.Retain = ""
	w.written(c)
	w.take(1, 10)
	head := w.head(c.Run)
	head.Retain = "1m0s"
	w.commit(update(head, func(h *journal.Head) { h.Status = journal.Waiting }))
	w.same("retention", w.head(head.Number).Retain, head.Retain)
	head.Retain = "2m0s"
	w.verdict(w.commit(unloading(head, 0, 2))[0], store.Written)
	w.same("retention of one that is unloaded", w.head(head.Number).Retain, head.Retain)
	w.claim(store.TakeRun{Engine: w.engine, Run: head.Number})
	w.posted(11, toRun(head.Number, signal("x", "1")))
	head.Retain = "3m0s"
	w.verdict(w.commit(unloading(head, 0, 3))[0], store.Mail)
	w.same("retention of one that stays", w.head(head.Number).Retain, head.Retain)
	w.commit(ended(w.head(head.Number), 4, 10))
	w.same("purged", w.purge(189, 0), store.Purged{})
	w.same("purged", w.purge(190, 0), store.Purged{Runs: 1})
}

// spec: P-3
func purgeUnsaid(w *world) {
	w.join(0)
	own, unsaid, other := w.retained("1h0m0s", journal.Completed),
		w.retained("", journal.Completed), w.start("")
	other.Head.Workflow, other.Head.Retain = "v", ""
	w.commit(ended(w.written(other)[0], 2, 10))
	open := w.start("")
	open.Head.Retain = ""
	w.written(open)
	say := func(by int, unsaid map[string]journal.Retention, runs int, left ...journal.Number) {
		w.Helper()
		for more, gone := true, 0; more; {
			got, err := w.s.Purge(w.Context(), store.Purge{
				Engine: w.engine, Now: at(by), Unsaid: unsaid,
			})
			w.ok(err)
			if gone, more = gone+got.Runs, got.More; !more {
				w.same("purged", gone, runs)
			}
		}
		w.same("left", w.left(), left)
	}
	say(1000, nil, 0, own, unsaid, other.Run, open.Run)
	say(1000, map[string]journal.Retention{"u": "1m0s"}, 0, own, unsaid, other.Run, open.Run)
	say(69, map[string]journal.Retention{"w": "1m0s"}, 0, own, unsaid, other.Run, open.Run)
	w.same("its retention from now on", w.head(unsaid).Retain, journal.Retention("1m0s"))
	w.same("that of an open one", w.head(open.Run).Retain, journal.Retention(""))
	say(70, map[string]journal.Retention{"w": "2h0m0s"}, 1, own, other.Run, open.Run)
	say(1000, map[string]journal.Retention{"v": "1m0s"}, 1, own, open.Run)
}

// spec: P-3, R-37
func purgeUnsaidLimit(w *world) {
	w.join(0)
	// the empty retention says nothing, and does not delay the purge
	unsaid := map[string]journal.Retention{"nobody's": ""}
	for i := range 3 {
		workflow := fmt.Sprint("w-", i)
		unsaid[workflow] = "1m0s"
		for _, workflow := range []string{workflow, workflow, workflow, "nobody's"} {
			c := w.start("")
			c.Head.Workflow, c.Head.Retain = workflow, ""
			w.commit(ended(w.written(c)[0], 2, 10))
		}
	}
	said := func() (n int) {
		w.Helper()
		for _, h := range w.find(store.Filter{}) {
			if h.Retain != "" {
				n++
			}
		}
		return n
	}
	for before, more, slices := 0, true, 1; more; slices++ {
		got, err := w.s.Purge(w.Context(), store.Purge{
			Engine: w.engine, Now: at(69), Unsaid: unsaid, Limit: 4,
		})
		w.ok(err)
		now := said()
		if now-before > 4 || slices > 10 {
			w.Fatalf("slice %d says the retention of %d runs", slices, now-before)
		}
		before, more = now, got.More
	}
	w.same("runs with a retention", said(), 9)
}

// spec: P-3
func purgeKeep(w *world) {
	w.join(0)
	a, forever := w.over("w", journal.Completed, 10, time.Minute),
		w.over("w", journal.Completed, 10, math.MaxInt64)
	w.same("purged", w.purge(69, 0), store.Purged{})
	w.same("left", w.left(), []journal.Number{a, forever})
	w.same("purged", w.purge(71, 0), store.Purged{Runs: 1})
	w.same("left", w.left(), []journal.Number{forever})
}

// spec: P-3
func purgeKept(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	head.Keep = time.Minute
	w.commit(ended(head, 2, 10))
	w.same("keep", w.head(head.Number).Keep, time.Minute)
	unloads := w.written(w.free("order-2", 0))[0]
	w.take(1, 10)
	head = w.head(unloads.Number)
	head.Keep, head.Mail = time.Hour, 1
	w.posted(2, toRun(head.Number, signal("x", "1")), toRun(head.Number, signal("y", "2")))
	// The run stays loaded, and the other fields of its head are written.
	w.verdict(w.commit(unloading(head, 1, 2))[0], store.Mail)
	w.same("keep of one that stays", w.head(head.Number).Keep, time.Hour)
	head.Keep = 2 * time.Hour
	w.verdict(w.commit(unloading(head, 2, 3))[0], store.Written)
	w.same("keep of one that is unloaded", w.head(head.Number).Keep, 2*time.Hour)
	w.same("purged", w.purge(69, 0), store.Purged{})
	w.same("purged", w.purge(71, 0), store.Purged{Runs: 1})
}

// spec: L-18
func purgeOutbox(w *world) {
	w.join(0)
	run := w.over("w", journal.Completed, 10, 0)
	w.commit(toOutbox(run, 3))
	w.same("purged", w.purge(100, 0), store.Purged{})
	w.same("left", w.left(), []journal.Number{run})
	w.commit(store.Change{Told: []int64{w.outbox(0, 1)[0].Number}})
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 1})
}

// spec: R-25
func purgeChain(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	first := head.Number
	for i := range 2 {
		head = w.head(w.commit(w.continued(head, 2, 10+i)...)[1].Run)
	}
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 1})
	w.same("left", w.left(), []journal.Number{first, head.Number})
	w.commit(ended(head, 2, 20))
	w.written(w.start("order-1")) // of another chain
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 2})
}

// spec: P-4
func purgeRetried(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	first := head.Number
	head = w.head(w.commit(w.continued(head, 2, 10)...)[1].Run)
	second := head.Number
	w.commit(ended(head, 2, 20))
	again := w.start("order-1")
	again.Head.Chain = first
	w.written(again)
	w.same("purged", w.purge(100, 0), store.Purged{})
	w.same("left", w.left(), []journal.Number{first, second, again.Run})
	w.commit(ended(w.head(again.Run), 2, 30))
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 3})
}

// spec: R-37
func purgeOpen(w *world) {
	w.join(0)
	var all []journal.Number
	for i, status := range []journal.Status{
		journal.Running, journal.Suspended, journal.CompensationFailed, journal.Waiting,
	} {
		c := w.free(fmt.Sprint("order-", i), 5)
		c.Head.Status = status
		all = append(all, w.written(c)[0].Number)
	}
	w.same("purged", w.purge(1000, 0), store.Purged{})
	w.same("left", w.left(), all)
}

// large commits a run that has ended, with many rows of all kinds, and returns the number of
// rows.
func (w *world) large(id string) (run journal.Number, rows int) {
	w.Helper()
	h := w.written(w.start(id))[0]
	c := step(h.Number, 2)
	for seq := int64(3); seq <= 60; seq++ {
		c.Entries = append(c.Entries, step(h.Number, seq).Entries...)
	}
	for i := range 15 {
		e := &c.Entries[i]
		e.Spill, e.Data = w.number(), []byte("large")
	}
	for seq := int64(61); seq <= 70; seq++ {
		c.Entries = append(c.Entries, setting(h.Number, seq, fmt.Sprint("name-", seq),
			[]byte("value")).Entries...)
	}
	w.commit(c)
	var posts []store.Post
	for i := range 40 {
		posts = append(posts, toRun(h.Number, signal("x", fmt.Sprint(i))))
	}
	w.posted(5, posts...)
	w.commit(ended(w.head(h.Number), 71, 10))
	return h.Number, 1 + 71 + 15 + 10 + 40
}

// spec: R-37
func purgeLimit(w *world) {
	w.join(0)
	for _, limit := range []int{8, 33, 0} {
		want := 0
		for i := range 3 {
			_, rows := w.large(fmt.Sprint("order-", i))
			want += rows
		}
		rows, runs := 0, 0
		for more := true; more; {
			got := w.slice(100, limit)
			if got.More && got.Rows == 0 {
				w.Fatalf("at most %d: a slice removed nothing", limit)
			}
			rows, runs, more = rows+got.Rows, runs+got.Runs, got.More
		}
		w.same("runs", runs, 3)
		w.same("rows", rows, want)
	}
}

// spec: R-37
func purgeBytes(w *world) {
	w.join(0)
	h := w.written(w.start("order-1"))[0]
	for seq := int64(2); seq < 10; seq++ {
		c := step(h.Number, seq)
		c.Entries[0].Data = make([]byte, store.PurgeBytes/3)
		if seq%2 == 0 {
			c.Entries[0].Spill = w.number()
		}
		w.commit(c)
	}
	w.commit(ended(h, 10, 10))
	most := 0
	for more := true; more; {
		got := w.slice(100, 0)
		most, more = max(most, got.Rows), got.More
	}
	if most > 7 { // that is three entries with payloads, and the head
		w.Errorf("%d rows were removed at once", most)
	}
}

// spec
func purgeSlices(w *world) {
	w.join(0)
	run, _ := w.large("order-1")
	id := w.head(run).ID
	w.same("found by its ID until then", len(w.find(store.Filter{WorkflowID: "order-1"})), 1)
	slices := 0
	for more := true; more; slices++ {
		got := w.slice(100, 8)
		more = got.More
		w.same("runs", got.Runs, min(1, max(0, 1-slices)))
		for _, f := range []store.Filter{
			{},
			{Run: id},
			{WorkflowID: "order-1"},
			{Attributes: map[string]string{"name-61": "value"}},
		} {
			for _, h := range w.find(f) {
				if h.Number == run {
					w.Fatalf("after %d slices it is found by %+v", slices+1, f)
				}
			}
		}
		info, err := w.s.Info(w.Context())
		w.ok(err)
		w.same("runs that are counted", info.Runs, int64(min(slices, 1)))
		for _, r := range []store.Range{
			{},
			{Tail: true, Limit: 1},
			{From: 71, Payloads: true},
			{Inbox: true},
			{Inbox: true, Name: "x"},
		} {
			if got, err := w.s.Load(w.Context(), run, r); err != nil || len(got) != 0 {
				w.Fatalf("after %d slices %+v has %d entries, %v", slices+1, r, len(got), err)
			}
		}
		w.judged(w.posted(101, toRun(run, signal("y", "y")))[0], store.Nobody, 0, 0)
		w.same("claimed", len(w.claim(store.TakeRun{Engine: w.engine, Run: run}).Runs), 0)
		if slices == 0 { // its ID is free at once, whatever the window of the new run
			c := w.start("order-1")
			c.Since = at(0)
			w.verdict(w.commit(c)[0], store.Written)
		}
	}
	if slices < 10 {
		w.Errorf("%d slices: this proves little", slices)
	}
	w.absent(run)
}

// spec: R-37
func purgeGoesOn(w *world) {
	w.join(0)
	_, rows := w.large("order-1")
	rows -= w.slice(100, 20).Rows
	for more := true; more; {
		w.die(101)
		got := w.slice(102, 20)
		w.same("runs", got.Runs, 0)
		rows, more = rows-got.Rows, got.More
	}
	w.same("rows that are left", rows, 0)
}

// spec: R-14
func purgePayloads(w *world) {
	w.join(0)
	a, b := w.written(w.start(""))[0], w.written(w.start(""))[0]
	own, shared := w.spill(a.Number, 2, []byte("own")), w.spill(a.Number, 3, []byte("shared"))
	same := shared.Entries[0]
	same.Run, same.Seq = b.Number, 2
	own.Entries = append(own.Entries, shared.Entries...)
	w.commit(own, store.Change{Run: b.Number, Entries: []journal.Entry{same}})
	w.commit(ended(a, 4, 10))
	unnamed := w.number() // a group in progress may name it
	w.ok(w.s.Spill(w.Context(), w.engine, unnamed, []byte("unnamed")))
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 1})
	w.same("shared", w.load(b.Number, store.Range{From: 2, Payloads: true})[0].Data,
		[]byte("shared"))
	c := w.written(w.start(""))[0].Number
	w.payload(c, 2, unnamed, "unnamed")
	w.payload(c, 3, own.Entries[0].Spill, "")
}

// spec: P-4, R-14
func purgeShared(w *world) {
	w.join(0)
	a := w.written(w.start("order-1"))[0]
	large := w.spill(a.Number, 2, []byte("large"))
	w.commit(large)
	unread := w.along("1", []byte("a message"))
	w.posted(1, toRun(a.Number, unread))
	a.Mail = 1
	end := ended(a, 3, 10)
	w.commit(end)
	c := w.start("order-1")
	unread.Data, unread.Detail = nil, nil
	c.Posts = []store.Post{toRun(c.Run, unread)}
	e := large.Entries[0]
	e.Run, e.Data = c.Run, nil
	c.Shares, c.Entries = a.Number, append(c.Entries, e)
	w.written(c)
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 1})
	w.same("shared", w.load(c.Run, store.Range{From: 2, Payloads: true})[0].Data, []byte("large"))
	w.same("shared message", w.inbox(c.Run)[0].Data, []byte("a message"))
	late := w.start("order-2")
	late.Shares = a.Number
	w.refused(w.group(late, w.start("order-3")))
	w.absent(late.Run)
	w.refused(w.group(func() store.Change { c := step(c.Run, 3); c.Shares = c.Run; return c }()))
	again := w.group(c)
	again.Again = true // it was written while the other run was there
	w.ok(w.try(again))
	w.verdict(again.Changes[0], store.Written)
}

// payload commits an entry that names a payload, and demands the content of the payload. If
// want is empty, the payload must be gone.
func (w *world) payload(run journal.Number, seq int64, id journal.Number, want string) {
	w.Helper()
	c := step(run, seq)
	c.Entries[0].Data, c.Entries[0].Spill = nil, id
	w.commit(c)
	got, err := w.s.Load(w.Context(), run, store.Range{From: seq, Payloads: true})
	switch {
	case want == "" && err == nil:
		w.Fatalf("payload %d is still there", id)
	case want != "" && (err != nil || string(got[0].Data) != want):
		w.Fatalf("payload %d comes as %v, %v", id, got, err)
	}
}

// spec: R-14
func purgeMessages(w *world) {
	w.join(0)
	large := signal("large", "large")
	large.Data, large.Spill = bytes.Repeat([]byte("x"), 1000), w.number()
	first := w.written(w.start("order-1"))[0]
	head := w.head(w.commit(w.continued(first, 2, 5)...)[1].Run)
	w.posted(6, toRun(head.Number, signal("x1", "1")), toRun(head.Number, signal("x2", "2")),
		toRun(head.Number, signal("x3", "3")))
	both := w.continued(w.head(head.Number), 3, 10)
	both[0].Entries = append(taking(both[0].Run, 2, 3, signal("x3", "")).Entries,
		both[0].Entries...)
	w.commit(both...)
	next := both[1].Run
	w.posted(11, toRun(next, signal("y", "y")), toRun(next, large))
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 1})
	w.same("inbox of the successor", labels(w.inbox(next)), []string{
		"1:x1", "2:x2", "4:y", "5:large",
	})
	w.judged(w.posted(12, toRun(next, signal("x1", "1")))[0], store.Duplicate, next, 0)
	// its row was removed with the run that took it
	w.judged(w.posted(12, toRun(next, signal("x3", "3")))[0], store.Delivered, next, 6)
	w.same("payload", len(w.inbox(next)[3].Data), 1000)
	w.commit(ended(w.head(next), 2, 20))
	w.same("purged", w.purge(100, 0), store.Purged{Runs: 2})
	w.same("inbox", labels(w.inbox(next)), []string{})
	p := w.posted(101, waiting("order-1", 200, signal("x1", "1")))[0]
	w.judged(p, store.Unrouted, 0, p.Number)
	w.payload(w.written(w.start(""))[0].Number, 2, large.Spill, "")
}

// spec: R-20
func purgeUnrouted(w *world) {
	w.join(0)
	large := signal("large", "1")
	large.Data, large.Spill = []byte("large"), w.number()
	w.posted(1, waiting("order-1", 50, large), waiting("order-1", 60, signal("b", "2")),
		waiting("order-2", 50, signal("c", "3")))
	w.same("purged", w.purge(49, 0), store.Purged{})
	w.same("purged", w.purge(50, 2), store.Purged{Unrouted: 2})
	w.unrouted(1)
	w.same("left", w.inbox(0)[0].Op.Name, "b")
	w.payload(w.written(w.start(""))[0].Number, 2, large.Spill, "")
}

func purgeFence(w *world) {
	w.join(0)
	w.over("w", journal.Completed, 10, 0)
	p := store.Purge{Engine: w.engine, Now: at(100)}
	w.die(20)
	_, err := w.s.Purge(w.Context(), p)
	w.is(err, store.ErrFenced)
	w.same("left", len(w.left()), 1)
	p.Engine = 0
	got, err := w.s.Purge(w.Context(), p)
	w.ok(err)
	w.same("purged", got.Runs, 1)
}

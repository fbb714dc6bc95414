package storetest

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// purgeChecks are about removing what is kept no longer.
func purgeChecks() []check {
	return []check{
		{"purge/runs that ended by then go with all that is theirs", purgeOld},
		{"purge/rules name workflows and statuses", purgeRules},
		{"purge/a run that stands for its workflow ID stays", purgeKeep},
		{"purge/a run is kept as long as its head says at its end", purgeKept},
		{"purge/a run of which an entry is owed stays", purgeOwed},
		{"purge/the first run of a chain stays while the chain goes on", purgeChain},
		{"purge/open runs stay, whatever their status", purgeOpen},
		{"purge/it goes by small batches", purgeLimit},
		{"purge/payloads go with the last run that names them", purgePayloads},
		{"purge/a run has payloads of one that is there, and keeps them", purgeShared},
		{"purge/messages and their IDs go with their run", purgeMessages},
		{"purge/unrouted messages go when they have expired", purgeUnrouted},
		{"purge/a stranger may, an engine that was taken over may not", purgeFence},
	}
}

func (w *world) purge(seconds, limit int, rules ...store.Rule) store.Purged {
	w.Helper()
	got, err := w.s.Purge(w.Context(), store.Purge{Engine: w.engine, Now: at(seconds), Rules: rules, Limit: limit})
	w.ok(err)
	return got
}

// before names all runs that ended by then.
func before(seconds int) store.Rule { return store.Rule{Before: at(seconds)} }

// over commits a run of a workflow that has ended with a status, and is kept for
// a while.
func (w *world) over(workflow string, status journal.Status, seconds int, keep time.Duration) journal.Number {
	w.Helper()
	c := w.start("")
	c.Head.Workflow, c.Head.Keep = workflow, keep
	end := ended(w.written(c)[0], 2, seconds)
	end.Head.Status, end.Entries[0].Status = status, status
	w.commit(end)
	return c.Run
}

// left gives the runs that are there, oldest first.
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
	w.commit(step(c, 3)) // it has an entry more
	late := w.over("w", journal.Completed, 21, 0)
	w.same("purged", w.purge(100, 0, before(9)), store.Purged{})
	w.same("purged", w.purge(100, 0, before(20)), store.Purged{Runs: 3})
	w.same("left", w.left(), []journal.Number{late})
	for _, run := range []journal.Number{a, b, c} {
		w.absent(run)
		w.judged(w.posted(101, toRun(run, signal("x", "1")))[0], store.Nobody, 0, 0)
	}
	w.rows(late, 2)
	w.same("purged again", w.purge(100, 0, before(20)), store.Purged{})
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("runs", info.Runs, int64(1))
	w.die(110)
	w.same("left after reopening", w.left(), []journal.Number{late})
}

// spec: P-3
func purgeRules(w *world) {
	w.join(0)
	done, failed := w.over("w", journal.Completed, 10, 0), w.over("w", journal.Failed, 10, 0)
	vDone, vFailed := w.over("v", journal.Completed, 10, 0), w.over("v", journal.Failed, 10, 0)
	u := w.over("u", journal.Completed, 10, 0)
	w.same("no rule", w.purge(100, 0), store.Purged{})
	w.purge(100, 0, store.Rule{Workflow: "w", Statuses: []journal.Status{journal.Failed, journal.Cancelled}, Before: at(10)})
	w.same("one status of one workflow", w.left(), []journal.Number{done, vDone, vFailed, u})
	w.absent(failed)
	w.purge(100, 0, before(50), store.Rule{Workflow: "v", Statuses: []journal.Status{journal.Completed}, Before: at(9)},
		store.Rule{Workflow: "v", Statuses: []journal.Status{journal.Failed}, Before: at(10)})
	w.same("the others and one status", w.left(), []journal.Number{vDone})
	w.purge(100, 0, store.Rule{Workflow: "u", Before: at(50)})
	w.same("another workflow", w.left(), []journal.Number{vDone})
	w.purge(100, 0, store.Rule{Statuses: []journal.Status{journal.Completed}, Before: at(10)})
	w.same("a status of any workflow", w.left(), []journal.Number{})
}

// spec: P-3
func purgeKeep(w *world) {
	w.join(0)
	a, forever := w.over("w", journal.Completed, 10, time.Minute), w.over("w", journal.Completed, 10, math.MaxInt64)
	w.same("purged", w.purge(69, 0, before(69)), store.Purged{})
	w.same("left", w.left(), []journal.Number{a, forever})
	w.same("purged", w.purge(71, 0, before(71)), store.Purged{Runs: 1})
	w.same("left", w.left(), []journal.Number{forever})
}

// spec: P-3
func purgeKept(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	head.Keep = time.Minute
	w.commit(ended(head, 2, 10))
	w.same("keep", w.head(head.Number).Keep, time.Minute)
	rests := w.written(w.free("order-2", 0))[0]
	w.take(1, 10)
	head = w.head(rests.Number)
	head.Keep, head.Mail = time.Hour, 1
	w.posted(2, toRun(head.Number, signal("x", "1")), toRun(head.Number, signal("y", "2")))
	w.verdict(w.commit(resting(head, 1, 2))[0], store.Mail) // it stays, and what else its head says is written
	w.same("keep of one that stays", w.head(head.Number).Keep, time.Hour)
	head.Keep = 2 * time.Hour
	w.verdict(w.commit(resting(head, 2, 3))[0], store.Written)
	w.same("keep of one that rests", w.head(head.Number).Keep, 2*time.Hour)
	w.same("purged", w.purge(69, 0, before(69)), store.Purged{})
	w.same("purged", w.purge(71, 0, before(71)), store.Purged{Runs: 1})
}

// spec: L-18
func purgeOwed(w *world) {
	w.join(0)
	run := w.over("w", journal.Completed, 10, 0)
	w.commit(owing(run, 3))
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{})
	w.same("left", w.left(), []journal.Number{run})
	w.commit(store.Change{Told: []int64{w.owed(0, 1)[0].Number}})
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 1})
}

// spec: R-25
func purgeChain(w *world) {
	w.join(0)
	head := w.written(w.start("order-1"))[0]
	first := head.Number
	for i := range 2 {
		head = w.head(w.commit(w.continued(head, 2, 10+i)...)[1].Run)
	}
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 1})
	w.same("left", w.left(), []journal.Number{first, head.Number})
	w.commit(ended(head, 2, 20))
	w.written(w.start("order-1")) // of another chain
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 2})
}

// spec: R-37
func purgeOpen(w *world) {
	w.join(0)
	var all []journal.Number
	for i, status := range []journal.Status{journal.Running, journal.Suspended, journal.CompensationFailed, journal.Waiting} {
		c := w.free(fmt.Sprint("order-", i), 5)
		c.Head.Status = status
		all = append(all, w.written(c)[0].Number)
	}
	w.same("purged", w.purge(1000, 0, before(1000)), store.Purged{})
	w.same("left", w.left(), all)
}

// spec: R-37
func purgeLimit(w *world) {
	w.join(0)
	for i := range 7 {
		w.over("w", journal.Completed, i, 0)
	}
	for _, want := range []store.Purged{{Runs: 3, More: true}, {Runs: 3, More: true}, {Runs: 1}, {}} {
		w.same("purged", w.purge(100, 3, before(100)), want)
	}
	for range 101 {
		w.over("w", journal.Completed, 1, 0)
	}
	w.same("purged without a limit", w.purge(100, 0, before(100)), store.Purged{Runs: 100, More: true})
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
	unnamed := w.number() // a group that is on its way may name it
	w.ok(w.s.Spill(w.Context(), w.engine, unnamed, []byte("unnamed")))
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 1})
	w.same("shared", w.load(b.Number, store.Range{From: 2, Payloads: true})[0].Data, []byte("shared"))
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
	end := ended(a, 3, 10)
	w.commit(end)
	c := w.start("order-1")
	e := large.Entries[0]
	e.Run, e.Data = c.Run, nil
	c.Shares, c.Entries = a.Number, append(c.Entries, e)
	w.written(c)
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 1})
	w.same("shared", w.load(c.Run, store.Range{From: 2, Payloads: true})[0].Data, []byte("large"))
	late := w.start("order-2")
	late.Shares = a.Number
	w.refused(w.group(late, w.start("order-3")))
	w.absent(late.Run)
	w.refused(w.group(func() store.Change { c := step(c.Run, 3); c.Shares = c.Run; return c }()))
	again := w.group(c)
	again.Again = true // it was written while the other was there
	w.ok(w.try(again))
	w.verdict(again.Changes[0], store.Written)
}

// payload commits an entry that names a payload, and demands what it is; none if
// it must be gone.
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
	w.posted(6, toRun(head.Number, signal("x1", "1")), toRun(head.Number, signal("x2", "2")), toRun(head.Number, signal("x3", "3")))
	both := w.continued(w.head(head.Number), 3, 10)
	both[0].Entries = append(taking(both[0].Run, 2, 3, signal("x3", "")).Entries, both[0].Entries...)
	w.commit(both...)
	next := both[1].Run
	w.posted(11, toRun(next, signal("y", "y")), toRun(next, large))
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 1})
	w.same("inbox of the successor", labels(w.inbox(next)), []string{"1:x1", "2:x2", "4:y", "5:large"})
	w.judged(w.posted(12, toRun(next, signal("x1", "1")))[0], store.Duplicate, next, 0)
	w.judged(w.posted(12, toRun(next, signal("x3", "3")))[0], store.Delivered, next, 6) // its row went with the run that took it
	w.same("payload", len(w.inbox(next)[3].Data), 1000)
	w.commit(ended(w.head(next), 2, 20))
	w.same("purged", w.purge(100, 0, before(100)), store.Purged{Runs: 2})
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
	w.posted(1, waiting("order-1", 50, large), waiting("order-1", 60, signal("b", "2")), waiting("order-2", 50, signal("c", "3")))
	w.same("purged", w.purge(49, 0), store.Purged{})
	total := 0
	for more := true; more; {
		got := w.purge(50, 1)
		total, more = total+got.Unrouted, got.More
	}
	w.same("purged", total, 2)
	w.unrouted(1)
	w.same("left", w.inbox(0)[0].Op.Name, "b")
	w.payload(w.written(w.start(""))[0].Number, 2, large.Spill, "")
}

func purgeFence(w *world) {
	w.join(0)
	w.over("w", journal.Completed, 10, 0)
	p := store.Purge{Engine: w.engine, Now: at(100), Rules: []store.Rule{before(100)}}
	w.die(20)
	_, err := w.s.Purge(w.Context(), p)
	w.is(err, store.ErrFenced)
	w.same("left", len(w.left()), 1)
	p.Engine = 0
	got, err := w.s.Purge(w.Context(), p)
	w.ok(err)
	w.same("purged", got, store.Purged{Runs: 1})
}

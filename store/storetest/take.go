package storetest

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// takeChecks are about runs that an engine claims.
func takeChecks() []check {
	return []check{
		{"take/runs come due longest first, with owner and journal", takeOrder},
		{"take/what is not due, owned, ended or without a wake time stays", takeOnlyDue},
		{"take/only the named workflows are taken", takeWorkflows},
		{"take/the next wake time is told", takeNext},
		{"take/a change of the wake time holds", takeRescheduled},
		{"take/about 32 MB of journals come at a time", func(w *world) { takeBytes(w, false) }},
		{"take/about 32 MB of messages come at a time", func(w *world) { takeBytes(w, true) }},
		{"take/each run is given once, however many ask", takeOnce},
		{"take/of a workflow that is paused come runs with an unseen order", takePaused},
		{"take/an order is unseen until its run is given back", takeOrdered},
		{
			"take/of a workflow that no engine has come runs that are to be terminated",
			takeTerminated,
		},
		{"take/the next wake time is told for orders too", takeNextOrdered},
		{"take/an order to terminate is unseen until its run is given back", takeTerminatedOnce},
		{"one/a run comes whatever its wake time", oneAsleep},
		{"one/a run that the engine owns comes again", oneAgain},
		{"claim/a request that is nil or a pointer is refused", claimInvalid},
		{"one/a run that another engine owns, has ended or is not there does not come", oneNot},
	}
}

func claimInvalid(w *world) {
	w.join(0)
	for _, c := range []store.Claim{nil, &store.TakeDue{Engine: w.engine}} {
		_, err := w.s.Claim(w.Context(), c)
		if data := new(store.DataError); !errors.As(err, &data) {
			w.Fatalf("the claim %T returns %v, want a DataError", c, err)
		}
	}
}

func takeOrder(w *world) {
	w.join(0)
	a, b, c, d := w.free("", 30), w.free("", 10), w.free("", 20), w.free("", 10)
	w.written(a, b, c, d)
	w.commit(step(b.Run, 2))
	got := w.take(30, 3)
	w.same("order", numbers(got), []journal.Number{b.Run, d.Run, c.Run})
	w.same("more", got.More, true)
	want := *b.Head
	want.Owner = w.engine
	w.same("head", got.Runs[0].Head, want)
	w.same("stored head", w.head(b.Run), want)
	w.same("journal", got.Runs[0].Entries, append(b.Entries, step(b.Run, 2).Entries...))
	w.same("last", got.Runs[0].Last, int64(2))
	got = w.take(30, 3)
	w.same("rest", numbers(got), []journal.Number{a.Run})
	w.same("more", got.More, false)
	w.same("nothing twice", numbers(w.take(30, 3)), []journal.Number{})
}

func takeOnlyDue(w *world) {
	w.join(0)
	owned, later, never, over, due := w.start(""), w.free("", 31), w.free("", 0), w.free("", 0),
		w.free("", 30)
	never.Head.Wake = time.Time{}
	far := w.free("", 31)
	far.Head.Wake = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	w.written(owned, later, never, over, due, far)
	w.commit(ended(*over.Head, 2, 5))
	got := w.take(30, 10)
	w.same("claimed", numbers(got), []journal.Number{due.Run})
	w.same("more", got.More, false)
	w.same("claimed a century later", numbers(w.take(math.MaxInt32, 10)),
		[]journal.Number{later.Run})
}

func takeWorkflows(w *world) {
	w.join(0)
	a, b, c := w.free("", 3), w.free("", 2), w.free("", 1)
	b.Head.Workflow, c.Head.Workflow = "v", "u"
	w.written(a, b, c)
	claim := store.TakeDue{Engine: w.engine, Max: 10, Now: at(10)}
	w.same("no workflow", numbers(w.claim(claim)), []journal.Number{})
	claim.Workflows = []string{"w", "v", "unknown"}
	got := w.claim(claim)
	w.same("two workflows", numbers(got), []journal.Number{b.Run, a.Run})
	w.same("next", moment(got.Next), "never")
	w.same("left alone", w.head(c.Run), *c.Head)
}

func takeNext(w *world) {
	w.join(0)
	a, b, c := w.free("", 10), w.free("", 30), w.free("", 20)
	c.Head.Workflow = "v"
	w.written(a, b, c)
	got := w.take(5, 10)
	w.same("claimed", numbers(got), []journal.Number{})
	w.same("next", moment(got.Next), moment(at(10)))
	w.same("next after a claim", moment(w.take(10, 10).Next), moment(at(30)))
	both := w.claim(store.TakeDue{
		Engine:    w.engine,
		Workflows: []string{"w", "v"},
		Max:       1,
		Now:       at(5),
	})
	w.same("next of two", moment(both.Next), moment(at(20)))
	w.same("next of none", moment(w.take(30, 10).Next), "never")
}

func takeRescheduled(w *world) {
	w.join(0)
	head := w.written(w.free("", 10))[0]
	w.commit(update(head, func(h *journal.Head) { h.Wake = at(40) }))
	got := w.take(39, 10)
	w.same("claimed", numbers(got), []journal.Number{})
	w.same("next", moment(got.Next), moment(at(40)))
	w.commit(update(head, func(h *journal.Head) { h.Wake = time.Time{} }))
	w.same("claimed", numbers(w.take(100, 10)), []journal.Number{})
	w.commit(update(head, func(h *journal.Head) { h.Wake = at(20) }))
	w.same("claimed", numbers(w.take(20, 10)), []journal.Number{head.Number})
	w.commit(update(head, func(h *journal.Head) { h.Owner, h.Wake = 0, at(20) }))
	w.same("claimed again", numbers(w.take(20, 10)), []journal.Number{head.Number})
}

func takeBytes(w *world, messages bool) {
	w.join(0)
	big := bytes.Repeat([]byte("x"), 12<<20)
	var want []journal.Number
	for range 4 {
		c := w.free("", 10)
		if messages {
			m := signal("big", "")
			m.Data = big
			c.Posts = []store.Post{toRun(c.Run, m)}
		} else {
			c.Entries[0].Data = big
		}
		w.written(c)
		want = append(want, c.Run)
	}
	got := w.take(10, 10)
	if n := len(got.Runs); n < 2 || n > 3 || !got.More {
		w.Fatalf("%d runs of 12 MB came, and more is %v", n, got.More)
	}
	rest := w.take(10, 10)
	w.same("all of them", append(numbers(got), numbers(rest)...), want)
	w.same("more", rest.More, false)
}

// whilePaused takes at most that many runs; the workflow w is paused.
func whilePaused(w *world, seconds, most int) store.Claimed {
	w.Helper()
	return w.claim(store.TakeDue{
		Engine: w.engine, Workflows: []string{"v"}, Paused: []string{"w", "u"}, Max: most,
		Now: at(seconds),
	})
}

// spec: R-40
func takePaused(w *world) {
	w.join(0)
	due, told, other, cancelled, resumed, asleep := w.free("", 1), w.free("", 1), w.free("", 1),
		w.free("", 9), w.free("", 8), w.free("", 0)
	other.Head.Workflow, asleep.Head.Wake = "v", time.Time{}
	w.written(due, told, other, cancelled, resumed, asleep)
	w.same("before", numbers(whilePaused(w, 10, 0)), []journal.Number{})
	for run, kind := range map[journal.Number]journal.Kind{
		cancelled.Run: journal.CancelAsked, resumed.Run: journal.ResumeAsked,
		asleep.Run: journal.SuspendAsked, told.Run: journal.SignalReceived,
	} {
		p := toRun(run, journal.Entry{Kind: kind, Op: journal.Op{Name: "x"}, At: at(10)})
		p.Force = true
		w.judged(w.posted(10, p)[0], store.Delivered, run, 1)
	}
	got := whilePaused(w, 20, 2)
	w.same("the first", numbers(got), []journal.Number{resumed.Run, cancelled.Run})
	w.same("inbox", len(got.Runs[0].Inbox), 1)
	w.same("more", got.More, true)
	got = whilePaused(w, 20, 5)
	w.same("the others", numbers(got), []journal.Number{asleep.Run, other.Run})
	w.same("more", got.More, false)
	w.same("next", moment(got.Next), "never")
	w.same("when it is resumed", numbers(w.take(20, 5)), []journal.Number{due.Run, told.Run})
}

// spec: R-40
func takeOrdered(w *world) {
	w.join(0)
	head := w.written(w.free("", 1))[0]
	order := toRun(head.Number, journal.Entry{Kind: journal.CancelAsked, At: at(1)})
	order.Force = true
	giveBack := func(seen, seq int64) store.Verdict {
		return w.commit(unloading(w.head(head.Number), seen, seq))[0].Verdict
	}
	w.same("claimed", numbers(w.take(1, 1)), []journal.Number{head.Number})
	w.posted(2, order)
	w.same("given back without the order", giveBack(0, 2), store.Mail)
	w.die(3)
	w.same("after a crash", numbers(whilePaused(w, 4, 1)), []journal.Number{head.Number})
	w.die(5)
	w.same("after another", numbers(whilePaused(w, 6, 1)), []journal.Number{head.Number})
	w.same("given back with the order", giveBack(1, 3), store.Written)
	w.same("seen", numbers(whilePaused(w, 90, 1)), []journal.Number{})
	w.same("due all the same", numbers(w.take(90, 1)), []journal.Number{head.Number})
}

// terminates returns a message that a run is to be terminated.
func terminates(run journal.Number) store.Post {
	p := toRun(run, journal.Entry{
		Kind: journal.CancelAsked, Op: journal.Op{Name: "x"}, At: at(10),
		Detail: &journal.Detail{
			Reason:        `a "mode":"no mode"`,
			MessageDetail: journal.MessageDetail{Mode: journal.ActionTerminate},
		},
	})
	p.Force = true
	return p
}

// freeOf returns a new run of a workflow that no engine owns and that is due at a time.
func freeOf(w *world, workflow, id string, seconds int) store.Change {
	w.Helper()
	c := w.free(id, seconds)
	c.Head.Workflow = workflow
	return c
}

// spec: R-40
func takeTerminated(w *world) {
	w.join(0)
	doomed, asleep, told, cancelled, owned, over := freeOf(w, "gone", "", 3),
		freeOf(w, "lost", "", 0), freeOf(w, "gone", "", 1), freeOf(w, "gone", "", 1),
		freeOf(w, "gone", "", 1), freeOf(w, "gone", "", 1)
	mine, paused, due := freeOf(w, "v", "", 1), freeOf(w, "u", "", 2), freeOf(w, "v", "", 2)
	asleep.Head.Wake, owned.Head.Owner = time.Time{}, w.engine+1000
	w.written(doomed, asleep, told, cancelled, owned, over, mine, paused, due)
	// Another order, and a reason that looks like this one.
	cancel := toRun(cancelled.Run, journal.Entry{
		Kind: journal.CancelAsked, At: at(10), Detail: &journal.Detail{
			Reason: `"mode":"terminate"`,
		},
	})
	suspend := toRun(doomed.Run, journal.Entry{Kind: journal.SuspendAsked, At: at(11)})
	w.posted(10, terminates(doomed.Run), terminates(asleep.Run), cancel,
		toRun(told.Run, signal("x", "")), terminates(owned.Run), terminates(over.Run),
		terminates(mine.Run), terminates(paused.Run))
	w.posted(11, suspend)
	w.commit(ended(*over.Head, 2, 11))
	w.same("messages only", numbers(whilePaused(w, 10, 0)), []journal.Number{})
	got := whilePaused(w, 10, 2)
	w.same("the first", numbers(got), []journal.Number{paused.Run, doomed.Run})
	w.same("inbox", len(got.Runs[1].Inbox), 2)
	w.same("owner", w.head(doomed.Run).Owner, w.engine)
	w.same("more", got.More, true)
	got = whilePaused(w, 10, 9)
	w.same("the others", numbers(got), []journal.Number{asleep.Run, mine.Run, due.Run})
	w.same("more", got.More, false)
	w.same("next", moment(got.Next), "never")
	none := w.claim(store.TakeDue{Engine: w.engine, Max: 9, Now: at(90)})
	w.same("no workflow", numbers(none), []journal.Number{})
}

// The clock of the sender of an order may be ahead. The run is due only later then, and Next has
// that time.
//
// spec: R-40
func takeNextOrdered(w *world) {
	w.join(0)
	paused, doomed, own := w.free("", 50), freeOf(w, "gone", "", 60), freeOf(w, "v", "", 40)
	asleep := w.free("", 5) // without an order
	w.written(paused, doomed, own, asleep)
	w.posted(30, terminates(doomed.Run))
	w.posted(20, terminates(paused.Run))
	nothing := func(now int, next time.Time) {
		w.Helper()
		got := whilePaused(w, now, 5)
		w.same("too early", numbers(got), []journal.Number{})
		w.same("next", moment(got.Next), moment(next))
	}
	nothing(10, at(20))
	got := whilePaused(w, 20, 5)
	w.same("of the paused", numbers(got), []journal.Number{paused.Run})
	w.same("next after it", moment(got.Next), moment(at(30)))
	nothing(29, at(30))
	got = whilePaused(w, 30, 5)
	w.same("of the unknown", numbers(got), []journal.Number{doomed.Run})
	w.same("next after both", moment(got.Next), moment(at(40)))
}

// spec: R-40
func takeTerminatedOnce(w *world) {
	w.join(0)
	none := func() []journal.Number {
		return numbers(w.claim(store.TakeDue{Engine: w.engine, Max: 5, Now: at(90)}))
	}
	// A message that waited for the run is an order like any other.
	waiting := terminates(0)
	waiting.WorkflowID, waiting.Until = "order-1", at(1000)
	w.posted(1, waiting)
	w.unrouted(1)
	head := w.written(freeOf(w, "gone", "order-1", 1))[0]
	w.same("claimed", none(), []journal.Number{head.Number})
	w.same("owned", none(), []journal.Number{})
	w.die(3)
	w.same("after a crash", none(), []journal.Number{head.Number})
	w.commit(unloading(w.head(head.Number), 1, 2))
	w.same("given back", none(), []journal.Number{})
	w.posted(4, terminates(head.Number))
	w.same("once more", none(), []journal.Number{head.Number})
}

func takeOnce(w *world) {
	w.join(0)
	const runs, takers = 60, 6
	var changes []store.Change
	for i := range runs {
		changes = append(changes, w.free("", i%7))
	}
	w.written(changes...)
	var mu sync.Mutex
	var wg sync.WaitGroup
	times := map[journal.Number]int{}
	take := func() {
		for {
			got, err := w.s.Claim(w.Context(), store.TakeDue{
				Engine:    w.engine,
				Workflows: []string{"w"},
				Max:       3,
				Now:       at(10),
			})
			if err != nil {
				w.Errorf("Claim: %v", err)
			}
			if err != nil || len(got.Runs) == 0 {
				return
			}
			mu.Lock()
			for _, n := range numbers(got) {
				times[n]++
			}
			mu.Unlock()
		}
	}
	for range takers {
		wg.Go(take)
	}
	wg.Wait()
	take() // a run that all of them found locked is left for later
	for _, c := range changes {
		if times[c.Run] != 1 {
			w.Errorf("run %d was given %d times", c.Run, times[c.Run])
		}
	}
}

func (w *world) one(run journal.Number) []journal.Number {
	w.Helper()
	return numbers(w.claim(store.TakeRun{Engine: w.engine, Run: run}))
}

func oneAsleep(w *world) {
	w.join(0)
	later, never := w.free("", 1000), w.free("", 0)
	never.Head.Wake, never.Head.Status = time.Time{}, journal.Suspended
	w.written(later, never)
	for _, c := range []store.Change{later, never} {
		got := w.claim(store.TakeRun{Engine: w.engine, Run: c.Run})
		c.Head.Owner = w.engine
		w.same("run", got.Runs, []store.Run{{Head: *c.Head, Entries: c.Entries, Last: 1}})
		w.same("owner", w.head(c.Run).Owner, w.engine)
	}
}

func oneAgain(w *world) {
	w.join(0)
	mine, over, free := w.start(""), w.start(""), w.free("", 5)
	heads := w.written(mine, over, free)
	w.commit(ended(heads[1], 2, 5))
	w.same("owned", w.find(store.Filter{Owner: w.engine}), heads[:1])
	w.same("claimed", w.one(mine.Run), []journal.Number{mine.Run})
	w.same("claimed again", w.one(mine.Run), []journal.Number{mine.Run})
}

func oneNot(w *world) {
	w.join(0)
	owned, over := w.start(""), w.start("")
	owned.Head.Owner = w.engine + 1000
	heads := w.written(owned, over)
	w.commit(ended(heads[1], 2, 5))
	for _, run := range []journal.Number{owned.Run, over.Run, w.number()} {
		w.same("claimed", w.one(run), []journal.Number{})
	}
}

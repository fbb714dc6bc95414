package storetest

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// leaseChecks are about several engines that use the store at the same time, and about their
// leases.
func leaseChecks() []check {
	return leased([]check{
		{"lease/two engines side by side write each its own runs", leaseSideBySide},
		{"lease/a living engine is not taken over", leaseLiving},
		{"lease/an engine whose lease has passed renews it where nobody took over", leaseLate},
		{"lease/Lapse tells when the next lease of another passes", leaseLapse},
		{"lease/Info lists the engines with the end of their leases", leaseInfo},
		{"lease/a leave hands over at once", leaseLeave},
		{"lease/a run is claimed by number only where no other engine has it", leaseOne},
		{"lease/an idle engine has a long lease, and no longer when it owns a run", leaseIdle},
		{"lease/payloads of a living engine are not swept", leaseSpilled},
		{"lease/a start finds the run that another engine has", leaseFound},
		{"lease/a message to another engine's run comes with its claim, once", leaseMail},
		{"lease/a run that another engine has posted to is not unloaded", leaseUnload},
		{
			"lease/an unload that is sent again takes no run from an engine that has claimed " +
				"it since", leaseUnloadAgain,
		},
		{
			"lease/a run that is to be terminated comes to another engine if none has its workflow",
			leaseTerminated,
		},
		{"lease/what an engine is to tell no other engine gets", leaseOutbox},
		{"lease/what an engine has left untold another one gets", leaseOutboxLeft},
	})
}

// takeOverChecks are about an engine whose lease has passed.
func takeOverChecks() []check {
	return leased([]check{
		{"takeover/a renewal makes a dead engine's runs due now and nobody's", func(w *world) {
			takeOverBy(w, true)
		}},
		{"takeover/a join makes a dead engine's runs due now and nobody's", func(w *world) {
			takeOverBy(w, false)
		}},
		{"takeover/a dead engine without runs is taken over", takeOverIdle},
		{"takeover/the engine that was taken over is fenced from everything", takeOverFenced},
		{"takeover/an engine that was taken over leaves no payload behind", takeOverSpilled},
		{"takeover/a dead engine's outbox entries go to another", takeOverOutbox},
		{"takeover/a dead engine's mail comes with its runs", takeOverMail},
	})
}

// leased limits checks to stores with leases.
func leased(checks []check) []check {
	for i, c := range checks {
		checks[i].run = func(w *world) {
			if w.db.Lapse == nil {
				w.Skipf("the store is for one engine")
			}
			w.join(0)
			c.run(w)
		}
	}
	return checks
}

// beside returns another process with the same database, and joins its engine.
func (w *world) beside(seconds int) *world {
	w.Helper()
	other := &world{T: w.T, db: w.db}
	other.open()
	w.besides = append(w.besides, other.s)
	other.join(seconds)
	return other
}

func (w *world) renew(seconds int) store.Claimed {
	w.Helper()
	return w.claim(store.Renew{Engine: w.engine, Now: at(seconds)})
}

func (w *world) lapse() {
	w.Helper()
	w.ok(w.db.Lapse(w.engine))
}

// engines returns the listed engines by ascending ID, and whether each has expired.
func (w *world) engines() (ids []journal.EngineID, expired []bool) {
	w.Helper()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	for _, e := range info.Engines {
		ids, expired = append(ids, e.ID), append(expired, e.Expired)
	}
	return ids, expired
}

// spec: B-5
func leaseSideBySide(w *world) {
	b := w.beside(1)
	if b.engine == w.engine {
		w.Fatalf("two engines have the ID %d", b.engine)
	}
	mine, others := w.written(w.start(""))[0], b.written(b.start(""))[0]
	for seq := int64(2); seq < 5; seq++ {
		w.commit(step(mine.Number, seq))
		b.commit(step(others.Number, seq))
	}
	for _, x := range []*world{w, b} {
		x.rows(mine.Number, 4)
		x.rows(others.Number, 4)
		x.same("heads", []journal.Head{x.head(mine.Number), x.head(others.Number)},
			[]journal.Head{mine, others})
	}
	w.same("owned by one", w.find(store.Filter{Owner: w.engine}), []journal.Head{mine})
	w.same("owned by the other", w.find(store.Filter{Owner: b.engine}), []journal.Head{others})
}

func leaseLiving(w *world) {
	mine := w.written(w.start(""))[0]
	b := w.beside(1)
	got := b.renew(2)
	w.same("taken over", []int64{int64(got.Expired), got.Freed}, []int64{0, 0})
	w.same("head", b.head(mine.Number), mine)
	w.same("claimed", numbers(b.take(1<<20, 5)), []journal.Number{})
	w.commit(step(mine.Number, 2))
	w.renew(3)
	b.die(4)
	w.commit(step(mine.Number, 3))
	w.same("head", b.head(mine.Number), mine)
}

// spec: R-13
func leaseLate(w *world) {
	mine := w.written(w.start(""))[0]
	w.lapse()
	w.commit(step(mine.Number, 2)) // the fence does not depend on a clock
	w.same("freed by itself", w.renew(5).Freed, int64(0))
	b := w.beside(6)
	w.same("freed by another", b.renew(7).Freed, int64(0))
	w.commit(step(mine.Number, 3))
	w.same("head", w.head(mine.Number), mine)
}

func leaseLapse(w *world) {
	alone := w.renew(1)
	if alone.Lease <= 0 || alone.Lapse != 0 {
		w.Fatalf("alone, the lease is %v, and another one passes in %v", alone.Lease, alone.Lapse)
	}
	got, err := w.s.Claim(w.Context(), store.Join{Now: at(1)})
	w.ok(err)
	b := &world{T: w.T, db: w.db, s: w.s, engine: got.Engine}
	for _, c := range []store.Claimed{got, w.renew(2), b.renew(2)} {
		if c.Lease != alone.Lease || c.Lapse <= 0 || c.Lapse > c.Lease {
			w.Fatalf("beside another, the lease is %v, and the other one passes in %v", c.Lease,
				c.Lapse)
		}
	}
	b.claim(store.Leave{Engine: b.engine, Now: at(3)})
	w.same("lapse when the other has left", w.renew(4).Lapse, time.Duration(0))
}

func leaseInfo(w *world) {
	b := w.beside(1)
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("engines", len(info.Engines), 2)
	lease, seen := w.renew(2).Lease, info.Now
	again, err := w.s.Info(w.Context())
	w.ok(err)
	for _, e := range again.Engines {
		if renewed := e.ID == w.engine; renewed && e.Seen.Before(seen) ||
			!renewed && e.Seen.After(seen) {
			w.Errorf("engine %d renewed after %v, and of engine %d it says %v", w.engine, seen,
				e.ID, e.Seen)
		}
	}
	for _, e := range info.Engines {
		if left := e.Until.Sub(info.Now); e.Expired || left <= 0 || left > lease {
			w.Errorf("of a lease of %v, %v are left of %+v", lease, left, e)
		}
	}
	b.lapse()
	ids, expired := w.engines()
	w.same("engines", ids, []journal.EngineID{w.engine, b.engine})
	w.same("expired", expired, []bool{false, true})
	b.renew(3)
	_, expired = w.engines()
	w.same("expired after it renewed", expired, []bool{false, false})
}

func leaseLeave(w *world) {
	mine := w.written(w.start(""))[0]
	b := w.beside(1)
	others := b.written(b.start(""))[0]
	w.claim(store.Leave{Engine: w.engine, Now: at(50)})
	w.same("claimed", numbers(b.take(50, 5)), []journal.Number{mine.Number})
	w.same("head of the other's run", b.head(others.Number), others)
	ids, _ := b.engines()
	w.same("engines", ids, []journal.EngineID{b.engine})
}

func leaseOne(w *world) {
	run := w.written(w.start(""))[0].Number
	b := w.beside(1)
	w.same("claimed while it lives", b.one(run), []journal.Number{})
	w.lapse()
	w.same("claimed before the take-over", b.one(run), []journal.Number{})
	b.renew(2)
	w.same("claimed", b.one(run), []journal.Number{run})
	w.same("owner", b.head(run).Owner, b.engine)
}

func leaseSpilled(w *world) {
	run := w.written(w.start(""))[0].Number
	c := w.spill(run, 2, []byte("large"))
	w.beside(1)
	w.beside(2)
	w.commit(c)
	w.same("payload", w.load(run, store.Range{From: 2, Payloads: true})[0].Data, []byte("large"))
}

// spec: B-4
func leaseFound(w *world) {
	mine := w.written(w.start("order-1"))[0]
	b := w.beside(1)
	c := b.commit(b.start("order-1"))[0]
	w.verdict(c, store.Exists)
	w.same("found", c.Found, mine)
	w.same("owner", c.Found.Owner, w.engine)
	other := b.start("order-1")
	other.Head.Workflow = "v"
	w.verdict(b.commit(other)[0], store.Taken)
	w.absent(c.Run)
}

// spec: L-19, B-5
func leaseMail(w *world) {
	mine := w.written(w.start("order-1"))[0]
	b := w.beside(1)
	posts := b.posted(2, toRun(mine.Number, signal("x", "1")), toID("order-1", signal("y", "2")))
	w.judged(posts[0], store.Delivered, mine.Number, 1)
	w.judged(posts[1], store.Delivered, mine.Number, 2)
	w.same("owner as told", posts[0].To.Owner, w.engine)
	w.same("mail of who has sent it", len(b.mail()), 0)
	got := w.mail()
	w.same("runs with mail", len(got), 1)
	w.same("mail", labels(got[0].Inbox), []string{"1:x", "2:y"})
	w.same("mail given twice", len(w.mail()), 0)
	w.posted(3, toRun(mine.Number, signal("z", "3")))
	w.same("mail of its own", len(w.mail()), 0)
	b.posted(4, toRun(mine.Number, signal("u", "4")))
	w.same("mail beside runs", labels(w.take(4, 5).Mail[0].Inbox), []string{"4:u"})
}

// spec: B-5, B-6
func leaseIdle(w *world) {
	head := w.filled("", 1)
	idle := func(x *world) time.Duration {
		return x.claim(store.Renew{Engine: x.engine, Idle: true, Now: at(2)}).Lease
	}
	lease := w.renew(1).Lease
	w.same("the lease of an owner", idle(w), lease)
	b := w.beside(1)
	w.same("the lease of an idle engine", idle(b), store.IdleLeases*lease)
	w.written(w.free("due", 0))
	left := func() (left time.Duration) {
		info, err := w.s.Info(w.Context())
		w.ok(err)
		for _, e := range info.Engines {
			if e.ID == b.engine {
				left = e.Until.Sub(info.Now)
			}
		}
		return left
	}
	if left() <= lease {
		w.Errorf("the lease of an idle engine passes in %v", left())
	}
	got := b.claim(store.TakeDue{Engine: b.engine, Workflows: []string{"w"}, Max: 5, Now: at(90)})
	if len(got.Runs) == 0 || got.Lease != lease || left() > lease {
		w.Errorf("an idle engine has claimed %d runs, for %v, and its lease passes in %v",
			len(got.Runs), got.Lease, left())
	}
	c := w.beside(1)
	w.verdict(w.commit(unloading(head, 1, 2))[0], store.Written)
	w.same("the lease of another idle engine", idle(c), store.IdleLeases*lease)
	one := c.claim(store.TakeRun{Engine: c.engine, Run: head.Number})
	if len(one.Runs) != 1 || one.Lease != lease {
		w.Errorf("an idle engine has taken %d runs, for %v", len(one.Runs), one.Lease)
	}
}

// spec: B-6
func leaseUnload(w *world) {
	head := w.filled("", 1)
	b := w.beside(1)
	b.posted(2, toRun(head.Number, signal("y", "y")))
	c := w.commit(unloading(head, 1, 2))[0]
	w.verdict(c, store.Mail)
	w.same("owner", c.Found.Owner, w.engine)
	w.same("mail", labels(w.mail()[0].Inbox), []string{"2:y"})
	w.verdict(w.commit(unloading(head, 2, 3))[0], store.Written)
	w.same("claimed by the other", numbers(b.take(90, 5)), []journal.Number{head.Number})
}

// spec: B-6, R-13
func leaseUnloadAgain(w *world) {
	head := w.filled("", 0)
	unload := unloading(head, 0, 2)
	unload.Entries = nil
	w.verdict(w.commit(unload)[0], store.Written)
	b := w.beside(1)
	w.same("claimed", numbers(b.take(90, 5)), []journal.Number{head.Number})
	w.verdict(w.again(unload)[0], store.Written)
	b.posted(91, toRun(head.Number, signal("x", "1")))
	w.verdict(w.again(unload)[0], store.Written)
	w.same("owner", b.head(head.Number).Owner, b.engine)
}

// spec: L-18
func leaseOutbox(w *world) {
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2))
	b := w.beside(1)
	w.same("to another", facts(b.outbox(0, 5)), [][2]int64{})
	others := b.written(b.start(""))[0].Number
	b.commit(toOutbox(others, 2))
	w.same("to who has committed it", facts(w.outbox(0, 5)), [][2]int64{{int64(run), 2}})
	w.same("to the other one", facts(b.outbox(0, 5)), [][2]int64{{int64(others), 2}})
	w.lapse() // the engine may still renew its lease
	w.same("to another while its row is there", facts(b.outbox(0, 5)),
		[][2]int64{{int64(others), 2}})
}

// spec: L-18
func leaseOutboxLeft(w *world) {
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2))
	w.same("outbox", len(w.outbox(0, 5)), 1)
	b := w.beside(1)
	w.same("to another", len(b.outbox(0, 5)), 0)
	w.claim(store.Leave{Engine: w.engine, Now: at(2)})
	c := b.beside(1)
	w.same("to the first one after it left", facts(c.outbox(0, 5)), [][2]int64{{int64(run), 2}})
	w.same("to a second one", len(b.outbox(0, 5)), 0)
	c.lapse()
	b.renew(3)
	w.same("to the second one when the first is gone too", facts(b.outbox(0, 5)),
		[][2]int64{{int64(run), 2}})
}

// spec
func takeOverBy(w *world, renewal bool) {
	runs, waits, over := w.start(""), w.start(""), w.start("")
	waits.Head.Status, waits.Head.Wake = journal.Waiting, time.Time{}
	heads := w.written(runs, waits, over)
	w.commit(ended(heads[2], 2, 5))
	b := w.beside(1)
	others := b.written(b.start(""))[0]
	w.lapse()
	w.same("owner while nobody looks", b.head(runs.Run).Owner, w.engine)
	var got store.Claimed
	if renewal {
		got = b.renew(50)
	} else {
		got = b.claim(store.Join{Self: store.Engine{Host: "third"}, Now: at(50)})
	}
	w.same("taken over", []int64{int64(got.Expired), got.Freed}, []int64{1, 2})
	for i, want := range heads[:2] {
		want.Owner, want.Wake = 0, at(50)
		if i == 0 {
			want.Crashes = 1
		}
		w.same("head", b.head(want.Number), want)
	}
	w.same("head of the other's run", b.head(others.Number), others)
	w.same("freed again", b.renew(51).Freed, int64(0))
	w.same("claimed", numbers(b.take(51, 10)), []journal.Number{runs.Run, waits.Run})
	ids, _ := b.engines()
	for _, id := range ids {
		if id == w.engine {
			w.Errorf("the engine that was taken over is listed still")
		}
	}
}

func takeOverIdle(w *world) {
	b := w.beside(1)
	w.lapse()
	got := b.renew(2)
	w.same("taken over", []int64{int64(got.Expired), got.Freed}, []int64{1, 0})
	got = b.renew(3)
	w.same("taken over again", []int64{int64(got.Expired), got.Freed}, []int64{0, 0})
}

// spec: R-13
func takeOverFenced(w *world) {
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2))
	due := w.free("", 1)
	w.written(due)
	b := w.beside(1)
	w.lapse()
	b.renew(10)
	w.is(w.try(w.group(step(run, 3))), store.ErrFenced)
	again := w.group(step(run, 2))
	again.Again = true
	w.is(w.try(again), store.ErrFenced)
	w.is(
		w.try(w.group(store.Change{Posts: []store.Post{waiting("order-1", 90, signal("x", "1"))}})),
		store.ErrFenced)
	w.is(w.try(w.group(w.start("order-2"))), store.ErrFenced)
	w.is(w.try(w.group()), store.ErrFenced)
	w.is(w.s.Spill(w.Context(), w.engine, w.number(), []byte("x")), store.ErrFenced)
	_, err := w.s.Purge(w.Context(), store.Purge{Engine: w.engine, Now: at(11)})
	w.is(err, store.ErrFenced)
	for _, c := range []store.Claim{
		store.Renew{Engine: w.engine, Now: at(11)},
		store.Leave{Engine: w.engine, Now: at(11)},
		store.TakeRun{Engine: w.engine, Run: run},
		store.TakeDue{Engine: w.engine, Workflows: []string{"w"}, Max: 1, Now: at(11)},
		store.TakeDue{Engine: w.engine, Workflows: []string{"w"}, Now: at(11)},
		store.TakeOutbox{Engine: w.engine, Workflows: []string{"w"}, Limit: 1},
	} {
		_, err := w.s.Claim(w.Context(), c)
		w.is(err, store.ErrFenced)
	}
	b.rows(run, 2)
	b.unrouted(0)
	b.same("claimed", numbers(b.take(11, 5)), []journal.Number{due.Run, run})
	b.same("order-2", len(b.find(store.Filter{WorkflowID: "order-2"})), 0)
}

func takeOverSpilled(w *world) {
	run := w.written(w.start(""))[0].Number
	lost := w.spill(run, 2, []byte("lost"))
	b := w.beside(1)
	w.lapse()
	b.renew(2)
	b.beside(3) // its join sweeps payloads
	b.payload(run, 2, lost.Entries[0].Spill, "")
}

// spec: L-18
func takeOverOutbox(w *world) {
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2))
	first := w.outbox(0, 5)
	b := w.beside(1)
	w.lapse()
	b.renew(2)
	got := b.outbox(0, 5)
	w.same("outbox", facts(got), facts(first))
	b.commit(store.Change{Told: []int64{got[0].Number}})
	b.countOutbox(0)
}

// spec: L-19
func takeOverMail(w *world) {
	run := w.written(w.start(""))[0].Number
	b := w.beside(1)
	b.posted(2, toRun(run, signal("x", "1")))
	w.lapse()
	b.renew(3)
	w.same("mail", len(b.mail()), 0)
	b.posted(4, toRun(run, signal("y", "2")))
	got := b.take(5, 5)
	w.same("claimed", numbers(got), []journal.Number{run})
	w.same("inbox", labels(got.Runs[0].Inbox), []string{"1:x", "2:y"})
	w.same("mail beside it", len(got.Mail), 0)
}

// spec: R-40
func leaseTerminated(w *world) {
	none := func() []journal.Number {
		return numbers(w.claim(store.TakeDue{Engine: w.engine, Max: 5, Now: at(90)}))
	}
	b, run := w.beside(1), w.written(freeOf(w, "gone", "", 1))[0].Number
	b.claim(store.Renew{Engine: b.engine, Now: at(1), Workflows: []string{"v", "gone"}})
	w.posted(2, terminates(run))
	w.same("another engine has it", none(), []journal.Number{})
	b.claim(store.Renew{Engine: b.engine, Now: at(2), Workflows: []string{"v"}})
	unsaid := b.claim(store.Join{Now: at(3)})
	w.same("one may have it", none(), []journal.Number{})
	b.claim(store.Leave{Engine: unsaid.Engine, Now: at(4)})
	w.same("none has it", none(), []journal.Number{run})
}

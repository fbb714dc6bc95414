package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// outboxChecks are about entries of the outbox.
func outboxChecks() []check {
	return []check{
		{"outbox/an entry stays until it was told", outboxUntilTold},
		{"outbox/entries come in the order of the commits, page by page", outboxPages},
		{"outbox/only the named workflows' entries come", outboxWorkflows},
		{"outbox/what is committed while somebody reads is not passed over", outboxMeanwhile},
		{"outbox/an entry comes with its payload and its run's head", outboxWhole},
		{"outbox/a group that is refused adds and removes nothing", outboxRolledBack},
		{"outbox/an engine that was taken over gets nothing", outboxFenced},
	}
}

// toOutbox returns a step whose result goes into the outbox.
func toOutbox(run journal.Number, seq int64) store.Change {
	c := step(run, seq)
	c.Entries[0].Detail = &journal.Detail{Tell: true}
	return c
}

// outbox claims outbox entries of workflow "w".
func (w *world) outbox(after int64, most int) []store.OutboxEntry {
	w.Helper()
	return w.claim(store.TakeOutbox{
		Engine:    w.engine,
		Workflows: []string{"w"},
		After:     after,
		Limit:     most,
	}).Outbox
}

// facts returns the run and sequence of each outbox entry.
func facts(all []store.OutboxEntry) [][2]int64 {
	var out [][2]int64
	for _, o := range all {
		out = append(out, [2]int64{int64(o.Entry.Run), o.Entry.Seq})
	}
	return out
}

func (w *world) countOutbox(want int) {
	w.Helper()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("entries as counted", info.Outbox, int64(want))
	w.same("entries as given", len(w.outbox(0, 100)), want)
}

// spec: L-18
func outboxUntilTold(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2), store.Change{})
	w.commit(step(run, 3))
	w.commit(toOutbox(run, 4))
	got := w.outbox(0, 10)
	w.same("outbox", facts(got), [][2]int64{{int64(run), 2}, {int64(run), 4}})
	w.same("outbox again", facts(w.outbox(0, 10)), facts(got))
	w.die(10)
	w.same("outbox after a death", facts(w.outbox(0, 10)), facts(got))
	w.commit(store.Change{Told: []int64{got[0].Number}})
	w.same("left", facts(w.outbox(0, 10)), facts(got[1:]))
	told := toOutbox(run, 5)
	told.Told = []int64{got[0].Number, got[1].Number} // the first was delivered before
	w.commit(told)
	w.same("left", facts(w.outbox(0, 10)), [][2]int64{{int64(run), 5}})
	w.again(told)
	w.countOutbox(1)
}

func outboxPages(w *world) {
	w.join(0)
	heads := w.written(w.start(""), w.start(""))
	a, b := heads[0].Number, heads[1].Number
	want := [][2]int64{}
	for seq := int64(2); seq < 5; seq++ {
		w.commit(toOutbox(b, seq))
		w.commit(toOutbox(a, seq))
		want = append(want, [2]int64{int64(b), seq}, [2]int64{int64(a), seq})
	}
	var got []store.OutboxEntry
	for after := int64(0); ; after = got[len(got)-1].Number {
		page := w.outbox(after, 4)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	w.same("pages together", facts(got), want)
	w.same("first page", len(w.outbox(0, 4)), 4)
	two := toOutbox(a, 5)
	two.Entries = append(two.Entries, toOutbox(a, 6).Entries...)
	w.commit(two)
	w.same("of one group in the order of the journal", facts(w.outbox(got[5].Number, 4)),
		[][2]int64{{int64(a), 5}, {int64(a), 6}})
}

func outboxWorkflows(w *world) {
	w.join(0)
	other := w.start("")
	other.Head.Workflow = "v"
	heads := w.written(other, w.start(""))
	w.commit(toOutbox(heads[0].Number, 2), toOutbox(heads[1].Number, 2))
	w.same("of one workflow", facts(w.outbox(0, 5)), [][2]int64{{int64(heads[1].Number), 2}})
	both := w.claim(store.TakeOutbox{
		Engine:    w.engine,
		Workflows: []string{"u", "v", "w"},
		Limit:     5,
	})
	w.same("of both", len(both.Outbox), 2)
	w.same("of none", len(w.claim(store.TakeOutbox{Engine: w.engine, Limit: 5}).Outbox), 0)
	w.same("nothing else", len(both.Runs), 0)
}

// An engine continues reading above the last number that it has read. So a result that
// contains a number must contain all entries committed before it, of every workflow.
//
// spec: L-18
func outboxMeanwhile(w *world) {
	const groups = 200
	w.join(0)
	other := w.start("")
	other.Head.Workflow = "v"
	heads := w.written(other, w.start(""))
	want := [][2]int64{}
	for seq := int64(2); seq < 2+groups; seq++ {
		want = append(want, [2]int64{int64(heads[0].Number), seq},
			[2]int64{int64(heads[1].Number), seq})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for seq := int64(2); seq < 2+groups; seq++ {
			g := w.group(toOutbox(heads[0].Number, seq), toOutbox(heads[1].Number, seq))
			if err := w.try(g); err != nil {
				w.Errorf("Commit: %v", err)
				return
			}
		}
	}()
	defer func() { <-written }()
	var got []store.OutboxEntry
	for after, over := int64(0), false; ; {
		page := w.claim(store.TakeOutbox{
			Engine:    w.engine,
			Workflows: []string{"v", "w"},
			After:     after,
			Limit:     50,
		}).Outbox
		if got = append(got, page...); len(page) > 0 {
			after = page[len(page)-1].Number
		} else if over {
			break
		}
		select {
		case <-written:
			over = true
		default:
		}
	}
	w.same("entries", facts(got), want)
}

func outboxWhole(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Entries[0].Detail = &journal.Detail{Tell: true}
	head := w.written(c)[0]
	large := w.spill(head.Number, 2, []byte("large"))
	large.Entries[0].Detail = &journal.Detail{
		Tell:        true,
		EventDetail: journal.EventDetail{Event: "OrderShipped"},
	}
	end := ended(head, 3, 10)
	end.Entries = append(large.Entries, end.Entries...)
	w.commit(end)
	got := w.outbox(0, 5)
	large.Entries[0].Data = []byte("large")
	w.same("entries", []journal.Entry{got[0].Entry, got[1].Entry},
		[]journal.Entry{c.Entries[0], large.Entries[0]})
	w.same("head", got[1].Head, w.head(head.Number))
}

func outboxRolledBack(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	w.commit(toOutbox(run, 2))
	told := toOutbox(run, 3)
	told.Told = []int64{w.outbox(0, 1)[0].Number}
	w.refused(w.group(told, step(w.number(), 1)))
	w.same("outbox", facts(w.outbox(0, 5)), [][2]int64{{int64(run), 2}})
	w.countOutbox(1)
}

func outboxFenced(w *world) {
	w.join(0)
	old := w.engine
	w.commit(toOutbox(w.written(w.start(""))[0].Number, 2))
	w.die(10)
	_, err := w.s.Claim(w.Context(), store.TakeOutbox{
		Engine:    old,
		Workflows: []string{"w"},
		Limit:     1,
	})
	w.is(err, store.ErrFenced)
	g := w.group(store.Change{Told: []int64{w.outbox(0, 1)[0].Number}})
	g.Engine = old
	w.is(w.try(g), store.ErrFenced)
	w.countOutbox(1)
}

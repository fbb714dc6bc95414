package storetest

import (
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// unreadableChecks are about rows that this version cannot read: a newer version wrote them,
// or they are damaged.
func unreadableChecks() []check {
	return []check{
		{"unreadable/an entry of an unknown kind stops its run and no other", unreadableKind},
		{"unreadable/a head of an unknown status stops its run and no other", unreadableStatus},
		{"unreadable/a destroyed entry stops its run and no other", unreadableRow},
		{"unreadable/an entry that is missing stops its run and no other", unreadableHole},
		{"unreadable/a message of no such name stops its run and no other", unreadableMessage},
	}
}

// broken demands that run has an error at seq, and that other has none.
func (w *world) broken(run, other journal.Number, seq int64, before int) {
	w.Helper()
	got := w.take(10, 10)
	w.same("claimed", numbers(got), []journal.Number{run, other})
	bad, good := got.Runs[0], got.Runs[1]
	if corrupt := new(journal.CorruptError); !errors.As(bad.Err, &corrupt) || corrupt.Run != run ||
		corrupt.Seq != seq {
		w.Fatalf("the run's error is %v, want a CorruptError of entry %d", bad.Err, seq)
	}
	w.same("entries before it", len(bad.Entries), before)
	w.same("last", bad.Last, int64(3))
	w.same("owner", bad.Head.Owner, w.engine)
	w.ok(good.Err)
	w.same("entries of the other", len(good.Entries), 3)
}

// twoRuns commits two runs of three entries that are due; the first is due first.
func (w *world) twoRuns(change func(*store.Change)) (run, other journal.Number) {
	w.Helper()
	a, b := w.free("", 1), w.free("", 2)
	for _, c := range []*store.Change{&a, &b} {
		c.Entries = append(c.Entries, step(c.Run, 2).Entries[0], step(c.Run, 3).Entries[0])
	}
	change(&a)
	w.written(a, b)
	return a.Run, b.Run
}

func unreadableKind(w *world) {
	w.join(0)
	run, other := w.twoRuns(func(c *store.Change) { c.Entries[1].Kind = 250 })
	got, err := w.s.Load(w.Context(), run, store.Range{})
	if corrupt := new(journal.CorruptError); !errors.As(err, &corrupt) || corrupt.Seq != 2 {
		w.Fatalf("Load = %v, want a CorruptError of entry 2", err)
	}
	w.same("entries before it", len(got), 1)
	w.broken(run, other, 2, 1)
}

func unreadableStatus(w *world) {
	w.join(0)
	run, other := w.twoRuns(func(c *store.Change) { c.Head.Status = 250 })
	w.same("status", w.head(run).Status, journal.Status(250))
	w.broken(run, other, 0, 0)
}

func unreadableRow(w *world) {
	if w.db.Corrupt == nil {
		return
	}
	w.join(0)
	run, other := w.twoRuns(func(*store.Change) {})
	w.ok(w.db.Corrupt(run, 2))
	w.broken(run, other, 2, 1)
}

func unreadableHole(w *world) {
	if w.db.Lose == nil {
		return
	}
	w.join(0)
	run, other := w.twoRuns(func(*store.Change) {})
	w.ok(w.db.Lose(run, 2))
	for _, part := range []struct {
		of     store.Range
		before int
	}{{store.Range{}, 1}, {store.Range{From: 2}, 0}, {store.Range{Limit: 2, Payloads: true}, 1}, {
		store.Range{Tail: true, Limit: 2},
		1,
	}} {
		got, err := w.s.Load(w.Context(), run, part.of)
		if corrupt := new(journal.CorruptError); !errors.As(err, &corrupt) || corrupt.Run != run ||
			corrupt.Seq != 2 {
			w.Fatalf("Load %+v = %v, want a CorruptError of entry 2", part.of, err)
		}
		w.same("entries before it", len(got), part.before)
	}
	w.same("what is after it", len(w.load(run, store.Range{From: 3})), 1)
	w.broken(run, other, 2, 1)
	w.commit(step(run, 4)) // an entry that the run was parked
}

func unreadableMessage(w *world) {
	w.join(0)
	run, other := w.twoRuns(func(*store.Change) {})
	w.posted(0, toRun(run, signal("x", "1")), toRun(run, signal("no name", "2")),
		toRun(other, signal("x", "1")))
	got, err := w.s.Load(w.Context(), run, store.Range{Inbox: true})
	if corrupt := new(journal.CorruptError); !errors.As(err, &corrupt) || corrupt.Run != run ||
		corrupt.Seq != 2 {
		w.Fatalf("Load = %v, want a CorruptError of message 2", err)
	}
	w.same("messages before it", labels(got), []string{"1:x"})
	runs := w.take(10, 10).Runs
	bad, good := runs[0], runs[1]
	if corrupt := new(journal.CorruptError); !errors.As(bad.Err, &corrupt) || corrupt.Run != run ||
		corrupt.Seq != 2 {
		w.Fatalf("the run's error is %v, want a CorruptError of message 2", bad.Err)
	}
	w.same("entries", len(bad.Entries), 3)
	w.ok(good.Err)
	w.same("messages of the other", labels(good.Inbox), []string{"1:x"})
}

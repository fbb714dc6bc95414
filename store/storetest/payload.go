package storetest

import (
	"bytes"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// payloadChecks are about payloads in rows of their own.
func payloadChecks() []check {
	return []check{
		{"payload/a spilled payload comes when it is asked for", spillLoad},
		{"payload/a payload of 64 MB comes back", spillHuge},
		{"payload/a payload may be spilled again", spillAgain},
		{"payload/what no entry names is swept when an engine joins", spillSwept},
		{"payload/a payload that is gone is told as such", spillGone},
		{"payload/an engine that was taken over spills nothing", spillFenced},
		{"payload/an entry or a message may bring its payload along", spillAlong},
		{"payload/what a group that is refused brought along is not kept", spillRolledBack},
		{"payload/what a message names is not swept, nor what its taking names", spillMessages},
	}
}

// spill makes a payload durable and returns a step that names it.
func (w *world) spill(run journal.Number, seq int64, data []byte) store.Change {
	w.Helper()
	id := w.number()
	w.ok(w.s.Spill(w.Context(), w.engine, id, data))
	c := step(run, seq)
	c.Entries[0].Data, c.Entries[0].Spill = nil, id
	return c
}

func spillLoad(w *world) {
	w.join(0)
	c := w.start("")
	w.written(c)
	want := []journal.Entry{c.Entries[0]}
	for i, data := range [][]byte{[]byte("a\x00\xff"), {}, bytes.Repeat([]byte("x"), 1<<20)} {
		s := w.spill(c.Run, int64(i+2), data)
		w.commit(s)
		s.Entries[0].Data = data
		want = append(want, s.Entries[0])
	}
	w.die(10)
	w.same("with payloads", w.load(c.Run, store.Range{Payloads: true}), want)
	w.same("a part, with payloads", w.load(c.Run, store.Range{From: 2, Limit: 1, Payloads: true}),
		want[1:2])
	for i := range want[1:] {
		want[i+1].Data = nil
	}
	w.same("without payloads", w.load(c.Run, store.Range{}), want)
	w.same("claimed", w.take(10, 1).Runs[0].Entries, want)
}

func spillHuge(w *world) {
	w.join(0)
	c := w.start("")
	w.written(c)
	data := bytes.Repeat([]byte("0123456789abcde\x00"), 64<<20/16)
	w.commit(w.spill(c.Run, 2, data))
	got := w.load(c.Run, store.Range{From: 2, Payloads: true})
	if len(got) != 1 || !bytes.Equal(got[0].Data, data) {
		w.Fatalf("the payload came back otherwise")
	}
}

func spillAgain(w *world) {
	w.join(0)
	c := w.start("")
	w.written(c)
	s := w.spill(c.Run, 2, []byte("x"))
	w.ok(w.s.Spill(w.Context(), w.engine, s.Entries[0].Spill, []byte("x")))
	w.commit(s)
	w.same("payload", w.load(c.Run, store.Range{From: 2, Payloads: true})[0].Data, []byte("x"))
}

func spillSwept(w *world) {
	w.join(0)
	c := w.start("")
	w.written(c)
	kept, lost := w.spill(c.Run, 2, []byte("kept")), w.spill(c.Run, 3, []byte("lost"))
	w.commit(kept)
	w.die(10)
	w.commit(lost) // only for the check: no engine does so
	w.same("kept", w.load(c.Run, store.Range{From: 2, Limit: 1, Payloads: true})[0].Data,
		[]byte("kept"))
	if _, err := w.s.Load(w.Context(), c.Run, store.Range{From: 3, Payloads: true}); err == nil {
		w.Fatalf("a payload that no entry named is still there")
	}
}

func spillGone(w *world) {
	w.join(0)
	c, gone := w.start(""), w.number()
	c.Entries = append(c.Entries, step(c.Run, 2).Entries...)
	c.Entries[1].Data, c.Entries[1].Spill = nil, gone
	w.written(c)
	w.rows(c.Run, 2)
	got, err := w.s.Load(w.Context(), c.Run, store.Range{Payloads: true})
	if corrupt := new(journal.CorruptError); !errors.As(err, &corrupt) || corrupt.Run != c.Run ||
		corrupt.Seq != 2 {
		w.Fatalf("Load = %v, want a CorruptError of entry 2", err)
	}
	w.same("what comes before", got, c.Entries[:1])
}

func spillFenced(w *world) {
	w.join(0)
	old := w.engine
	w.is(w.s.Spill(w.Context(), 0, w.number(), nil), store.ErrFenced)
	w.die(10)
	w.is(w.s.Spill(w.Context(), old, w.number(), nil), store.ErrFenced)
}

// along returns a message with its payload in the group.
func (w *world) along(id string, data []byte) journal.Entry {
	m := signal("large", id)
	m.Data, m.Spill = data, w.number()
	return m
}

// spec: R-14
func spillAlong(w *world) {
	w.join(0)
	c := w.start("")
	c.Entries[0].Spill, c.Entries[0].Data = w.number(), []byte("large input")
	message := w.along("1", []byte("large message"))
	c.Posts = []store.Post{toRun(c.Run, message)}
	lost := waiting("order-1", 90, w.along("2", []byte{}))
	w.commit(c, store.Change{Posts: []store.Post{lost}})
	w.same("entry", w.load(c.Run, store.Range{Payloads: true}), c.Entries)
	w.same("message", w.inbox(c.Run), []journal.Entry{received(message, c.Run, 1)})
	w.same("unrouted message", w.inbox(0)[0].Data, []byte{})
	bare := received(message, c.Run, 1)
	bare.Data = nil
	w.same("message without", w.load(c.Run, store.Range{Inbox: true}), []journal.Entry{bare})
	c.Entries[0].Data = nil
	w.same("entry without", w.load(c.Run, store.Range{}), c.Entries)
	w.die(10)
	runs := w.take(10, 1).Runs
	w.same("claimed entry", runs[0].Entries, c.Entries)
	w.same("claimed message", runs[0].Inbox, []journal.Entry{bare})
}

func spillRolledBack(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	large := step(run, 2)
	large.Entries[0].Spill = w.number()
	message := w.along("1", []byte("large"))
	large.Posts = []store.Post{toRun(run, message)}
	w.refused(w.group(large, step(w.number(), 1)))
	w.payload(run, 2, large.Entries[0].Spill, "")
	w.payload(run, 3, message.Spill, "")
}

func spillMessages(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	waits, taken, lost := w.along("1", []byte("waits")), w.along("2", []byte("taken")),
		w.along("3", []byte("unrouted"))
	w.posted(1, toRun(run, waits), toRun(run, taken), waiting("order-1", 90, lost))
	bare := taken
	bare.Data = nil
	w.commit(taking(run, 2, 2, bare))
	w.die(10)
	w.same("message", w.inbox(run)[0].Data, []byte("waits"))
	w.same("unrouted message", w.inbox(0)[0].Data, []byte("unrouted"))
	w.same("entry", w.load(run, store.Range{From: 2, Payloads: true})[0].Data, []byte("taken"))
}

package storetest

import (
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// reserveChecks are about processes that have no engine.
func reserveChecks() []check {
	return []check{
		{"reserve/a client gets an engine ID that nobody else gets", reserveIDs},
		{"reserve/a reservation records nothing and takes nothing over", reserveRecordsNothing},
		{"reserve/a client may start and post with numbers of its own", reserveStarts},
		{"reserve/a client owns nothing", reserveOwnsNothing},
	}
}

func (w *world) reserveID() journal.EngineID {
	w.Helper()
	return w.claim(store.ReserveID{}).Engine
}

func reserveIDs(w *world) {
	seen := map[journal.EngineID]bool{}
	for i := range 4 {
		w.join(i)
		for _, id := range []journal.EngineID{w.engine, w.reserveID(), w.reserveID()} {
			if id <= 0 || seen[id] {
				w.Fatalf("engine ID %d after %v", id, seen)
			}
			seen[id] = true
		}
		w.reopen()
		if id := w.reserveID(); seen[id] {
			w.Fatalf("engine ID %d after %v", id, seen)
		} else {
			seen[id] = true
		}
	}
}

func reserveRecordsNothing(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	client := w.reserveID()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	if len(info.Engines) != 1 || info.Engines[0].ID != w.engine {
		w.Fatalf("the engines are %v, want %d alone", info.Engines, w.engine)
	}
	w.same("head", w.head(head.Number), head)
	w.commit(step(head.Number, 2))
	g := w.group(step(head.Number, 3))
	g.Engine = client
	w.is(w.try(g), store.ErrFenced)
	_, err = w.s.Claim(w.Context(), store.TakeDue{
		Engine:    client,
		Workflows: []string{"w"},
		Max:       1,
		Now:       at(0),
	})
	w.is(err, store.ErrFenced)
}

func reserveStarts(w *world) {
	w.join(0)
	client := w.reserveID()
	n, err := journal.MakeNumber(client, 1)
	w.ok(err)
	c := w.free("order-1", 10)
	c.Run, c.Head.Number, c.Head.Chain, c.Entries[0].Run = n, n, n, n
	c.Head.ID = journal.MakeRunID(w.database, n)
	c.Posts = []store.Post{toID("order-1", signal("x", "1"))}
	g := &store.Group{Now: at(5), Changes: []store.Change{c}}
	w.ok(w.try(g))
	w.verdict(g.Changes[0], store.Written)
	got := w.take(5, 1)
	w.same("claimed", numbers(got), []journal.Number{n})
	w.same("inbox", labels(got.Runs[0].Inbox), []string{"1:x"})
}

func reserveOwnsNothing(w *world) {
	w.join(0)
	c := w.start("")
	w.ok(w.try(&store.Group{Changes: []store.Change{c}}))
	w.same("owner", w.head(c.Run).Owner, journal.EngineID(0))
}

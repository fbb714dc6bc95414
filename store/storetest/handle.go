package storetest

import (
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// handleChecks are about a store as a whole.
func handleChecks() []check {
	return []check{
		{"handle/Info tells what the store is and who uses it", handleInfo},
		{"handle/Close is final and may be repeated", handleClosed},
		{"handle/many may use it at a time", handleShared},
	}
}

func handleInfo(w *world) {
	before, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("runs", before.Runs, int64(0))
	w.same("engines", len(before.Engines), 0)
	if before.Driver == "" || before.Schema < 1 || before.Durability == "" || before.Bytes < 0 {
		w.Errorf("Info says too little: %+v", before)
	}
	if len(before.Database) != 8 {
		w.Errorf("the database's identity is %q, want 8 characters", before.Database)
	}
	w.join(3)
	w.written(w.start(""), w.start(""), w.free("", 0))
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("runs", info.Runs, int64(3))
	w.same("engines", len(info.Engines), 1)
	e := info.Engines[0]
	w.same("since", moment(e.Since), moment(at(3)))
	e.Since = at(0).Truncate(0)
	leases := w.db.Lapse != nil
	if leases == info.Now.IsZero() || e.Until.After(info.Now) != leases ||
		e.Seen.IsZero() || leases && e.Seen.After(info.Now) {
		w.Errorf("by the clock of leases it is %v, the engine was seen at %v, and its lease "+
			"passes at %v", info.Now, e.Seen, e.Until)
	}
	if !leases {
		w.same("seen", moment(e.Seen), moment(at(3)))
	}
	e.Seen, e.Until = time.Time{}, time.Time{}
	w.same("engine", e, store.Engine{
		ID: w.engine, Host: "host", PID: 42, Build: "b1", Slots: 7, Runs: 2, Since: at(0).
			Truncate(0), Workflows: []string{"v", "w"},
	})
	w.reopen()
	info, err = w.s.Info(w.Context())
	w.ok(err)
	w.same("identity", info.Database, before.Database)
}

func handleClosed(w *world) {
	w.join(0)
	head := w.written(w.start(""))[0]
	w.ok(w.s.Close())
	w.ok(w.s.Close())
	w.is(w.try(w.group(step(head.Number, 2))), store.ErrClosed)
	_, err := w.s.Claim(w.Context(), store.Join{Now: at(1)})
	w.is(err, store.ErrClosed)
	_, err = w.s.Load(w.Context(), head.Number, store.Range{})
	w.is(err, store.ErrClosed)
	w.is(w.s.Spill(w.Context(), w.engine, w.number(), nil), store.ErrClosed)
	_, _, err = w.s.Find(w.Context(), store.Filter{})
	w.is(err, store.ErrClosed)
	_, err = w.s.Info(w.Context())
	w.is(err, store.ErrClosed)
	_, err = w.s.Purge(w.Context(), store.Purge{Now: at(1)})
	w.is(err, store.ErrClosed)
}

func handleShared(w *world) {
	const writers, steps = 4, 20
	w.join(0)
	var runs []store.Change
	for range writers {
		runs = append(runs, w.start(""))
	}
	w.written(runs...)
	stop := make(chan struct{})
	var writing, reading sync.WaitGroup
	for range 2 {
		reading.Go(func() { w.readUntil(stop, runs[0].Run) })
	}
	for _, c := range runs {
		writing.Go(func() {
			for i := range steps {
				if err := w.try(w.group(step(c.Run, int64(i+2)))); err != nil {
					w.Errorf("Commit: %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	for _, c := range runs {
		w.rows(c.Run, steps+1)
	}
}

// readUntil reads a journal in all ways until stop is closed, and demands that it has no
// gaps.
func (w *world) readUntil(stop chan struct{}, run journal.Number) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		entries, err := w.s.Load(w.Context(), run, store.Range{})
		for i, e := range entries {
			if e.Seq != int64(i+1) {
				w.Errorf("entry %d comes where %d was to come", e.Seq, i+1)
			}
		}
		if _, _, ferr := w.s.Find(w.Context(), store.Filter{}); err == nil {
			err = ferr
		}
		if _, ierr := w.s.Info(w.Context()); err == nil {
			err = ierr
		}
		if err != nil {
			w.Errorf("while others write: %v", err)
			return
		}
	}
}

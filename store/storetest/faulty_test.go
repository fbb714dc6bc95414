package storetest

import (
	"errors"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// faultyWorld returns a joined world whose store fails as planned.
func faultyWorld(t *testing.T, plans ...Plan) (*world, *Faulty) {
	below := memory.New()
	f := NewFaulty(below, plans...)
	w := &world{T: t, db: Database{Open: func() (store.Store, error) { return f, nil }}}
	w.open()
	w.join(0)
	return w, f
}

func TestFaultyCommit(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  error
		done  bool
		dead  bool
	}{
		{FailBefore, ErrInjected, false, false},
		{FailAfter, ErrInjected, true, false},
		{CrashBefore, store.ErrClosed, false, true},
		{CrashAfter, store.ErrClosed, true, true},
	} {
		plan := Plan{Method: Commit, Call: 2, Fault: c.fault}
		w, f := faultyWorld(t, plan)
		below := f.below
		first, second := w.start(""), w.start("")
		w.written(first)
		w.is(w.try(w.group(second)), c.want)
		w.same("injected", f.Injected(), []Plan{plan})
		w.same("commits", f.Calls(Commit), 2)

		got, err := below.Load(t.Context(), second.Run, store.Range{})
		if err != nil || (len(got) == 1) != c.done {
			t.Errorf("fault %d: below are %d entries, %v", c.fault, len(got), err)
		}
		_, err = w.s.Load(t.Context(), first.Run, store.Range{})
		if dead := errors.Is(err, store.ErrClosed); dead != c.dead {
			t.Errorf("fault %d: afterwards Load gives %v", c.fault, err)
		}
		if c.dead {
			continue
		}
		g := w.group(second)
		g.Again = true
		w.ok(w.try(g))
		w.rows(second.Run, 1)
	}
}

func TestFaultyCountsAllMethods(t *testing.T) {
	plan := Plan{Call: 4, Fault: FailAfter} // after Info and two claims
	w, f := faultyWorld(t, plan)
	w.take(0, 1)
	heads, _, err := w.s.Find(t.Context(), store.Filter{})
	w.is(err, ErrInjected)
	w.same("heads", len(heads), 0)
	w.same("injected", f.Injected(), []Plan{plan})
	w.same("calls", f.Calls(Any), 4)
	w.find(store.Filter{})
}

func TestFaultyPurge(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  error
		left  int
	}{
		{FailBefore, ErrInjected, 1}, {FailAfter, ErrInjected, 0},
		{CrashBefore, store.ErrClosed, 1}, {CrashAfter, store.ErrClosed, 0},
	} {
		plan := Plan{Method: Purge, Call: 2, Fault: c.fault}
		w, f := faultyWorld(t, plan)
		w.same("purged", w.purge(100, 0), store.Purged{})
		w.over("w", journal.Completed, 10, 0)
		got, err := w.s.Purge(t.Context(), store.Purge{Engine: w.engine, Now: at(100)})
		w.is(err, c.want)
		w.same("purged", got, store.Purged{})
		w.same("injected", f.Injected(), []Plan{plan})
		heads, _, err := f.below.Find(t.Context(), store.Filter{})
		w.ok(err)
		w.same("left", len(heads), c.left)
	}
}

func TestErrInjectedIsNoneOfTheStores(t *testing.T) {
	for _, err := range []error{
		store.ErrClosed, store.ErrFenced, store.ErrLocked, store.ErrNotFound, store.ErrNewer,
		store.ErrForeign,
	} {
		if errors.Is(ErrInjected, err) {
			t.Errorf("it is %v", err)
		}
	}
	if data := new(store.DataError); errors.As(ErrInjected, &data) {
		t.Errorf("it is a DataError")
	}
}

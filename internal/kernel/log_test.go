package kernel

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// aRun returns a run of a kernel that commits nothing: the test is its pipeline.
func aRun(t *testing.T) *run {
	t.Helper()
	db := memory.New()
	t.Cleanup(func() { db.Close() })
	k := newKernel(db, Config{MaxPending: 1 << 20}, newShared())
	return k.newRun(journal.Head{Number: 1, Status: journal.Running}, nil, nil)
}

// group makes the run record an entry, and takes the sealed entries.
func (r *run) group() []store.Change {
	r.mu.Lock()
	r.append(journal.Entry{Kind: journal.StatusChanged})
	r.seal()
	r.mu.Unlock()
	rows, bytes := groupRows, groupBytes
	cs, _ := r.take(nil, &rows, &bytes, true)
	return cs
}

// A group forms while runs hear of the group before. A transaction must not begin before both are
// durable: otherwise its result would be in the journal without the entries before it.
//
// spec: B-4
func TestStepTxKeepsEntriesBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := aRun(t)
		one, two := r.group(), r.group()
		a := &attempt{op: &operation{run: r}, ctx: t.Context()}
		a.op.attempt = a
		began := make(chan bool, 1)
		go func() { began <- a.reserve() }()
		for _, group := range [][]store.Change{one, two} {
			synctest.Wait()
			if len(began) > 0 {
				t.Fatalf(
					"the transaction begins while entry %d is not durable", group[0].Entries[0].Seq,
				)
			}
			r.committed(group)
		}
		if !<-began || !r.isDurable(2) {
			t.Errorf("the transaction does not begin, and %d entries are on their way", r.onWay)
		}
	})
}

// Entries on their way behind refused entries are refused as well. They are no further reason to
// give up: the run records once that it was parked.
//
// spec: B-4
func TestARefusalTakesWhatFollows(t *testing.T) {
	r := aRun(t)
	r.committed(r.group())
	two, three := r.group(), r.group()
	why := &store.DataError{Err: errors.New("no")}
	r.refused(two, why)
	r.refused(three, why)
	rows, bytes := groupRows, groupBytes
	cs, _ := r.take(nil, &rows, &bytes, true)
	if len(cs) != 1 || len(cs[0].Entries) != 1 || cs[0].Entries[0].Kind != journal.RunSuspended ||
		cs[0].Entries[0].Seq != 2 {
		t.Fatalf("the run records %+v, want that it was parked, as entry 2", cs)
	}
}

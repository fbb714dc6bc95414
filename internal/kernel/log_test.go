package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			r.committed(group, false)
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
	r.committed(r.group(), false)
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

// A slowStore commits one group for each value that it is sent.
type slowStore struct {
	store.Store
	next chan struct{}
}

func (s *slowStore) Commit(ctx context.Context, g *store.Group) error {
	<-s.next
	return s.Store.Commit(ctx, g)
}

// Memory that is not durable is bounded: above the bound starts wait, and no step begins.
//
// spec: L-7
func TestWhatIsNotDurableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starts, size, bound = 50, 10_000, 100_000
		s := &slowStore{memory.New(), make(chan struct{})}
		e := New(s, Config{
			MaxPending: bound, MaxPayload: 1 << 20, SpillOver: 1 << 20, Capacity: 2 * starts,
			MaxLoaded: 1 << 30, MaxCrashes: 20, Sweep: -1,
		})
		var begun atomic.Int64
		w := &Workflow{Name: "w", Body: func(
			ctx context.Context, _ []byte,
		) ([]byte, *journal.Failure) {
			step := Step{Name: "s"}
			step.Body = func(context.Context) ([]byte, *journal.Failure) {
				begun.Add(1)
				return nil, nil
			}
			out, _ := Do(ctx, step)
			return nil, out.Failure
		}}
		if err := e.Register(w); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		for i := range starts {
			input := make([]byte, size*min(i, 1)) // the first one is small
			go func() {
				if _, err := e.Start(ctx, Start{
					Workflow: "w", ID: fmt.Sprint(i), Input: input,
				}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		k, _ := e.current()
		if n := k.gate.bytes.Load(); n < bound || n > bound+2*size {
			t.Errorf("%d bytes wait to be durable, the bound is %d", n, bound)
		}
		s.next <- struct{}{} // the first run is durable, and the other runs that have begun are not
		synctest.Wait()
		if n := begun.Load(); n > 0 || k.gate.open() {
			t.Errorf("%d steps begin while %d bytes wait to be durable", n, k.gate.bytes.Load())
		}
		close(s.next)
		time.Sleep(time.Second)
		if n := begun.Load(); n != starts || k.gate.bytes.Load() != 0 {
			t.Errorf("in the end %d steps have begun, and %d bytes wait", n, k.gate.bytes.Load())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What the steps of a run put out neither ends a row of panics nor acquits a run on trial.
//
// spec: B-11, B-24
func TestOutputIsNoProgress(t *testing.T) {
	entries := []journal.Entry{
		{Seq: 1, Kind: journal.RunStarted, Status: journal.Running},
		{Seq: 2, Kind: journal.RunRetrying, Detail: &journal.Detail{Failures: 3}},
		{Seq: 3, Kind: journal.RunClaimed, Detail: &journal.Detail{Attempt: 4}},
	}
	for _, kind := range []journal.Kind{journal.StepOutput, journal.StepLogged} {
		entries = append(entries, journal.Entry{
			Seq: int64(len(entries) + 1), Kind: kind, Op: journal.Op{Name: "s", Occ: 1},
			Detail: &journal.Detail{},
		})
	}
	if n := newMemo(entries, "").failures; n != 3 {
		t.Errorf("%d panics in a row are known, want 3", n)
	}
	c := &Config{MaxCrashes: 20}
	if n, suspect := c.tried(&store.Run{Entries: entries}); n != 4 || !suspect {
		t.Errorf("it was tried %d times, a suspect: %v", n, suspect)
	}
	l := log{}
	l.stableTo(entries)
	if l.lastDurable() != 5 || l.durableProgress() != 3 {
		t.Errorf("durable is %d, and the progress %d", l.lastDurable(), l.durableProgress())
	}
	on := trial{state: onTrial, record: 3}
	if on.end(false, l.durableProgress()) {
		t.Error("output ends a trial")
	}
}

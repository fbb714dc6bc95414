package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Fault is a failure of a call of a store.
type Fault int

// The faults.
const (
	FailBefore Fault = iota + 1 // the call does nothing and returns ErrInjected
	FailAfter                   // the call is made and returns ErrInjected: its outcome is unknown
	// the process dies before the call: it and all later calls return ErrClosed
	CrashBefore
	CrashAfter // the process dies after the call, before the call returns
)

// ErrInjected is the error of a call that a Faulty made fail. It matches no error of package
// store.
var ErrInjected = errors.New("storetest: an injected failure")

// Method is the name of a method of a store.
type Method string

// The methods.
const (
	Any      Method = ""
	Commit   Method = "Commit"
	Claim    Method = "Claim"
	Load     Method = "Load"
	Spill    Method = "Spill"
	Find     Method = "Find"
	Purge    Method = "Purge"
	Info     Method = "Info"
	Slots    Method = "Slots"
	CommitTx Method = "CommitTx" // the Commit of a [store.Transaction]
)

// A Plan chooses a call of a method, and its fault.
type Plan struct {
	Method Method // Any counts the calls of all methods together
	Call   int    // counted from 1, among the calls of the method
	Fault  Fault
}

// Faulty is a store in which calls fail as planned. It is deterministic: with the same calls
// in the same order the same call fails. Close never fails by a plan, and closes the store
// below even after a crash.
type Faulty struct {
	below store.Store
	plans []Plan

	mu       sync.Mutex
	calls    map[Method]int
	injected []Plan
	crashed  bool
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty returns a store over another store, which fails as planned.
func NewFaulty(below store.Store, plans ...Plan) *Faulty {
	return &Faulty{below: below, plans: plans, calls: map[Method]int{}}
}

// Calls returns the number of calls of a method so far, including failed calls.
func (f *Faulty) Calls(m Method) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[m]
}

// Injected returns the plans that have taken effect, in that order. A test checks it, so that
// it does not pass because no fault occurred.
func (f *Faulty) Injected() []Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Plan(nil), f.injected...)
}

// call makes one call, or applies the fault that a plan has for it.
func (f *Faulty) call(m Method, do func() error) error {
	fault := f.count(m)
	switch fault {
	case FailBefore:
		return ErrInjected
	case CrashBefore:
		return store.ErrClosed
	}
	err := do()
	switch fault {
	case FailAfter:
		return ErrInjected
	case CrashAfter:
		return store.ErrClosed
	}
	return err
}

func (f *Faulty) count(m Method) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[m]++
	f.calls[Any]++
	if f.crashed {
		return CrashBefore
	}
	for _, p := range f.plans {
		if (p.Method == m || p.Method == Any) && p.Call == f.calls[p.Method] {
			f.injected = append(f.injected, p)
			f.crashed = p.Fault == CrashBefore || p.Fault == CrashAfter
			return p.Fault
		}
	}
	return 0
}

// Commit is [store.Store.Commit].
func (f *Faulty) Commit(ctx context.Context, g *store.Group) error {
	return f.call(Commit, func() error { return f.below.Commit(ctx, g) })
}

// Claim is [store.Store.Claim]. A failed call returns nothing.
func (f *Faulty) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return answer(f, Claim, func() (store.Claimed, error) { return f.below.Claim(ctx, c) })
}

// Load is [store.Store.Load].
func (f *Faulty) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	return answer(f, Load, func() ([]journal.Entry, error) { return f.below.Load(ctx, run, r) })
}

// Spill is [store.Store.Spill].
func (f *Faulty) Spill(ctx context.Context, engine journal.EngineID, id journal.Number,
	data []byte) error {
	return f.call(Spill, func() error { return f.below.Spill(ctx, engine, id, data) })
}

// Find is [store.Store.Find].
func (f *Faulty) Find(ctx context.Context, filter store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	type page struct {
		heads []journal.Head
		next  journal.Cursor
	}
	p, err := answer(f, Find, func() (page, error) {
		heads, next, err := f.below.Find(ctx, filter)
		return page{heads, next}, err
	})
	return p.heads, p.next, err
}

// Purge is [store.Store.Purge]. A failed call returns nothing.
func (f *Faulty) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return answer(f, Purge, func() (store.Purged, error) { return f.below.Purge(ctx, p) })
}

// Info is [store.Store.Info].
func (f *Faulty) Info(ctx context.Context) (store.Info, error) {
	return answer(f, Info, func() (store.Info, error) { return f.below.Info(ctx) })
}

// Slots is [store.SlotReader.Slots]. A store below that is no SlotReader shows none.
func (f *Faulty) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	r := store.AbilitiesOf(f.below).SlotReader
	if r == nil {
		return nil, nil
	}
	return answer(f, Slots, func() ([]store.Slot, error) { return r.Slots(ctx, q) })
}

// Close closes the store below.
func (f *Faulty) Close() error { return f.below.Close() }

// answer makes a call that returns a value. A call that was made to fail returns the zero
// value. A call that failed by itself returns its own value.
func answer[A any](f *Faulty, m Method, do func() (A, error)) (A, error) {
	var got, nothing A
	done := false
	var own error
	err := f.call(m, func() error {
		got, own = do()
		done = true
		return own
	})
	if !done || err != own {
		return nothing, err
	}
	return got, err
}

// In is [store.Transactor.In], if the store below is a Transactor.
func (f *Faulty) In(tx any) (store.Transaction, error) {
	below := store.AbilitiesOf(f.below).Transactor
	if below == nil {
		return nil, &store.TransactionError{
			Driver: "this store", Want: "no transaction", Got: "one",
		}
	}
	part, err := below.In(tx)
	if err != nil {
		return nil, err
	}
	return faultyTx{part, f}, nil
}

type faultyTx struct {
	store.Transaction
	f *Faulty
}

// Commit is [store.Transaction].Commit.
func (j faultyTx) Commit(ctx context.Context, g *store.Group) error {
	return j.f.call(CommitTx, func() error { return j.Transaction.Commit(ctx, g) })
}

package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Fault is something that goes wrong with a call of a store.
type Fault int

// The faults.
const (
	FailBefore Fault = iota + 1 // the call does nothing and gives ErrInjected
	FailAfter                   // the call is done and gives ErrInjected: its outcome is unknown
	// the process dies before the call: it and all that follow give ErrClosed
	CrashBefore
	CrashAfter // the process dies after the call was done, before it could answer
)

// ErrInjected is the error of a call that a Faulty made fail. It is none of
// package store's.
var ErrInjected = errors.New("storetest: an injected failure")

// Method names a method of a store.
type Method string

// The methods.
const (
	Any    Method = ""
	Commit Method = "Commit"
	Claim  Method = "Claim"
	Load   Method = "Load"
	Spill  Method = "Spill"
	Find   Method = "Find"
	Purge  Method = "Purge"
	Info   Method = "Info"
	Join   Method = "Join" // the Commit of a [store.Transaction]
)

// A Plan says which call of which method meets a fault.
type Plan struct {
	Method Method // Any counts all of them together
	Call   int    // counted from 1, among the calls of the method
	Fault  Fault
}

// Faulty is a store in which calls go wrong as planned. It is deterministic:
// with the same calls in the same order the same one fails. Close is never
// injected, and closes the store below even after a crash.
type Faulty struct {
	below store.Store
	plans []Plan

	mu       sync.Mutex
	calls    map[Method]int
	injected []Plan
	crashed  bool
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty gives a store over another one that fails as the plans say.
func NewFaulty(below store.Store, plans ...Plan) *Faulty {
	return &Faulty{below: below, plans: plans, calls: map[Method]int{}}
}

// Calls tells how many calls of a method there were, those that failed included.
func (f *Faulty) Calls(m Method) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[m]
}

// Injected tells which plans came true, in that order. A test demands it, so
// that it does not pass because nothing went wrong.
func (f *Faulty) Injected() []Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Plan(nil), f.injected...)
}

// call makes one call, or what a plan makes of it.
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

// Claim is [store.Store.Claim]. One that fails gives nothing.
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
func (f *Faulty) Find(ctx context.Context, filter store.Filter) ([]journal.Head, journal.Number,
	error) {
	type page struct {
		heads []journal.Head
		next  journal.Number
	}
	p, err := answer(f, Find, func() (page, error) {
		heads, next, err := f.below.Find(ctx, filter)
		return page{heads, next}, err
	})
	return p.heads, p.next, err
}

// Purge is [store.Store.Purge]. One that fails gives nothing.
func (f *Faulty) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return answer(f, Purge, func() (store.Purged, error) { return f.below.Purge(ctx, p) })
}

// Info is [store.Store.Info].
func (f *Faulty) Info(ctx context.Context) (store.Info, error) {
	return answer(f, Info, func() (store.Info, error) { return f.below.Info(ctx) })
}

// Close closes the store below.
func (f *Faulty) Close() error { return f.below.Close() }

// answer makes a call that gives something. A call that was made to fail gives
// nothing; one that failed by itself gives what it gave.
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

// Join is [store.Joiner.Join], where the store below is one.
func (f *Faulty) Join(tx any) (store.Transaction, error) {
	below, ok := f.below.(store.Joiner)
	if !ok {
		return nil, &store.TransactionError{
			Driver: "this store", Want: "no transaction", Got: "one",
		}
	}
	joined, err := below.Join(tx)
	if err != nil {
		return nil, err
	}
	return joinedFaulty{joined, f}, nil
}

type joinedFaulty struct {
	store.Transaction
	f *Faulty
}

// Commit is [store.Transaction].Commit.
func (j joinedFaulty) Commit(ctx context.Context, g *store.Group) error {
	return j.f.call(Join, func() error { return j.Transaction.Commit(ctx, g) })
}

// Package storetest is the contract of package store as tests. Each driver runs
// [Run]; [Faulty] makes a store fail where a test wants it to; [Differ] compares
// two stores under the same random operations.
package storetest

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Database is what a driver hands to the suite: one database, empty at first,
// that can be opened again and again. Where the store is for one engine, the suite
// closes each handle before it opens the next; closing without leaving is how it
// plays the death of a process. Where it is for many, the lease lapses too.
type Database struct {
	// Open gives a handle on the database, beside those that are open.
	Open func() (store.Store, error)
	// Lapse makes the lease of an engine pass now, if there is such an engine, by any
	// means. Leases must be longer than a check lasts. It is nil where the store is
	// for one engine.
	Lapse func(engine journal.EngineID) error
	// Corrupt makes a stored entry unreadable, behind the driver's back. It is
	// nil where nobody could.
	Corrupt func(run journal.Number, seq int64) error
	// Lose removes a stored entry, behind the driver's back. It is nil where nobody
	// could.
	Lose func(run journal.Number, seq int64) error
	// Written calls f and tells how many rows that has written. It is nil where nobody
	// can tell.
	Written func(f func()) (int64, error)
}

// T is the part of [testing.T] that a check uses. It is this narrow so that the
// suite can be tried on drivers that must fail it.
type T interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// A check is one row of the contract.
type check struct {
	name string // a sentence
	run  func(w *world)
}

// Run holds a driver against the contract, each row on a database of its own.
func Run(t *testing.T, fresh func(t *testing.T) Database) { hold(t, checks(), fresh) }

// RunCommits holds what a driver commits against the rows of the contract that are
// about that.
func RunCommits(t *testing.T, fresh func(t *testing.T) Database) { hold(t, commits(), fresh) }

func hold(t *testing.T, checks []check, fresh func(t *testing.T) Database) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.try(t, fresh(t))
		})
	}
}

func checks() []check {
	return slices.Concat(commits(), againChecks(),
		joinChecks(), crashChecks(), visitChecks(), takeChecks(), unreadableChecks(),
		againPostChecks(), purgeChecks(), lineChecks(), findChecks(), handleChecks(),
		leaseChecks(), takeOverChecks(), amongChecks())
}

func commits() []check {
	return slices.Concat(startChecks(), commitChecks(), entryChecks(), payloadChecks(),
		postChecks(), inboxChecks(),
		mailChecks(), unloadChecks(), unroutedChecks(), elseChecks(), successorChecks(),
		owedChecks(), attributeChecks())
}

// try runs a check on an empty database. A check may panic where a driver gives
// less than it must; that fails this check and no other.
func (c check) try(t T, db Database) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the check panicked: %v\n%s", p, debug.Stack())
		}
	}()
	w := &world{T: t, db: db}
	w.open()
	defer func() {
		for _, s := range append(w.besides, w.s) {
			s.Close()
		}
	}()
	c.run(w)
}

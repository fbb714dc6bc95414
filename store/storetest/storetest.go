// Package storetest is the contract of package store as tests. Each driver runs [Run].
// [Faulty] makes a store fail at the calls that a test chooses. [Differ] compares two stores
// under the same random operations.
package storetest

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Database is one database that a driver passes to the suite. It is empty at first and can
// be opened again and again. If the store is for one engine, the suite closes each handle
// before it opens the next: closing without leaving simulates the death of a process. If the
// store is for many engines, the suite also makes the lease pass.
type Database struct {
	// Open returns a new handle on the database. Other handles may be open.
	Open func() (store.Store, error)
	// Lapse makes the lease of an engine pass now, by any means, if there is such an engine.
	// Leases must be longer than a check lasts. Lapse is nil if the store is for one engine.
	Lapse func(engine journal.EngineID) error
	// Corrupt makes a stored entry unreadable, without the driver. It is nil if that is
	// impossible.
	Corrupt func(run journal.Number, seq int64) error
	// Lose removes a stored entry, without the driver. It is nil if that is impossible.
	Lose func(run journal.Number, seq int64) error
	// Pass makes the clock for the tokens of limits be later by a span, or earlier: it moves the
	// times of the tokens that are stored. It is nil if that clock is Group.Now.
	Pass func(by time.Duration) error
	// Written calls f and returns the number of rows that f has written. It is nil if rows
	// cannot be counted.
	Written func(f func()) (int64, error)
}

// T is the part of [testing.T] that a check uses. It is this narrow so that the suite can be
// tested with drivers that must fail.
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

// Run tests a driver against the contract, each row on a database of its own.
func Run(t *testing.T, fresh func(t *testing.T) Database) { hold(t, checks(), fresh) }

// RunLight is [Run] without the rows that move tens of megabytes. It is for a second way in which
// a driver sends the same statements.
func RunLight(t *testing.T, fresh func(t *testing.T) Database) {
	hold(t, slices.DeleteFunc(checks(), check.isLarge), fresh)
}

// RunShared is [RunLight] for up to four further ways in which a driver sends its statements: each
// has a quarter of the rows, as the seed says, and no row is tested in two of them.
func RunShared(t *testing.T, seed uint64, ways map[string]func(t *testing.T) Database) {
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := slices.Sorted(maps.Keys(ways))
	share := map[string][]check{}
	for _, c := range slices.DeleteFunc(checks(), check.isLarge) {
		if at := random.IntN(4); at < len(names) {
			share[names[at]] = append(share[names[at]], c)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { hold(t, share[name], ways[name]) })
	}
}

// isLarge reports whether the check moves tens of megabytes.
func (c check) isLarge() bool {
	return strings.HasPrefix(c.name, "payload/a payload of 64 MB") ||
		strings.HasPrefix(c.name, "take/about 32 MB")
}

// RunCommits tests the commits of a driver against the rows of the contract that are about
// commits.
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
		joinChecks(), crashChecks(), reserveChecks(), takeChecks(), unreadableChecks(),
		againPostChecks(), purgeChecks(), lineChecks(), findChecks(), listChecks(), countChecks(),
		handleChecks(),
		leaseChecks(), takeOverChecks(), amongChecks())
}

func commits() []check {
	return slices.Concat(startChecks(), commitChecks(), entryChecks(), payloadChecks(),
		postChecks(), inboxChecks(),
		mailChecks(), unloadChecks(), unroutedChecks(), elseChecks(), successorChecks(),
		outboxChecks(), attributeChecks(), limitChecks(), historyChecks(),
		settingChecks())
}

// try runs a check on an empty database. A check may panic if a driver returns less than it
// must. That fails only this check.
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

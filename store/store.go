// Package store defines the contract between the engine and a database.
//
// A store has one method that writes the progress of runs, [Store.Commit]: many runs in one
// transaction, all or nothing. Only the owner of a run writes it. So a commit has few things to
// check: whether the engine still has the right to write, whether the workflow ID of a new run
// is free, which inbox a message goes to, and whether a run that is about to leave memory has
// got a message. The conformance suite in package storetest is the contract in full; the
// comments here are its summary.
package store

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/perdure/perdure/journal"
)

// Store keeps runs, their journals and their inboxes. Its methods may be called from many
// goroutines at a time. All times come from the caller; a driver that cannot keep a time
// exactly keeps the nearest one that it can.
//
// An error that is not one of this package means that the store does not answer now. The caller
// tries again. A [journal.Error] is final too: the store, or a server that has it, does not let the
// caller in, or not do that. Nothing of what was sent with it was written.
type Store interface {
	// Commit writes a group in one transaction. If it returns nil, the whole group is durable, and
	// every change and post has its verdict. After a DataError, ErrFenced or ErrHeld, nothing of
	// the group was written. The same holds after ErrClosed for a group that was not on its way
	// when the store was closed. After any other error the outcome is unknown: nothing of the group
	// may be reported before the same group, with Again set, was committed or refused. By then the
	// store has abandoned the connection that failed.
	//
	// The context carries values only: Commit does not end when the context does.
	Commit(ctx context.Context, g *Group) error

	// Claim carries out a request: an engine joins, renews its lease, gets runs to execute or
	// entries of the outbox, or leaves.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Load returns entries of one journal in order, or messages of one inbox. If the range has
	// none, it returns none and no error. If an entry is not readable, or is missing before
	// one that is there, it returns the entries before it and a CorruptError.
	Load(ctx context.Context, run journal.Number, r Range) ([]journal.Entry, error)

	// Spill makes one large payload durable, under a number that its engine made. It does so
	// in a transaction of its own, before the group that names the number. A payload that no
	// entry and no message names is deleted when an engine joins.
	Spill(ctx context.Context, engine journal.EngineID, id journal.Number, data []byte) error

	// Find returns the heads that match the filter, newest first, and the cursor of the next
	// page; a zero cursor means that there is none. The order is that of [journal.Cursor]: runs of
	// all engines are in the order in which they were created.
	//
	// A page looks at a bounded number of runs. So it may have fewer heads than its limit, or none,
	// and yet have a cursor: only a zero cursor means the end. This does not apply to Run, Runs and
	// Newest with workflow IDs, whose page is full or the last one.
	Find(ctx context.Context, f Filter) ([]journal.Head, journal.Cursor, error)

	// Purge removes expired runs and messages, a bounded number of rows at a time.
	Purge(ctx context.Context, p Purge) (Purged, error)

	// Info returns facts about the store and its engines.
	Info(ctx context.Context) (Info, error)

	// Close ends the use of the store. An engine that did not leave counts as expired from
	// then on: the next engine that joins takes over its runs.
	Close() error
}

// A Watcher is a store that other processes may write while an engine has it.
type Watcher interface {
	// Watch calls f once when it has begun to watch, and then soon after another process has
	// written something that an engine or a waiting caller may want to know: a run is due, a run of
	// another engine got a message, a run has ended, an engine has left or was taken over. It may
	// call f without a reason. If it misses a write, it calls f soon afterwards. It returns when
	// ctx ends.
	Watch(ctx context.Context, f func())
}

// Parallel is a store that is faster with several commits of one engine at a time.
type Parallel interface {
	// Lanes returns the number of concurrent commits up to which the store gets faster.
	Lanes() int
}

// An Engine describes an engine to others.
type Engine struct {
	ID    journal.EngineID
	Host  string
	PID   int
	Build string
	Since time.Time
	Slots int // how many runs it executes at a time; 0: unknown
	// Workflows are the names of those that it has; nil: unknown.
	Workflows []string

	// Set by Info.
	Runs    int64     // open runs that it owns
	Expired bool      // its lease has passed without it leaving: its runs wait for another engine
	Until   time.Time // when its lease passes, by the clock of Info.Now; zero: no lease
	// Seen is the time of its Join or its last Renew, by the same clock; without leases, the Now
	// of that claim.
	Seen  time.Time
	Drain Drain  // what its last Renew said
	Loops []Loop // what its last Renew said
}

// A Loop is something that an engine does again and again beside the runs.
type Loop struct {
	Name string        `json:"name"`
	Age  time.Duration `json:"age"` // since its latest turn began, at the time of the Renew
	// Every is the longest time between two turns if nothing hangs; 0 if there is no such time.
	Every time.Duration `json:"every"`
}

// A Drain is the work that an engine still has while it stops. The zero value means that it goes
// on.
type Drain struct {
	Until time.Time // when it waits no longer for its steps
	Runs  int       // in memory
	Steps int       // in flight
}

// Info is a description of a store.
type Info struct {
	Driver     string // memory, sqlite, postgres
	Database   string // its identity, made with it; part of each run ID
	Schema     int    // version
	Durability string // what a commit survives, in words
	Engines    []Engine
	Runs       int64
	Unrouted   int64     // messages that found no run
	Outbox     int64     // entries of the outbox
	Bytes      int64     // on disk, with logs; 0 for memory
	Settings   []Setting // in the order of their revisions, with those that are not set any more
	Now        time.Time // the clock of leases; zero without leases
}

// A Briefer is a store whose Info counts rows, so that it takes longer with more runs.
type Briefer interface {
	// Brief returns Info without the counts: Runs, Unrouted, Outbox and Bytes are zero, and so
	// is Runs of each engine. It takes the same time for ten million runs as for none.
	Brief(ctx context.Context) (Info, error)
}

// Brief returns the description of a store, without counting if the store is a [Briefer].
func Brief(ctx context.Context, s Store) (Info, error) {
	if b := AbilitiesOf(s).Briefer; b != nil {
		return b.Brief(ctx)
	}
	return s.Info(ctx)
}

// IdleLeases is how many times as long the lease of an idle engine is.
const IdleLeases = 6

// NewIdentity returns a random identity for a new database: 8 characters of a to z and 2 to 9,
// without those that are easily mistaken for another.
func NewIdentity() string {
	const alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
	buf := make([]byte, 8)
	rand.Read(buf) // it never fails
	for i, b := range buf {
		buf[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(buf)
}

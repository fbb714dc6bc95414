// Package store defines the contract between the engine and a database.
//
// A store has one verb for writing what runs do, [Store.Commit]: many runs at a
// time, all or nothing. Since only its owner writes a run, a commit has little
// to judge: whether the engine still has the right to write, and whether a new
// run's workflow ID is free. The conformance suite in storetest is the
// contract in full; this file is its summary.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/journal"
)

var (
	// ErrClosed says that the store was closed. It is final.
	ErrClosed = errors.New("store: closed")
	// ErrFenced says that the engine's row is gone: another engine has taken
	// over, and nothing of this one may be written any more. It is final.
	ErrFenced = errors.New("store: the engine was taken over")
	// ErrLocked says that another engine has the store.
	ErrLocked = errors.New("store: another engine has it")
	// ErrNotFound says that there is no such run.
	ErrNotFound = errors.New("store: no such run")
	// ErrNewer says that a newer version of this module wrote the schema.
	ErrNewer = errors.New("store: the schema is newer than this program")
	// ErrForeign says that what is there is no database of this module.
	ErrForeign = errors.New("store: not a database of perdure")
)

// A DataError says that a group can never be committed because of what is in
// it: a constraint, an encoding, a size. Nothing of the group was written.
// Connection, I/O and fencing errors are never DataErrors.
type DataError struct{ Err error }

// Error names the cause.
func (e *DataError) Error() string { return "store: refused: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DataError) Unwrap() error { return e.Err }

// Store keeps runs and their journals. Its methods may be called by many
// goroutines at a time. Times come from the caller.
//
// An error that is none of this package's says that the store does not answer
// now; the caller tries again.
type Store interface {
	// Commit writes a group in one transaction. When it returns nil, all of the
	// group is durable and every change has its verdict. A DataError, ErrFenced
	// and ErrClosed say that nothing of the group was written. After any other
	// error the outcome is unknown: nobody may be told anything of the group
	// before the same group, with Again set, was committed or refused. The store
	// has by then abandoned the connection that failed.
	//
	// The context is for values; Commit does not end when it does.
	Commit(ctx context.Context, g *Group) error

	// Claim joins an engine, gives it runs to execute, or takes it off. See
	// [Claim] for what each form does.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Load gives entries of one journal in order. A run without entries in the
	// range gives none and no error.
	Load(ctx context.Context, run journal.Number, r Range) ([]journal.Entry, error)

	// Spill makes one large payload durable under a number that its engine made,
	// in a transaction of its own, before the group that names it. What no entry
	// names is swept when an engine joins.
	Spill(ctx context.Context, engine journal.EngineID, id journal.Number, data []byte) error

	// Find gives heads by filter, newest first, and the cursor that goes on after
	// them; zero when there are no more.
	Find(ctx context.Context, f Filter) ([]journal.Head, journal.Number, error)

	// Info tells what the store is and who uses it.
	Info(ctx context.Context) (Info, error)

	// Close ends the use of the store. An engine that did not leave is then as
	// good as dead: the next one to join takes over its runs.
	Close() error
}

// A Group is what one Commit writes. Order inside the transaction: the fence,
// then per change its creation, its entries and its head.
type Group struct {
	Engine  journal.EngineID // whose right to write is checked; zero for a stranger, who may only create
	Now     time.Time
	Again   bool // the group was sent before with an unknown outcome: what is there is not written twice
	Changes []Change
}

// A Change is what a group does to one run; a group has one change for each
// run.
type Change struct {
	Run     journal.Number
	Create  bool            // the run is new
	Head    *journal.Head   // of a new run whole; else status, owner, wake, end, last and cause where they change; nil leaves the head
	Since   time.Time       // of a new run: one of the same workflow and ID that ended at this time or later counts as the same; zero: open ones only
	Entries []journal.Entry // in order, following those that are there

	// Verdict and Found are set by Commit, of a new run. Where the verdict is not
	// Written, nothing of the change was.
	Verdict Verdict
	Found   journal.Head
}

// A Verdict says what became of a change.
type Verdict uint8

// The verdicts.
const (
	Written Verdict = iota // the change is durable
	Exists                 // Found is the run that the ID stands for
	Taken                  // Found is another workflow's open run that has the ID
)

// A Claim has four forms.
//
// Join (Engine is zero): the store gives the engine an ID and records Self. The
// memory and SQLite drivers know one engine at a time: one that has not left is
// dead once its store is closed or its process is, its runs get nobody as owner
// and are due at Now, and each that was RUNNING has one crash counted, anew if
// it has recorded anything since the last. While it lives, joining gives
// ErrLocked, wrapped in words that name it. Payloads that no entry names are
// swept.
//
// Take (Engine and Max are set): the engine becomes the owner of at most Max
// due runs of the named workflows, those due longest first, and gets them with
// their journals. A run is due when nobody owns it, its wake time is set and
// not after Now. At most about 32 MB of journals come at a time, at least one
// run.
//
// One (Engine and Run are set): the engine becomes the owner of that one, if it
// is open and nobody owns it or this engine does, whatever its wake time; else
// Runs is empty. After a claim whose outcome is unknown, the engine finds what it
// may own by [Filter].Owner.
//
// Leave (Engine and Leave are set): the runs it owns have no owner and are due
// at Now, and its row is gone.
type Claim struct {
	Engine    journal.EngineID
	Self      Engine // join
	Leave     bool
	Now       time.Time
	Workflows []string
	Max       int
	Run       journal.Number
}

// Claimed is what a claim gives.
type Claimed struct {
	Engine journal.EngineID
	Runs   []Run
	Next   time.Time // when the next run of the named workflows that nobody owns is due; zero for none
	More   bool      // more are due already
}

// A Run is a claimed run as the store has it: the head with its new owner and
// the whole journal, spilled payloads left out. Err is a CorruptError where a
// row cannot be read; Entries then ends before that row, and Last is the
// sequence of the last row that is there, readable or not.
type Run struct {
	Head    journal.Head
	Entries []journal.Entry
	Last    int64
	Err     error
}

// A Range says which entries of a journal are meant.
type Range struct {
	From     int64 // first sequence; 0 and 1 are the same
	Limit    int   // 0 for all
	Payloads bool  // spilled payloads come with their entries
}

// A Filter says which heads are meant; zero fields do not limit.
type Filter struct {
	Run        journal.RunID
	WorkflowID string
	Workflow   string
	Owner      journal.EngineID // of open runs
	Statuses   []journal.Status
	After      journal.Number // the cursor
	Limit      int            // 0 for 100; at most 1,000
}

// An Engine is how an engine is known to others.
type Engine struct {
	ID    journal.EngineID
	Host  string
	PID   int
	Build string
	Since time.Time
}

// Info is what a store tells of itself.
type Info struct {
	Driver     string // memory, sqlite
	Database   string // its identity, made with it; part of each run ID
	Schema     int
	Durability string // what a commit survives, in words
	Engines    []Engine
	Runs       int64
	Bytes      int64 // on disk, with logs; 0 for memory
}

// DefaultLimit and MaxLimit bound what one Find gives.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page is the number of heads that the filter asks for.
func (f Filter) Page() int {
	switch {
	case f.Limit <= 0:
		return DefaultLimit
	case f.Limit > MaxLimit:
		return MaxLimit
	}
	return f.Limit
}

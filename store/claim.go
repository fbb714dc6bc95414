package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Claim is a request of [Store.Claim], one of
//
//   - [Join], [Renew] and [Leave], with which an engine begins, prolongs and ends its use of the
//     store;
//   - [ReserveID], with which a client gets an engine ID to make run numbers with;
//   - [TakeDue] and [TakeRun], with which an engine gets runs to execute;
//   - [TakeOutbox], with which an engine gets entries of the outbox.
//
// Each returns a [Claimed]. The comments on its fields name the claims that set them. A claim of an
// engine that has left or was taken over returns [ErrFenced].
type Claim interface{ claim() }

func (Join) claim()       {}
func (Renew) claim()      {}
func (Leave) claim()      {}
func (ReserveID) claim()  {}
func (TakeDue) claim()    {}
func (TakeRun) claim()    {}
func (TakeOutbox) claim() {}

// InvalidClaim returns the error of a driver for a claim that is nil or a pointer.
func InvalidClaim(c Claim) error {
	return &DataError{Err: fmt.Errorf(
		"a claim of type %T is not valid: allowed are the structs of package store", c)}
}

// Join makes an engine. The store records Self and returns the engine's ID, and takes over
// expired engines.
//
// An engine is expired if it is gone without having left. A store for one engine detects that by
// the engine's process or handle. While the engine is there, Join returns [ErrLocked], wrapped in a
// text that names the engine. A store for many engines gives each engine a lease of Claimed.Lease.
// The lease begins when the claim was sent, and is measured by the clock of the database. An engine
// is expired if its lease has passed.
//
// An engine is taken over by removing its row. From then on it writes nothing any more, and its
// runs have no owner and are due at Now. For each run that was executing, one crash is counted. The
// count begins anew if the run has recorded anything since the last crash. A run was executing if
// it was RUNNING, or if its head was not written since it was claimed.
//
// Join also deletes the payloads that no entry and no message names and that no living engine
// has made. If Now is before the time of a group or a Leave, the clock was put back: the runs
// that were due at that time are due at Now.
type Join struct {
	Self Engine
	Now  time.Time
}

// Renew begins the engine's lease anew, and takes over expired engines as [Join] does. An
// engine whose lease has passed, and that was not taken over, goes on as before. A store without
// leases only records what the engine says.
type Renew struct {
	Engine journal.EngineID
	Now    time.Time
	// Idle makes the lease IdleLeases times as long if the engine owns no open run and has
	// nothing in the outbox.
	Idle bool
	// Drain replaces what the engine has said before. Info shows it.
	Drain Drain
	// Loops replaces what the engine has said before. Info shows it.
	Loops []Loop
	// Workflows replaces what the engine has said before, unless it is nil. Info shows it.
	Workflows []string
}

// Leave removes the engine's row. Its runs get no owner and are due at Now.
type Leave struct {
	Engine journal.EngineID
	Now    time.Time
}

// ReserveID returns an engine ID that no other claim ever returns, and records nothing.
type ReserveID struct{}

// TakeDue makes the engine the owner of due runs, and returns them. A run is due if it has no
// owner, and its wake time is set and not after Now. The runs come in this order, and within each
// part those first that have been due for the longest time:
//
//   - of the workflows in Paused, the runs with an unseen order;
//   - of workflows that are in neither list, the runs with an unseen [TerminateOrder], unless
//     another engine has the workflow, or has not said which workflows it has;
//   - the runs of Workflows.
//
// An order is unseen from its delivery until an engine that owns the run gives it back, or the run
// ends: a run that continues another one has none. One claim returns at most about 32 MB, but at
// least one run.
//
// It also returns, in Claimed.Mail, the messages of the engine's runs that were not given to the
// engine before. Messages of a run that is being written just now are left out; Claimed.Next is
// then the time to ask again.
type TakeDue struct {
	Engine    journal.EngineID
	Workflows []string
	Paused    []string // further workflows of the engine
	Max       int      // runs; 0: messages only
	Now       time.Time
}

// An Order is the order that a message has, as far as a [TakeDue] depends on it. Of several orders
// of a run the highest counts.
type Order uint8

// The numbers are stored and never change their meaning.
const (
	NoOrder        Order = 0
	AnyOrder       Order = 1 // see [journal.Kind.IsOrder]
	TerminateOrder Order = 2 // to end at once, for which nobody needs the code of the workflow
)

// OrderOf returns the order that a message has.
func OrderOf(m *journal.Entry) Order {
	switch {
	case !m.Kind.IsOrder():
		return NoOrder
	case m.Kind == journal.CancelAsked && m.Detail != nil &&
		m.Detail.Mode == journal.ActionTerminate:
		return TerminateOrder
	}
	return AnyOrder
}

// TakeRun makes the engine the owner of one run, whatever its wake time, and returns it. It
// returns no run if the run has ended, is not there, or has another owner.
//
// After a TakeRun or TakeDue with an unknown outcome, the engine finds its runs with
// [Filter].Owner.
type TakeRun struct {
	Engine journal.EngineID
	Run    journal.Number
}

// TakeOutbox returns entries of the outbox, of the named workflows, by number. An entry is for the
// engine that has committed it. When that engine has left or was taken over, the entry is for the
// first engine that asks, as long as that one is there.
type TakeOutbox struct {
	Engine    journal.EngineID
	Workflows []string
	After     int64 // entries with higher numbers only
	Limit     int   // entries
}

// Claimed is the answer to a [Claim].
type Claimed struct {
	Engine journal.EngineID // the engine of the claim; for Join and ReserveID, the new one

	// Set by TakeDue; Runs also by TakeRun.
	Runs []Run // each with its journal and the beginning of its inbox
	Mail []Run // runs owned before, without entries, with the messages not given before
	More bool  // further runs are due already; for TakeOutbox: there are further entries

	// Next is the time when the next run is due that the same TakeDue would take, for an order too:
	// it may be after Now because the clock of the sender is ahead. Zero means none.
	Next time.Time

	// Settings is the last revision of a setting; 0 for none. TakeDue sets it.
	Settings int64

	Outbox []OutboxEntry // set by TakeOutbox

	// Lease is the length of the lease, as Join and Renew set it. TakeDue and TakeRun set it if
	// they return runs: the lease is then no longer than the lease of a Join. Zero means that the
	// store has no leases.
	Lease time.Duration

	// Set by Join and Renew.
	Lapse   time.Duration // until the next lease of another engine passes, unless renewed; 0: none
	Expired int           // engines that were taken over
	Freed   int64         // runs of expired engines that have become due
}

// A Run is a claimed run as the store has it: the head with its new owner, and the whole
// journal without spilled payloads.
type Run struct {
	Head    journal.Head
	Entries []journal.Entry
	Last    int64 // sequence of the last row that is there, readable or not

	// Inbox has untaken messages in the order of their numbers (Seq): at most InboxPage and
	// about InboxBytes of them. More reports whether there are further ones.
	Inbox []journal.Entry
	More  bool

	// Err is a CorruptError if a row is not readable or is missing: Entries ends before it.
	Err error
}

// The limits of the messages of one run that a claim returns.
const (
	InboxPage  = 256
	InboxBytes = 1 << 20
)

// An OutboxEntry is an entry of the outbox. It is to be delivered at least once.
type OutboxEntry struct {
	Number int64 // rises in the order of the commits, and for one run in the order of its journal
	Head   journal.Head
	Entry  journal.Entry // with its payload
}

// Package store defines the contract between the engine and a database.
//
// A store has one verb for writing what runs do, [Store.Commit]: many runs at a
// time, all or nothing. Since only its owner writes a run, a commit has little
// to judge: whether the engine still has the right to write, whether a new
// run's workflow ID is free, where a message goes, and whether a run that is to
// rest has been sent one. The conformance suite in storetest is the contract in
// full; this file is its summary.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
)

var (
	// ErrClosed says that the store was closed. It is final.
	ErrClosed = errors.New("store: closed")
	// ErrFenced says that the engine's row is gone: another engine has taken
	// over, and nothing of this one may be written any more. It is final.
	ErrFenced = errors.New("store: the engine was taken over")
	// ErrHeld says that a group needs what a transaction of the user's holds, or that of
	// another process, and that nothing of it was written. It is for groups of an engine,
	// without Again, that have waited for a moment: an engine commits the others, and
	// tries this one again as it is.
	ErrHeld = errors.New("store: a transaction of somebody else's holds what this needs")
	// ErrLocked says that another engine has the store, which is for one at a time.
	ErrLocked = errors.New("store: another engine has it")
	// ErrNotFound says that there is no such run.
	ErrNotFound = errors.New("store: no such run")
	// ErrNewer says that a newer version of this module wrote the schema.
	ErrNewer = errors.New("store: the schema is newer than this program")
	// ErrOlder says that an older version of this module wrote the schema, or none
	// did, and that this handle was not to migrate it.
	ErrOlder = errors.New("store: the schema is older than this program")
	// ErrLost says that the database was removed or replaced while it was open: what was
	// committed last may be nowhere. It is final.
	ErrLost = errors.New("store: the database was removed or replaced while it was in use")
	// ErrDamaged says that the database cannot be read any more. It is final.
	ErrDamaged = errors.New("store: the database is damaged")
	// ErrForeign says that what is there is no database of this module.
	ErrForeign = errors.New("store: not a database of perdure")
)

// A SchemaError is [ErrOlder] or [ErrNewer], with the version that the schema has, 0
// where there is none, and the one that this program knows.
type SchemaError struct{ Has, Knows int }

// Error says what is older, and what to do about what is newer.
func (e *SchemaError) Error() string {
	text := fmt.Sprintf("%v: it is version %d and this program knows %d", e.Unwrap(), e.Has, e.Knows)
	if e.Has > e.Knows {
		text += ": use the version that wrote it, or a newer one"
	}
	return text
}

// Unwrap gives [ErrOlder] or [ErrNewer].
func (e *SchemaError) Unwrap() error {
	if e.Has > e.Knows {
		return ErrNewer
	}
	return ErrOlder
}

// An UnsafeError says that a server may lose or spoil what it has acknowledged.
type UnsafeError struct{ Setting string } // that is off

// Error says what to do about it.
func (e *UnsafeError) Error() string {
	return "store: " + e.Setting + " is off: a crash of the server would lose or spoil what it has acknowledged; set it to on, or say that it does not matter"
}

// A DataError says that a group can never be committed because of what is in
// it: a constraint, an encoding, a size. Nothing of the group was written.
// Connection, I/O and fencing errors are never DataErrors.
type DataError struct{ Err error }

// Error names the cause.
func (e *DataError) Error() string { return "store: refused: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DataError) Unwrap() error { return e.Err }

// Store keeps runs, their journals and their inboxes. Its methods may be called
// by many goroutines at a time. Times come from the caller; one that a driver
// cannot keep is kept as the nearest that it can.
//
// An error that is none of this package's says that the store does not answer
// now; the caller tries again.
type Store interface {
	// Commit writes a group in one transaction. When it returns nil, all of the
	// group is durable and every change and post has its verdict. A DataError and
	// ErrFenced say that nothing of the group was written, and so do ErrHeld, and ErrClosed of one
	// that was not on its way when the store was closed. After any
	// other error the outcome is unknown: nobody may be told anything of the group
	// before the same group, with Again set, was committed or refused. The store
	// has by then abandoned the connection that failed.
	//
	// The context is for values; Commit does not end when it does.
	Commit(ctx context.Context, g *Group) error

	// Claim does what the request says: an engine joins, renews its lease, gets runs to
	// execute or entries of the outbox, or leaves.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Load gives entries of one journal in order, or messages of one inbox. A run
	// without entries in the range gives none and no error. Where an entry cannot be
	// read, or is missing before one that is there, it gives those before it and a
	// CorruptError.
	Load(ctx context.Context, run journal.Number, r Range) ([]journal.Entry, error)

	// Spill makes one large payload durable under a number that its engine made,
	// in a transaction of its own, before the group that names it. What no entry
	// and no message names is swept when an engine joins.
	Spill(ctx context.Context, engine journal.EngineID, id journal.Number, data []byte) error

	// Find gives heads by filter, newest first, and the cursor that goes on after
	// them; zero when there are no more.
	Find(ctx context.Context, f Filter) ([]journal.Head, journal.Number, error)

	// Purge removes what is kept no longer, a bounded number of rows at a time.
	Purge(ctx context.Context, p Purge) (Purged, error)

	// Info tells what the store is and who uses it.
	Info(ctx context.Context) (Info, error)

	// Close ends the use of the store. An engine that did not leave is then as
	// good as dead: the next one to join takes over its runs.
	Close() error
}

// A Watcher is a store that other processes may write while an engine has it.
type Watcher interface {
	// Watch calls f soon after another process has written what an engine or a waiter
	// may want to know: a run is due, one that another engine owns was sent a message,
	// one has ended, an engine has left or was taken over; and once when it has begun to
	// see that. It returns when ctx ends. It may call f without a reason, and
	// misses nothing for long.
	Watch(ctx context.Context, f func())
}

// Parallel is a store that gains by several commits of one engine at a time.
type Parallel interface {
	// Lanes is how many of them it gains by.
	Lanes() int
}

// A Group is what one Commit writes. Order inside the transaction:
//
//  1. the fence;
//  2. creations, but for those of successors (Change.From);
//  3. entries, with the messages that they take and what they owe;
//  4. posts, of the change and, of a run that was not created, of Else;
//  5. heads: unloads and ends, which are judged after every post of the group;
//  6. creations of successors, with their entries.
type Group struct {
	Engine  journal.EngineID // whose right to write is checked; zero for a stranger, who may only create and post
	Now     time.Time
	Again   bool // the group was sent before with an unknown outcome: what is there is not written twice, and has its verdict again as far as it can be told
	Changes []Change
}

// A Change is what a group does to one run; a group has one change for each
// run. One without a run only posts, or acknowledges.
//
// What follows from entries the store does by itself. An entry with Detail.Mail
// takes that message out of the run's inbox; one that is not in it refuses the
// group. An entry with Detail.Tell is owed to somebody until a change
// acknowledges it. AttributeSet, and Detail.Attributes of RunStarted, set what
// Filter.Attributes looks for; a nil Data removes the attribute. An entry that
// has both Spill and Data brings its large payload along: it is kept in rows of
// its own, as by Spill.
type Change struct {
	Run     journal.Number
	Create  bool            // the run is new
	Head    *journal.Head   // of a new run whole; else status, owner, wake, end, last, cause, keep, retention and pattern where they change; nil leaves the head
	Since   time.Time       // of a new run: one of the same workflow and ID that ended at this time or later counts as the same; zero: open ones only
	From    journal.Number  // of a new run: the one, ended by this group, that it continues, as no other run does. Its inbox, with the numbers of the messages, and Mail become the new run's: no message is written, however many there are
	Shares  journal.Number  // of a new run: one whose spilled payloads its entries name. Where that is gone, the group is refused; else they stay
	Unload  bool            // the run leaves memory: Head's owner and wake are written only if Head.Mail is the number of messages posted, those of this group included; else the verdict is Mail and the rest of Head is written. Where the engine does not own the run any more, it was written before
	Entries []journal.Entry // in order, each following the one before it, and the first the last that is there; else the group is refused
	Posts   []Post          // where the change is of a new run: written only if the verdict is Written or Exists
	Else    []Post          // written instead of Posts if the verdict is Taken, and with them if it is Exists
	Told    []int64         // numbers of [OutboxEntry] that have been told

	// Verdict and Found are set by Commit, of a new run and of one that is unloaded.
	// Where a new run's verdict is not Written, it has no entries; where it is,
	// Found is its head as it was created, and Mail counts the messages that it
	// found. Of a run that is unloaded, Found is set if the verdict is Mail.
	Verdict Verdict
	Found   journal.Head
}

// A Post is a message on its way to an inbox.
//
// The receiver is the run of that number, or, with Follow, where that has ended, the open
// run of its chain; without a number, the open run of the workflow ID. The message
// gets the next number of its inbox, Head.Mail. If nobody owns the run, it is due at
// Group.Now at the latest, unless it has a cause to stay unloaded (Head.Cause) and Force is not
// set. If the engine of the group owns it, the verdict counts as having been given the
// message.
//
// Detail.Message is the sender's ID of the message. The chain of the receiver
// has it once: further ones are duplicates, also after the message was taken and
// after the run has ended. Where a group is sent again, a message by workflow ID is
// known by its ID and its time (At), in whatever run that had the workflow ID it is by
// now. A post without an ID may be delivered twice, unless the group has entries or
// new runs to know it by.
//
// An unrouted message is delivered when a run of its workflow ID is created. It
// then counts as not given to the run's engine, as does one that is moved, and
// one that a run takes over from the one that it continues. Once it has
// expired, at Until, it is only listed and moved, until it is purged.
type Post struct {
	Run        journal.Number
	Follow     Following // to which run of its chain, where the run has ended
	WorkflowID string
	Until      time.Time     // by workflow ID: without an open run it is kept until then, as unrouted; zero: it is not
	Unrouted   int64         // moves the unrouted message of this number to Run instead; Message is ignored
	Message    journal.Entry // Kind, Op.Name, Op.Key, Op.Scope, Op.Occ, At, Data, Spill, Detail
	Force      bool          // wakes a run that has a cause to stay unloaded

	// Verdict, To and Number are set by Commit.
	Verdict Verdict
	To      journal.Head // the receiver, before the group's own heads; of Closed and Duplicate too
	Number  int64        // of the message in the inbox, or among the unrouted
}

// A Following is to which run of a chain a message goes that is for one that has ended.
type Following uint8

// The followings.
const (
	FollowNone  Following = iota // to none
	FollowChain                  // to the open one: a successor, or one that retries
	FollowRetry                  // to the open one, unless the run has continued as new: to one that retries it
)

// Leads reports whether a message follows from a run that has ended with that status.
func (f Following) Leads(ended journal.Status) bool {
	return f == FollowChain || f == FollowRetry && ended != journal.ContinuedAsNew
}

// A Verdict says what became of a change or a post.
type Verdict uint8

// The verdicts.
const (
	Written Verdict = iota // the change is durable
	Exists                 // Found is the run that the ID stands for
	Taken                  // Found is another workflow's open run that has the ID
	Mail                   // a run that was to be unloaded has got messages: it stays the engine's

	Delivered // the message is in the inbox of To
	Duplicate // To, or one before it in its chain, has a message of this ID; of an unrouted one, there is one already
	Unrouted  // no open run has the workflow ID: the message is kept for one
	Closed    // To has ended
	Nobody    // there is no such run, and Until is zero; or no such unrouted message
)

// A Range says which entries of a journal are meant, or which messages.
type Range struct {
	From     int64            // first sequence; 0 and 1 are the same
	Limit    int              // 0 for all
	Tail     bool             // the last Limit entries instead of the first; From is ignored
	Payloads bool             // spilled payloads come with their entries
	Inbox    bool             // untaken messages instead: Seq is the number. Of run 0 those that found no run, with Detail.To and Detail.Due, when they expire
	Name     string           // of messages: those of this name only
	Ends     []journal.Number // instead the last entries of these runs, as far as they have ended, in this order; the run is ignored. At most MaxLimit
}

// A Filter says which heads are meant; zero fields do not limit.
type Filter struct {
	Run         journal.RunID
	Runs        []journal.RunID // any of these; at most MaxLimit
	WorkflowID  string
	WorkflowIDs []string // any of these; at most MaxLimit
	Newest      bool     // of the runs of one workflow ID only the one that it stands for: the open one, else the one that ended last, and of those that ended at once the one of the highest number
	Workflow    string
	Without     string // runs of workflows whose names do not begin so
	Parent      journal.Number
	Owner       journal.EngineID // of open runs
	Open        bool             // open runs only
	Busy        time.Time        // open runs that an engine owns, or that are due by then
	Statuses    []journal.Status
	Attributes  map[string]string // all of these
	After       journal.Number    // the cursor
	Limit       int               // 0 for 100; at most 1,000
}

// A Purge removes runs that have expired (Head.Expires), but none of which an entry is
// owed, and none whose chain goes on where it is the first of that or has not continued as
// new; and unrouted messages that have expired. It is one transaction, and removes at most so many rows.
//
// A run is gone as a whole, and at once: its head goes in one transaction, and from then on
// nobody finds it, it stands for no workflow ID, and it is not claimed. What its head leaves,
// entries, messages, attributes and payloads, goes with it as far as the limit reaches,
// and else first of all with the next purges, whoever makes them. What it has not taken stays
// where a successor has its inbox, and a payload that another run names too.
type Purge struct {
	Engine journal.EngineID // whose right to write is checked; zero for a stranger
	Now    time.Time
	// Unsaid are retentions by workflow, for runs of theirs that have ended without one
	// (Head.Retain). As many as rows may go get it now, and then this purge removes
	// nothing. Versions of before wrote such runs.
	Unsaid map[string]journal.Retention
	Limit  int // rows at a time; 0 for PurgeRows
}

// PurgeRows is how many rows a purge removes that does not say, and PurgeBytes after how many
// bytes of payloads it stops: so many take some milliseconds.
const (
	PurgeRows  = 1000
	PurgeBytes = 4 << 20
)

// Rows is how many rows the purge may remove.
func (p *Purge) Rows() int {
	if p.Limit <= 0 {
		return PurgeRows
	}
	return p.Limit
}

// Heads is how many runs may go at a time: a tenth of the rows, so that there is room for
// what they leave.
func (p *Purge) Heads() int { return (p.Rows() + 9) / 10 }

// Purged is what a purge removed.
type Purged struct {
	Runs     int
	Unrouted int
	Rows     int  // of any kind, heads and unrouted messages too
	More     bool // more is to be removed
}

// An Engine is how an engine is known to others.
type Engine struct {
	ID    journal.EngineID
	Host  string
	PID   int
	Build string
	Since time.Time
	Slots int // how many runs it has at a time; 0 where it does not say
	// Runs is, in Info, how many open runs it owns.
	Runs int64
	// Expired reports, in Info, that its lease has passed without it leaving: nobody executes
	// its runs before another engine takes them over.
	Expired bool
	// Until is when its lease passes, in Info; zero without a lease. It is by the clock
	// of the database, which Info.Now tells.
	Until time.Time
	// Seen is, in Info, when its lease was renewed last, by the same clock.
	Seen time.Time
}

// Info is what a store tells of itself.
type Info struct {
	Driver     string // memory, sqlite, postgres
	Database   string // its identity, made with it; part of each run ID
	Schema     int
	Durability string // what a commit survives, in words
	Engines    []Engine
	Runs       int64
	Unrouted   int64     // messages that found no run
	Owed       int64     // entries that somebody is to be told of
	Bytes      int64     // on disk, with logs; 0 for memory
	Now        time.Time // what the clock of leases says; zero without leases
}

// A Briefer is a store whose Info has to count, and takes longer the more runs there
// are.
type Briefer interface {
	// Brief is Info without what has to be counted: Runs, Unrouted, Owed and Bytes are
	// zero, and so is Runs of each engine. It takes as long with ten million runs as
	// with none.
	Brief(ctx context.Context) (Info, error)
}

// Brief tells what a store is and who uses it, without counting where it can do without.
func Brief(ctx context.Context, s Store) (Info, error) {
	if b, ok := s.(Briefer); ok {
		return b.Brief(ctx)
	}
	return s.Info(ctx)
}

// IdleLeases is how many times as long the lease of an idle engine is.
const IdleLeases = 6

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

// NewIdentity gives an identity for a new database: 8 random characters of a to z and 2
// to 9, without those that are easily mistaken for another.
func NewIdentity() string {
	const alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
	buf := make([]byte, 8)
	rand.Read(buf) // it never fails
	for i, b := range buf {
		buf[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(buf)
}

package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Group is the input of one Commit. The order inside the transaction is:
//
//  1. the fence: the engine's row is there;
//  2. new runs, except successors (Change.From);
//  3. entries, with the messages that they take and the entries that they add to the outbox;
//  4. settings; then limits: slots of runs that end are freed, then Frees, then Adjusts; then Asks,
//     in order; what is free is given to those in line;
//  5. posts: Posts of the change and, if its run was not created, Else;
//  6. heads: runs that are unloaded or end are judged after every post of the group;
//  7. successors, with their entries.
type Group struct {
	// Engine is the engine whose right to write is checked. Zero means a client, which may only
	// create, post and set settings.
	Engine journal.EngineID
	Now    time.Time
	// Again marks a group that was sent before with an unknown outcome. The parts that are there
	// already are not written twice. They get their verdicts again, as far as these are still
	// known.
	Again   bool
	Changes []Change

	// Grants is set by Commit: how many runs that waited have got a slot, or another time for their
	// token. It is above 0 if the group was sent before and may have granted something.
	Grants int
}

// A Change is the part of a group that concerns one run; a group has one change for each run.
// A change without a run only posts messages, acknowledges entries of the outbox, or sets
// settings.
//
// The store applies the effects of entries by itself:
//
//   - An entry with Detail.Mail takes that message out of the run's inbox. If the inbox does
//     not have it, the group is refused.
//   - An entry with Detail.Tell stays in the outbox until a change acknowledges it.
//   - AttributeSet, and Detail.Attributes of RunStarted, set what Filter.Attributes finds. A nil
//     Data removes the attribute.
//   - An entry with both Spill and Data brings its large payload along, which is kept in rows
//     of its own, as by Store.Spill.
type Change struct {
	Run    journal.Number
	Create bool // the run is new

	// Head is the whole head of a new run. For another run, its status, owner, wake, end, last,
	// cause, keep, retention and pattern are written if they change; nil leaves the head unchanged.
	Head *journal.Head

	// Since is for a new run. A run of the same workflow and workflow ID that ended at this time or
	// later counts as the same run. Zero means that only an open run does.
	Since time.Time

	// From is the run that a new run continues. This group ends that run, and no other run
	// continues it. Its inbox becomes the inbox of the new run, with the numbers of the messages,
	// and so does its Head.Mail. No message is written, however many there are.
	From journal.Number

	// Shares is a run whose spilled payloads the entries of a new run name, or the messages that
	// this change posts to it. If that run is gone, the group is refused. Otherwise the payloads
	// stay as long as they are named.
	Shares journal.Number

	// Unload means that the run leaves memory. Owner and wake of Head are written only if Head.Mail
	// is the number of messages posted so far, including those of this group. Otherwise the verdict
	// is Mail, and only the rest of Head is written. If the engine does not own the run any more,
	// the change was written before.
	Unload bool

	// Entries are in order. The first follows the last entry of the journal, and each further entry
	// follows the one before it. Otherwise the group is refused.
	Entries []journal.Entry

	Posts []Post  // of a new run, written only if the verdict is Written or Exists
	Else  []Post  // written instead of Posts if the verdict is Taken, and with them if it is Exists
	Told  []int64 // acknowledges these entries of the outbox ([OutboxEntry].Number)

	Asks    []Ask    // of the run; void if the verdict on a new run is not Written
	Frees   []int64  // the numbers of slots that the run has no more, or does not wait for any more
	Adjusts []Adjust // of limits, whatever the run

	Settings []Setting // whatever the run

	// Commit sets Verdict and Found, for a new run and for a run that is unloaded. If the verdict
	// on a new run is Written, Found is its head as it was created, and Found.Mail counts the
	// messages that waited for it. With another verdict, the new run has no entries. For a run that
	// is unloaded, Found is set if the verdict is Mail.
	Verdict Verdict
	Found   journal.Head
}

// A Post is a message on its way to an inbox.
//
// The receiver is the run with the number Run. If that run has ended and Follow is set, the
// receiver is the open run of its chain. Without a number, the receiver is the open run of the
// workflow ID. The message gets the next number of its inbox, Head.Mail. A receiver without an
// owner is due at Group.Now at the latest, unless it has a cause to stay unloaded (Head.Cause) and
// Force is not set. If the engine of the group owns the receiver, the verdict counts as the
// delivery of the message to the engine.
//
// Detail.Message is the sender's ID of the message. The chain of the receiver has it once:
// further messages of that ID are duplicates, also after the message was taken and after the
// run has ended. If a group is sent again, a message by workflow ID is recognized by its ID and
// its time (At), in whichever run had the workflow ID then. A message whose ID the receiver knows
// counts as delivered by such a group, also if another sender has posted it: the verdict does not
// say that the inbox has the content of the post. A post without an ID may be delivered twice,
// unless the group has entries or new runs by which it is recognized.
//
// An unrouted message is delivered when a run of its workflow ID is created. It then counts as not
// given to the run's engine. So does a message that is moved, and a message that a run takes over
// from the run that it continues. After Until, an unrouted message has expired: it can only be
// listed and moved, until it is purged.
type Post struct {
	Run        journal.Number
	Follow     Following // which run of the chain is the receiver if Run has ended
	WorkflowID string
	Until      time.Time     // by workflow ID: kept as unrouted until then; zero: not kept
	Unrouted   int64         // moves the unrouted message of this number to Run; Message is ignored
	Message    journal.Entry // Kind, Op.Name, Op.Key, Op.Scope, Op.Occ, At, Data, Spill, Detail
	Force      bool          // wakes a run that has a cause to stay unloaded

	// Verdict, To and Number are set by Commit.
	Verdict Verdict
	To      journal.Head // the receiver, before the group's own heads; also for Closed, Duplicate
	// Number is that of the message in the inbox, or among the unrouted. If the group was sent
	// again, the inbox may be that of an earlier run of the chain.
	Number int64
}

// A Following selects the run of a chain that receives a message for one that has ended.
type Following uint8

// The followings.
const (
	FollowNone  Following = iota // no run
	FollowChain                  // the open one: a successor, or one that retries
	FollowRetry                  // the open one that retries the run; none after ContinuedAsNew
)

// Leads reports whether a message for a run that has ended with that status goes to another run of
// its chain.
func (f Following) Leads(ended journal.Status) bool {
	return f == FollowChain || f == FollowRetry && ended != journal.ContinuedAsNew
}

// A Verdict is the result of a change or a post.
type Verdict uint8

// The verdicts.
const (
	Written Verdict = iota // the change is durable
	Exists                 // Found is the run that the ID stands for
	Taken                  // Found is another workflow's open run that has the ID
	Mail                   // the run that was to be unloaded has got messages: it stays in memory

	Delivered // the message is in the inbox of To
	Duplicate // To, or one before it in its chain, or the unrouted ones, have a message of this ID
	Unrouted  // no open run has the workflow ID: the message is kept for one
	Closed    // To has ended
	Nobody    // there is no such run, and Until is zero; or no such unrouted message
)

// Check returns a DataError if the group is malformed by itself, whatever the database has: a
// client that does more than create and post, a new run without a head or with the head of
// another run, entries of another run or out of order, a post that is no message. Drivers call
// it before they write.
func (g *Group) Check() error {
	for i := range g.Changes {
		if err := g.Changes[i].check(g.Engine == 0); err != nil {
			return &DataError{Err: err}
		}
	}
	return nil
}

func (c *Change) check(client bool) error {
	if err := errors.Join(checkPosts(c.Posts, c.Else), c.checkAsks(client)); err != nil {
		return err
	}
	for i := range c.Settings {
		if err := c.Settings[i].check(); err != nil {
			return err
		}
	}
	changes := c.Create || c.Head != nil || len(c.Entries) > 0
	switch {
	case c.Run < 0 || c.Run == 0 && changes:
		return errors.New("a change of no run")
	case client && changes && !c.Create:
		return fmt.Errorf("run %d: only its engine may change it", c.Run)
	case client && len(c.Told) > 0:
		return errors.New("only an engine may acknowledge entries of the outbox")
	case c.Create && c.Head == nil:
		return fmt.Errorf("run %d: new, but without a head", c.Run)
	case c.Head != nil && c.Head.Number != c.Run:
		return fmt.Errorf("run %d: the head is that of run %d", c.Run, c.Head.Number)
	case c.Shares != 0 && !c.Create:
		return fmt.Errorf("run %d: only a new run shares payloads", c.Run)
	case c.From != 0 && !c.Create || c.Unload && (c.Create || c.Head == nil):
		return fmt.Errorf(
			"run %d: only a new run continues another, and only an existing one is unloaded", c.Run)
	}
	last := int64(0)
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Run != c.Run {
			return fmt.Errorf("run %d: an entry of run %d", c.Run, e.Run)
		}
		if e.Seq <= last || i > 0 && e.Seq != last+1 || c.Create && e.Seq != int64(i+1) {
			return fmt.Errorf("run %d: entry %d follows entry %d", c.Run, e.Seq, last)
		}
		last = e.Seq
	}
	return nil
}

// Follows returns the sequence of the entry that must be the last in the journal of an existing
// run before the change; 0 if the change has no entries, or the run is new.
func (c *Change) Follows() int64 {
	if c.Create || len(c.Entries) == 0 {
		return 0
	}
	return c.Entries[0].Seq - 1
}

func checkPosts(posts ...[]Post) error {
	for _, all := range posts {
		for i := range all {
			p := &all[i]
			switch {
			case p.Unrouted != 0 && p.Run == 0:
				return errors.New("an unrouted message without a receiver")
			case p.Unrouted != 0:
			case !p.Message.Kind.IsMessage():
				return fmt.Errorf("a message of kind %v", p.Message.Kind)
			case (p.Run == 0) == (p.WorkflowID == ""):
				return errors.New("a message is for a run or for a workflow ID")
			}
		}
	}
	return nil
}

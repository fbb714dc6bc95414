package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// An Ask is the request of a run for one slot, or for one token, of a limit.
//
// A limit has a name and, for each key, slots or a bucket of tokens. They come to be with the first
// ask for them. They are gone when nobody has or waits for any and the bucket is full, so that a
// million keys cost nothing for long. A bucket may be gone some asks later.
//
// A run holds a slot until a change of the run frees it ([Change.Frees]) or the run ends. The run
// that continues it inherits the slots with numbers below 0.
//
// If no slot is free, the run waits in line: those with a higher Priority first, then by Share in
// turn, then in the order of their asks. In each round a Share has one slot of those of a Priority.
// An ask is for the first round after those in which its Share waits, not before the round that is
// served. Who leaves the line leaves its place in a round empty.
//
// An ask with a time Came comes before those of its Priority and Share whose time is later: it gets
// the place of the first of them, and each of them the place of the next. So runs that several
// engines take up at one time wait in the order in which they were started. An ask without a time
// has that of the last in line of its Priority and Share, or, if there is none, comes before all
// times.
//
// Whoever frees a slot gives it to the first in line in the same transaction: that run gets a
// message of kind [journal.SlotGranted] whose Op.Key is the number of the slot, and the message
// wakes it, also if the run has a cause to stay unloaded.
//
// A token is given for a time: the first at which the bucket has one. An ask never waits in line
// for it, because each ask gets a time of its own, in the order of the asks. In no span of time are
// more tokens given than Burst and one for each Every of the span. The time is measured by the
// clock of the database, or by Group.Now in a store for one engine. If that clock is put back, the
// bucket goes with it.
//
// If an ask has other numbers than the bucket, the bucket keeps its tokens, as far as Burst allows.
// If it has given tokens for later, these keep their times, and the next one comes Every after the
// last.
//
// The asks of a change with numbers below 0 are answered one after the other, until one is not
// granted. Each other ask is answered for itself.
//
// A run that asks again for the same number gets the same answer: the slot that it holds, its place
// in line, or the time of its token. So an engine that does not know the answer asks again.
type Ask struct {
	Slot  int64  // the number that the run knows the slot or token by; not 0
	Limit string // the name of the limit
	Key   string

	// Max is the number of slots of this limit and key from now on; 0 means that there are as many
	// as are asked for.
	Max int
	// Priority and Share order those that wait. Of several shares each gets a slot in turn.
	Priority int
	Share    string
	Came     time.Time // the time by which those of a Share are in order; may be zero

	// Every is the time in which the bucket gains a token, and Burst the most tokens that it has.
	// If Every is set, the ask is for a token. The bucket fills within MaxFill. A token that would
	// be due after the last time that a store can write is due at that time.
	Every time.Duration
	Burst int

	// Revision is that of the setting that the numbers come from; 0 for none. A limit has the
	// revision of the ask that made it, or of the last Adjust. The numbers of an ask with a lower
	// one do not count: its engine has not heard of the setting yet.
	Revision int64

	// Set by Commit.
	Answer Answer
	Wait   time.Duration // of Later: until the time of the token
}

// An Answer is the result of an Ask.
type Answer uint8

// The answers. A run that is not answered asks again.
const (
	// an ask of the change before this one is not granted, or the group was sent before
	NotAnswered Answer = iota
	Granted            // the run has the slot or token
	InLine             // the run waits for the slot
	Later              // the run has the token after Wait
)

// An Adjust changes a limit for all of its keys, for asks that come and for runs that wait. It does
// nothing to a limit with a higher Revision. For one with the same Revision, tokens keep their
// times.
type Adjust struct {
	Limit string
	Max   int // as in Ask; the slots that become free are given
	// Every is as in Ask. The bucket is empty then, and the tokens that were given for later are
	// given anew, in the order of their asks. Without Every, tokens keep their times.
	Every time.Duration
	Burst int

	Revision int64 // as in Ask

	// Workflow is set for a limit that begins to count the runs of a workflow. Its open runs that
	// have begun, and have no slot of that number, get one, also above Max. A run that stands in
	// line for a slot with a negative number has not begun. Runs that end with the group get none,
	// unless another run continues them.
	Workflow string
	Slot     int64
}

// A SlotReader is a store that shows which runs have the slots of limits and which wait.
type SlotReader interface {
	// Slots returns the slots, waits and tokens that match the query: by limit and key in the order
	// of their bytes, those that are held first, then those in line in their order.
	Slots(ctx context.Context, q SlotQuery) ([]Slot, error)
}

// A SlotQuery selects slots. A zero field does not restrict the selection.
type SlotQuery struct {
	Run   journal.Number
	Limit string
	Key   *string
	Count int // at most so many; 0: DefaultLimit; at most MaxLimit

	// Totals asks for one Slot for each limit and key that runs have or wait for, with Limit, Key,
	// Max, Used and Line. Used of a bucket counts its tokens that are not freed. After, which is
	// for Totals alone, leaves out the limits with names up to it.
	Totals bool
	After  string

	// Lost restricts the selection to runs that are not open, or not there. There are none, as long
	// as nothing but drivers writes to the database.
	Lost bool
}

// Page returns the number of slots that the query asks for.
func (q SlotQuery) Page() int { return (&Filter{Limit: q.Count}).Page() }

// A Slot is a slot of a limit that a run holds or waits for, or a token.
type Slot struct {
	Run   journal.Number
	Slot  int64
	Limit string
	Key   string
	Since time.Time // the time of the ask, by Group.Now
	Held  bool
	Place int64     // in line: 1 is the first; 0 if Held
	Due   time.Time // of a token
	Max   int       // the slots of the limit and key
	Used  int64     // how many of them are held
	Line  int64     // how many runs wait in line
}

// SlotMessage is the name of the messages of kind [journal.SlotGranted].
const SlotMessage = "perdure:slot"

// The bounds of an ask.
const (
	MaxLimitName = 200
	MaxLimitKey  = 400
	// MaxFill is the longest time that an empty bucket may take to fill. So the sum of a time of
	// these years and that time has a form in every store.
	MaxFill = 100 * 365 * 24 * time.Hour
)

func (c *Change) checkAsks(client bool) error {
	if client && (len(c.Asks) > 0 || len(c.Frees) > 0 || len(c.Adjusts) > 0) {
		return errors.New("only an engine may ask for slots, free them or change limits")
	}
	if len(c.Asks) > 0 && c.Head != nil && !c.Head.Ended.IsZero() {
		return fmt.Errorf("run %d: it ends, and asks for a slot", c.Run)
	}
	if c.Run == 0 && (len(c.Asks) > 0 || len(c.Frees) > 0) {
		return errors.New("an ask of no run")
	}
	for i := range c.Asks {
		a := &c.Asks[i]
		switch {
		case a.Slot == 0:
			return fmt.Errorf("run %d: an ask without a number", c.Run)
		case slices.ContainsFunc(c.Asks[:i], func(o Ask) bool { return o.Slot == a.Slot }):
			return fmt.Errorf("run %d: two asks with the number %d", c.Run, a.Slot)
		case a.Limit == "" || len(a.Limit) > MaxLimitName || len(a.Key) > MaxLimitKey ||
			len(a.Share) > MaxLimitKey:
			return fmt.Errorf("run %d: the name or key of a limit is empty or too long", c.Run)
		case a.Max < 0 || !isBucket(a.Every, a.Burst):
			return fmt.Errorf("run %d: limit %s has no valid bounds", c.Run, a.Limit)
		case a.Revision < 0:
			return fmt.Errorf("run %d: an ask with the revision %d", c.Run, a.Revision)
		}
	}
	for _, a := range c.Adjusts {
		if a.Limit == "" || len(a.Limit) > MaxLimitName || a.Max < 0 ||
			!isBucket(a.Every, a.Burst) || a.Workflow != "" && a.Slot >= 0 || a.Revision < 0 {
			return fmt.Errorf("the change of limit %q is not valid", a.Limit)
		}
	}
	return nil
}

// isBucket reports whether a bucket may have these numbers. Zeros are no bucket.
func isBucket(every time.Duration, burst int) bool {
	return every == 0 || every > 0 && burst > 0 && int64(burst) <= int64(MaxFill/every)
}

package kernel

import (
	"context"
	"strconv"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A slotRequest is the request of an operation for a slot of a limit, or for the token of its next
// attempt. It is zero for other operations.
type slotRequest struct {
	by     *operation
	slot   int64        // the number of the slot or token; 0 for none
	ask    *store.Ask   // nil if there is no request
	asking bool         // the store has not answered the ask
	under  *rules.Rules // those by which it asks
	// the next attempt has its token; announced is the argument of try meanwhile
	cleared, announced bool
	before             time.Duration // see attempt
}

// A Lock is a limit whose slots workflow code asks for and gives back around a part of its work.
type Lock struct {
	Name string // of the operation
	Change
	Limit    string // the name of the limit
	Key      string
	Max      int // slots; 1 for a lock
	Priority int
	Within   time.Duration // how long to wait for the slot; 0 for without a limit
}

// Acquire waits for a slot and returns its number. The entry of the ask has that number, so the
// store knows an ask that is repeated after a crash. The run has the slot until Free, until the
// scope that has acquired it is cancelled, or until its end. So a clean-up may acquire what the
// cancelled code had.
//
// If the wait ends otherwise, the slot is freed with the entry that records that.
func Acquire(ctx context.Context, l Lock) (slot int64, err error) {
	s, over, err := asking(ctx, call{"acquire", l.Name})
	if err != nil {
		return 0, err
	}
	defer s.run.mu.Unlock()
	o := s.acquire(ctx, l, over)
	out, err := s.await(o)
	if err == nil && out.Failure != nil {
		err = &journal.Error{
			Code: out.Failure.Code, Op: "acquire " + l.Name, Message: out.Failure.Message,
		}
	}
	return o.slot, err
}

func (s *scope) acquire(ctx context.Context, l Lock, over *journal.Failure) *operation {
	r := s.run
	op, rec := s.ask(asked{l.Name, l.Key, isLock, l.Change, false})
	o := &operation{run: r, scope: s, id: op, class: isLock, want: want{from: store.SlotMessage}}
	if rec != nil {
		o.slot, o.due = rec.first, rec.due
	}
	if rec != nil && rec.ended != nil {
		o.recorded(rec.ended)
		return o
	}
	r.operations.track(o)
	r.operations.begin(o)
	if rec == nil {
		d := &journal.Detail{Reason: l.Limit}
		if l.Within > 0 {
			o.due = r.k.Now().Add(l.Within).Round(0)
			d.Due = o.due
		}
		o.slot = r.append(journal.Entry{Kind: journal.SlotAsked, Op: op, Detail: d})
		// nobody has granted it yet: a message that is there is for the run that this one continues
		if m := r.inbox.find(func(e *journal.Entry) bool { return isGrant(e, o.slot) }); m != nil {
			takeNews(r, m.Seq)
		}
	}
	o.by = o
	o.ask = &store.Ask{
		Slot: o.slot, Limit: l.Limit, Key: l.Key, Max: l.Max, Priority: l.Priority,
	}
	if o.heed(ctx, over); o.settled {
		return o
	}
	o.sendAsk()
	if rec != nil {
		r.enlist() // no entry goes with it
	}
	if o.listen(s.branch); !o.settled {
		o.wait()
	}
	return o
}

// sendAsk sends the ask of the operation. Until the store has answered, the run stays in memory:
// it hears only of a slot that it gets later.
func (q *slotRequest) sendAsk() {
	r := q.by.run
	r.operations.asks(q.by, true)
	q.under = r.k.rules.Load()
	a := q.under.Changed(*q.ask)
	r.send(outgoing{ask: &a})
}

// freeUnless frees the slot that the operation has asked for, unless its last entry takes it.
func (q *slotRequest) freeUnless(kind journal.Kind) {
	if q.ask != nil && kind != journal.SlotTaken {
		q.by.run.send(outgoing{free: q.slot})
	}
}

// answered takes the answer of the store to the ask of an operation.
func (q *slotRequest) answered(a *store.Ask) {
	o := q.by
	o.run.operations.asks(o, false)
	o.run.k.outrun(q.under)
	switch {
	case a.Answer == store.NotAnswered: // the store had the group before and does not know it
		o.sendAsk()
		o.run.enlist()
	case o.class != isLock:
		o.tokenFor(a)
		o.run.dispatch()
	case a.Answer == store.Granted:
		o.settle(journal.Entry{Kind: journal.SlotTaken})
	default:
		o.run.dispatch()
	}
}

// Free frees a slot. The next in line gets it in the commit of the turn.
func Free(ctx context.Context, l Lock, slot int64) error {
	s, err := inside(ctx, call{"free", l.Name})
	if err != nil {
		return err
	}
	r := s.run
	defer r.mu.Unlock()
	r.operations.freed(slot)
	op, rec := s.ask(asked{
		name: freeName + l.Name, key: l.Key, class: isNote, Change: l.Change, inert: true,
	})
	if rec != nil && rec.ended != nil {
		return nil
	}
	r.append(journal.Entry{Kind: journal.SlotFreed, Op: op, Detail: &journal.Detail{
		Reason: l.Limit,
	}})
	r.send(outgoing{free: slot})
	return nil
}

// freeName is the beginning of the names of the operations that free a slot.
const freeName = "free:"

// slotKey is the key of the message about a slot.
func slotKey(slot int64) string { return strconv.FormatInt(slot, 10) }

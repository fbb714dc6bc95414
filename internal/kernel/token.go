package kernel

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An attempt of a step with a limit needs a token. Before the attempt begins, an entry records that
// it is held back, and the ask goes with that entry. The store answers with the time of the token.
// Until then the step waits as between two attempts: the run may leave memory, no attempt counts,
// and no timeout runs. Then it asks once more, because the limit may have changed meanwhile. The
// token is freed with the record of the attempt's end.

// holdForToken makes the next attempt wait for a token, unless it has one. It reports whether the
// attempt has to wait.
func holdForToken(o *operation, announced bool) bool {
	if o.work.Limit == nil || o.cleared {
		o.cleared = false
		return false
	}
	r := o.run
	r.operations.begin(o)
	o.announced = announced
	hold(o)
	o.by, o.ask = o, &store.Ask{}
	*o.ask = *o.work.Limit
	o.ask.Slot = o.slot
	if m := r.inbox.find(func(e *journal.Entry) bool { return isGrant(e, o.slot) }); m != nil {
		takeNews(r, m.Seq)
	}
	o.sendAsk()
	r.enlist()
	return true
}

// hold records that the next attempt is held back, unless an entry does.
func hold(o *operation) {
	if o.slot != 0 {
		return
	}
	d := &journal.Detail{}
	if o.work.Limit != nil {
		d.Reason = o.work.Limit.Limit
	}
	if o.tries > 0 {
		d.Attempt = o.tries + 1
	}
	e := journal.Entry{Kind: journal.StepHeld, Op: o.id, Detail: o.mark(d)}
	if o.tries > 0 { // it may be another branch's turn
		o.slot = o.run.outside(e)
	} else {
		o.slot = o.run.append(e)
	}
}

// isGrant reports whether a message is about that slot.
func isGrant(e *journal.Entry, slot int64) bool {
	return e.Kind == journal.SlotGranted && e.Op.Key == slotKey(slot)
}

// takeNews takes a message about the token by an entry that changes nothing.
func takeNews(r *run, number int64) {
	r.inbox.remove(number, r.last()+1)
	r.outside(journal.Entry{
		Kind: journal.StatusChanged, Status: r.status(),
		Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: number}},
	})
}

// tokenFor takes the answer of the store to the ask for a token.
func (q *slotRequest) tokenFor(a *store.Ask) {
	o := q.by
	if a.Answer == store.Granted {
		o.cleared = true
		o.try(o.announced)
		return
	}
	o.due = o.run.k.Now().Add(a.Wait).Round(0)
	o.wait()
}

// changeToken takes the message that a step has its token at another time. It reports whether a
// step waits for that token.
func (s *operations) changeToken(r *run, e *journal.Entry) bool {
	if e.Kind != journal.SlotGranted || r.isFrozen() {
		return false
	}
	for o := range s.all() {
		if o.work.Limit != nil && o.ask != nil && !o.settled && isGrant(e, o.slot) {
			takeNews(r, e.Seq)
			if o.waits {
				o.waited()
				o.due = time.Time{}
				o.sendAsk()
				r.enlist()
			}
			return true
		}
	}
	return false
}

// freeToken frees the token of an attempt that has failed and is followed by another one.
func (q *slotRequest) freeToken() {
	if q.ask != nil {
		q.by.run.send(outgoing{free: q.slot})
		q.ask, q.slot = nil, 0
	}
}

package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Here a run works with the pipeline: it is pushed when entries of its log are sealed, adds them to
// a group, and gets the verdict.

// seal lets the pipeline take every appended entry.
func (r *run) seal() {
	if r.sealTo(r.last()) {
		r.enlist()
	}
}

// flush seals every entry but those of the present turn.
func (r *run) flush() {
	if r.holder() == nil {
		r.seal()
	} else if r.sealTo(r.beforeTurn()) {
		r.enlist()
	}
}

// enlist makes the pipeline take the sealed entries and the head.
func (r *run) enlist() {
	if r.queue() {
		r.k.lanes.of(r.number()).push(r)
	}
}

// take implements source. The run's own change is the first.
func (r *run) take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isReserved() {
		r.unqueue()
		return cs, true
	}
	return r.gather(cs, rows, bytes, first)
}

// committed implements source. Observers are notified first, so that a notice of a step that begins
// when an entry is durable comes after the notice of that entry.
func (r *run) committed(cs []store.Change, resent bool) {
	c := &cs[0]
	r.k.gate.count(-int64(sizeOf(c.Entries)))
	if !c.Create || c.Verdict == store.Written {
		r.observed.tell(c)
		r.k.tellMade(cs[1:])
		r.observed.tellTaken(cs[1:])
	}
	r.mu.Lock()
	r.answered()
	if c.Create && c.Verdict != store.Written {
		r.answer(c.Verdict, c.Found)
		r.mu.Unlock()
		r.depart()
		return
	}
	r.stableTo(c.Entries)
	if r.trial.end(false, r.durableProgress()) {
		r.k.trials.over(r)
	}
	r.inbox.settled(r.lastDurable())
	if c.Create {
		r.inbox.found(c.Found.Mail)
	}
	if c.Unload {
		r.unloaded(c)
	}
	var few [4]effect
	effects := r.takeEffects(few[:0])
	gone, again := r.over() && r.allDurable(), r.mustReturn()
	if c.Create && !r.over() && !r.overdue() && !r.admission.isAsking() {
		r.hold(r.root)
	}
	if len(c.Asks) > 0 {
		r.admission.answered(c.Asks)
		gone = gone || r.over() && r.allDurable()
	}
	r.admission.settled(c)
	r.mu.Unlock()
	for i := range c.Entries {
		if d := c.Entries[i].Detail; d != nil && d.Tell {
			r.k.readOn()
			break
		}
	}
	for _, e := range effects {
		e.run()
	}
	if gone {
		r.depart()
		if again {
			go r.k.takeAgain(r.number())
		}
	} else if c.Create {
		close(r.begun)
	}
	r.k.news.durable(c.Entries)
	r.k.sent(cs, resent)
	r.k.buffers.put(c.Entries)
}

// refused implements source. A run whose data the store refuses goes back to
// what is durable and is parked there. Where even that is refused, it leaves memory as it is,
// and the engine tries to park it again later, without calling its code.
func (r *run) refused(cs []store.Change, err error) {
	c := &cs[0]
	r.k.gate.count(-int64(sizeOf(c.Entries)))
	r.mu.Lock()
	if r.answered() {
		r.mu.Unlock()
		return
	}
	first := r.refuse(err)
	r.drop()
	if c.Create || !first || !refusal(err) {
		r.mu.Unlock()
		r.depart()
		if !c.Create && refusal(err) {
			r.k.parkLater(r.number(), &journal.Detail{Reason: err.Error()})
		}
		return
	}
	r.reopen()
	r.reprieve() // where the journal was to end
	r.suspend(&journal.Detail{Reason: err.Error()})
	r.mu.Unlock()
}

// parkAgain is the time until the store is asked again to park a run, after it has refused to.
const parkAgain = time.Minute

// parkLater parks a run that is not in memory, and that nothing else takes up since this engine
// owns it.
func (k *Kernel) parkLater(n journal.Number, d *journal.Detail) {
	time.AfterFunc(parkAgain, func() {
		if k.stops() || k.loadedRun(n) != nil {
			return
		}
		isOpen := func(h journal.Head) bool { return !parked(h) && !h.Status.IsTerminal() }
		r, err := k.activation(context.Background(), n, isOpen, false, "")
		switch {
		case err != nil:
			k.parkLater(n, d)
		case r != nil:
			r.mu.Lock()
			r.suspend(d)
			r.mu.Unlock()
		}
	})
}

// refusal reports whether err blames the data that was to be committed.
func refusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data)
}

func sizeOf(entries []journal.Entry) int {
	size := 0
	for i := range entries {
		size += entries[i].Size()
	}
	return size
}

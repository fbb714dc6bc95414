package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// A run that an operator suspends while steps of it are in flight is frozen: it is
// SUSPENDED from then on, its code gets no turn, no attempt begins, timers and messages
// are left for later; but the attempts that are being executed go on, and what they come
// to is recorded. When the last one has ended, the run leaves memory. Where it is resumed
// before, it thaws in place, and takes up what has come meanwhile.

// freeze suspends the run.
func (r *run) freeze(d *journal.Detail) {
	if r.operations.executing() == 0 {
		r.suspendWith(d)
		return
	}
	if r.gone() || r.frozen {
		return
	}
	r.frozen = true
	r.because(suspended(d.Reason))
	r.outside(journal.Entry{Kind: journal.RunSuspended, Status: journal.Suspended, Detail: d})
	r.flush()
}

// stayFrozen is what a frozen run does instead of going on.
func (r *run) stayFrozen() {
	r.commands()
	if !r.frozen || r.gone() {
		return
	}
	r.flush()
	if r.holder() != nil || r.operations.executing() > 0 {
		return
	}
	r.leaveHead(journal.Suspended, r.head().Cause, r.due())
	r.append(journal.Entry{Kind: journal.StatusChanged, Status: journal.Suspended})
	r.asksRest()
	r.leave()
	r.sealAll()
}

// thaw lets a frozen run go on: attempts that had to wait begin, times that have come
// are taken up, and so are messages.
func (r *run) thaw(mail int64) {
	var d *journal.Detail
	if mail != 0 {
		d = &journal.Detail{Mail: mail}
	}
	r.frozen = false
	r.because("")
	r.outside(journal.Entry{Kind: journal.RunResumed, Status: r.values.active(), Detail: d})
	held := r.heldBack
	r.heldBack = nil
	for _, o := range held {
		if o.attempt != nil {
			r.whenDurable(effect{begin: o})
		}
	}
	r.operations.startTimers()
	r.lookAgain()
	r.flush()
	r.dispatch()
}

// holdBack keeps an attempt of a frozen run from beginning.
func (r *run) holdBack(o *operation) {
	if !slices.Contains(r.heldBack, o) {
		r.heldBack = append(r.heldBack, o)
	}
}

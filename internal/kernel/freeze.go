package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// A run that an operator suspends while steps of it are in flight is frozen. It is SUSPENDED from
// then on, its code gets no turn, no attempt begins, and timers and messages are left for later.
// But the attempts that are being executed go on, and their results are recorded. When the last one
// has ended, the run leaves memory. If the run is resumed before, it thaws in place, and takes up
// the timers and messages that have come meanwhile.

// A freezing records whether a run is frozen.
//
// Invariant: an attempt that was to begin while the run is frozen is held back, and begins when the
// run thaws. The mu of the run guards it.
type freezing struct {
	on   bool
	held []*operation // the operations whose attempts are held back
}

// isFrozen reports whether the run is suspended while steps in flight go on.
func (z *freezing) isFrozen() bool { return z.on }

// setFrozen freezes the run.
func (z *freezing) setFrozen() { z.on = true }

// holdBack keeps an attempt of a frozen run from beginning. It reports whether the run is
// frozen.
func (z *freezing) holdBack(o *operation) bool {
	if z.on && o.attempt != nil && !slices.Contains(z.held, o) {
		z.held = append(z.held, o)
	}
	return z.on
}

// lift ends the freeze of a run that comes to its end.
func (z *freezing) lift() { z.on = false }

// takeHeld ends the freeze of a run. It returns the operations whose attempts may begin now.
func (z *freezing) takeHeld() []*operation {
	held := z.held
	z.on, z.held = false, nil
	return held
}

// freeze suspends the run, and lets its attempts in flight go on.
func (r *run) freeze(d *journal.Detail) {
	if r.operations.executing() == 0 {
		r.suspend(d)
		return
	}
	if r.gone() {
		return
	}
	r.setFrozen()
	r.because(suspended(d.Reason))
	r.outside(journal.Entry{Kind: journal.RunSuspended, Status: journal.Suspended, Detail: d})
	r.flush()
}

// stayFrozen replaces dispatch for a frozen run: a run without attempts in flight leaves memory.
func (r *run) stayFrozen() {
	r.commands()
	if !r.isFrozen() || r.gone() {
		return
	}
	r.flush()
	if r.holder() != nil || r.operations.executing() > 0 {
		return
	}
	holdUnbegun(r)
	r.leaveHead(journal.Suspended, r.head().Cause, r.due())
	r.append(journal.Entry{Kind: journal.StatusChanged, Status: journal.Suspended})
	r.unloadHead(r.inbox.known())
	r.leave()
	r.seal()
}

// thaw lets a frozen run go on: it begins the attempts that had to wait, and takes up timers whose
// times have come, and messages.
func (r *run) thaw(d *journal.Detail) {
	held := r.takeHeld()
	r.because("")
	r.outside(journal.Entry{Kind: journal.RunResumed, Status: r.values.active(), Detail: d})
	for _, o := range held {
		if o.attempt != nil {
			r.whenDurable(effect{begin: o})
		}
	}
	r.operations.startTimers()
	r.inbox.offerAll(r.operations.forMessage())
	r.flush()
	r.dispatch()
}

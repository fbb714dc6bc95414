package kernel

import (
	"sync"
	"time"
)

// lateAfter is how long entries that nothing waits for may be kept from becoming
// durable, give or take as much again.
const lateAfter = time.Millisecond

// A lateness lets the facts that opened long turns go alone, and results that were
// kept for others to join them go without. Nearly every turn ends within
// microseconds, so a timer for each would cost more than the turn: one timer serves
// all runs of a kernel, and it runs only while there is something that it has not
// looked at.
type lateness struct {
	mu    sync.Mutex
	turns []openTurn
	spare []openTurn
	timer *time.Timer
}

// An openTurn is a turn that was going on when it was noted; keptTurn where what it
// left is kept.
type openTurn struct {
	run  *run
	turn int64
}

const keptTurn = 0

// watch has a turn of r looked at later. It is called with the run's lock.
func (l *lateness) watch(r *run, turn int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, openTurn{r, turn})
	if len(l.turns) > 1 {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(lateAfter, l.look)
	} else {
		l.timer.Reset(lateAfter)
	}
}

// look seals the facts of turns that still go on.
func (l *lateness) look() {
	l.mu.Lock()
	turns := l.turns
	l.turns, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	for _, t := range turns {
		t.run.sealLate(t.turn)
	}
	clear(turns)
	l.mu.Lock()
	l.spare = turns
	l.mu.Unlock()
}

// sealLate seals what came before the holder's own entries, where that turn still
// goes on or something is kept.
func (r *run) sealLate(turn int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.left:
	case turn == keptTurn && time.Since(r.heldAt) < lateAfter: // the timer was another one's
		r.k.late.watch(r, keptTurn)
	case turn == keptTurn:
		if r.held > r.sealed {
			r.flush()
		}
		r.held = 0
		r.keepLonger()
	case r.holder != nil && r.turn == turn:
		r.flush()
	}
}

// flush seals everything but what the turn that goes on has appended.
func (r *run) flush() {
	if r.holder == nil {
		r.seal(r.seq)
	} else {
		r.seal(r.opened)
	}
}

// keep says whether to wait for more before what was appended is sealed: the results
// of steps that have begun together, and that nothing waits for but the workflow's
// code, share a commit where they come at once.
func (r *run) keep() bool {
	if r.inFlight == 0 || len(r.effects) > 0 || len(r.outgoing) > 0 || r.tentative != 0 || r.gone() {
		return false
	}
	r.keepLonger()
	return true
}

// keepLonger has what is kept looked at later.
func (r *run) keepLonger() {
	if r.held == 0 && r.seq > r.sealed {
		r.held, r.heldAt = r.seq, time.Now()
		r.k.late.watch(r, keptTurn)
	}
}

package kernel

import (
	"sync"
	"time"
)

// lateAfter is how long entries that nothing waits for may be kept from becoming durable. It may be
// up to twice as long.
const lateAfter = time.Millisecond

// A lateness lets the facts that opened long turns become durable without the turns, and kept
// results without others to share their commit. Nearly every turn ends within microseconds, so
// a timer for each would cost more than the turn: one timer serves all runs of a kernel, and it
// runs only while there is something that it has not looked at.
type lateness struct {
	mu    sync.Mutex
	turns []openTurn
	spare []openTurn
	timer *time.Timer
}

// An openTurn is a turn that was in progress when it was recorded here. The turn keptTurn means
// results that are kept.
type openTurn struct {
	run  *run
	turn int64
}

const keptTurn = 0

// watch makes the timer look at a turn. It is called with the run's lock.
func (l *lateness) watch(t openTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, t)
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
		t.seal()
	}
	clear(turns)
	l.mu.Lock()
	l.spare = turns
	l.mu.Unlock()
}

// A keeping has results that are not sealed yet, so that others may share their commit.
//
// Invariant: while upTo is not 0, entries up to it may be unsealed, and the timer looks at them at
// latest 2×lateAfter after since. The mu of the run guards it.
type keeping struct {
	upTo  int64 // 0 for none
	since time.Time
}

// begin keeps the entries that are appended and not sealed, unless some are kept already. It
// reports whether it does.
func (p *keeping) begin(seq int64) bool {
	if p.upTo != 0 {
		return false
	}
	p.upTo, p.since = seq, time.Now()
	return true
}

// isAny reports whether entries are kept.
func (p *keeping) isAny() bool { return p.upTo != 0 }

// isYoung reports whether the kept entries may be kept longer.
func (p *keeping) isYoung() bool { return time.Since(p.since) < lateAfter }

// end ends the keeping. It returns the last entry that was kept.
func (p *keeping) end() (upTo int64) {
	upTo, p.upTo = p.upTo, 0
	return upTo
}

// seal seals the entries before the holder's own, if the turn still goes on, or the kept entries.
func (t openTurn) seal() {
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.hasLeft():
	case t.turn == keptTurn && r.kept.isYoung(): // the timer was set for another turn
		r.k.late.watch(t)
	case t.turn == keptTurn:
		if !r.isSealed(r.kept.end()) {
			r.flush()
		}
		t.keep()
	case r.holder() != nil && r.turn() == t.turn:
		r.flush()
	}
}

// keep reports whether to wait for more entries before the appended ones are sealed. If steps have
// begun together, and only the workflow's code waits for their results, results that come at once
// share a commit.
func (r *run) keep() bool {
	if !r.operations.flies() || r.waited() || r.isTentative() || r.gone() {
		return false
	}
	openTurn{r, keptTurn}.keep()
	return true
}

// keep makes the timer look at the kept entries. It is called with the run's lock.
func (t openTurn) keep() {
	if r := t.run; !r.isSealed(r.last()) && r.kept.begin(r.last()) {
		r.k.late.watch(t)
	}
}

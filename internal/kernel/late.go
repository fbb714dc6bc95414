package kernel

import (
	"sync"
	"time"
)

// lateAfter is how long a turn may keep the fact that opened it from becoming
// durable, give or take as much again.
const lateAfter = time.Millisecond

// A lateness lets the facts that opened long turns go alone. Nearly every turn
// ends within microseconds, so a timer for each would cost more than the turn:
// one timer serves all runs of a kernel, and it runs only while there are turns
// that it has not looked at.
type lateness struct {
	mu    sync.Mutex
	turns []openTurn
	spare []openTurn
	timer *time.Timer
}

// An openTurn is a turn that was going on when it was noted.
type openTurn struct {
	run  *run
	turn int64
}

// watch has the turn of r looked at later. It is called with the run's lock.
func (l *lateness) watch(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, openTurn{r, r.turn})
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

// sealLate seals what came before the holder's own entries, where that turn
// still goes on.
func (r *run) sealLate(turn int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder != nil && r.turn == turn && !r.left {
		r.seal(r.opened)
	}
}

package kernel

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/perdure/perdure/journal"
)

// turns makes replay deterministic although workflow code is ordinary
// goroutines. Of the goroutines that belong to a run, its branches, one at a
// time runs workflow code: the holder. It gives the turn up in every durable
// operation that waits. When no branch can go on, the next fact is delivered:
// a result, a timeout, the end of a context. So
//
//   - before facts, branches that can go on do so in program order: new ones,
//     and those whose operations are over;
//   - facts are delivered one by one in the order of their entries.
//
// Both orders are the same when the journal is replayed, since a fact that is
// recorded is in the queue as soon as code has asked for it, and any fact that
// is not recorded yet has a higher sequence. Therefore what branches share, how
// often a name occurred, and what All, Any and None saw, come out as they did.
//
// With free goroutines instead, a crash while branches collect results in a
// shared slice makes later steps book one item twice and another never.
//
// Invariants: the holder is the only branch whose state is isHolder. A branch is
// in line if and only if its state is isReady, or isNew until its first turn. Facts
// are queued in the order of their sequences, and nothing is delivered while
// somebody holds the turn or is in line.
//
// It is guarded by its run's mu. It decides who is next, and starts and wakes nobody:
// that is dispatch.
type turns struct {
	on         *branch // the holder; nil while every branch is parked
	count      int64   // of turns
	line       []*branch
	facts      facts
	branches   []*branch // that have begun and not ended, and those that will
	deliveries int64     // operations delivered so far
	watched    bool      // somebody is to look at a turn that keeps others from going on
	unordered  bool      // a turn was lent: order is no longer promised
	caughtUp   bool      // code has gone as far as it can without what is not recorded
	reading    int       // payloads that the engine reads for the holder, which is no reason to lend
}

// holder returns the branch that has the turn, or nil.
func (t *turns) holder() *branch { return t.on }

// turn returns the number of the turn that goes on, or was the last.
func (t *turns) turn() int64 { return t.count }

// lent reports whether order is no longer promised.
func (t *turns) lent() bool { return t.unordered }

// isReading reports whether the engine reads something for the holder.
func (t *turns) isReading() bool { return t.reading > 0 }

// reads counts payloads that the engine reads for the holder: one more, or one less.
func (t *turns) reads(n int) { t.reading += n }

// renumber begins the turn anew for who watches how long it lasts.
func (t *turns) renumber() { t.count++ }

// canGoOn reports whether a branch is in line, or a fact waits.
func (t *turns) canGoOn() bool { return len(t.line) > 0 || !t.facts.empty() }

// add adds a branch. It is in line for its first turn, unless it begins later.
func (t *turns) add(b *branch, later bool) {
	t.branches = append(t.branches, b)
	if !later {
		t.line = append(t.line, b)
	}
}

// remove takes a branch off that is over.
func (t *turns) remove(b *branch) {
	for i, x := range t.branches {
		if x == b {
			t.branches = append(t.branches[:i], t.branches[i+1:]...)
			return
		}
	}
}

// lineUp makes a branch ready that could go on.
func (t *turns) lineUp(b *branch) {
	b.state = isReady
	t.line = append(t.line, b)
}

// unpark makes a parked branch ready.
func (t *turns) unpark(b *branch) {
	if b.state == isParked {
		t.lineUp(b)
	}
}

// unparkThose makes the parked branches ready for which is holds.
func (t *turns) unparkThose(is func(*branch) bool) {
	for _, b := range t.branches {
		if is(b) {
			t.unpark(b)
		}
	}
}

// unparkAll makes every parked branch ready, and drops those that have not begun. It
// reports whether any is in line.
func (t *turns) unparkAll() bool {
	t.unparkThose(func(*branch) bool { return true })
	isNew := func(b *branch) bool { return b.state == isNew }
	t.branches = slices.DeleteFunc(t.branches, isNew)
	t.line = slices.DeleteFunc(t.line, isNew)
	return len(t.line) > 0
}

// hasBranch reports whether is holds for a branch that has not ended.
func (t *turns) hasBranch(is func(*branch) bool) bool {
	return slices.ContainsFunc(t.branches, is)
}

// allParked reports whether no goroutine of the run does anything.
func (t *turns) allParked() bool {
	for _, b := range t.branches {
		if b.state != isParked {
			return false
		}
	}
	return true
}

// anyAhead reports whether code that is replayed may go on without a turn being given:
// it blocks outside the engine, or has not begun.
func (t *turns) anyAhead() bool {
	return slices.ContainsFunc(
		t.branches, func(b *branch) bool { return b.state == isOutside || b.state == isNew },
	)
}

// push queues something recorded that workflow code does not know yet.
func (t *turns) push(seq int64, what interface{ deliver() }) { t.facts.push(fact{seq, what}) }

// next takes the first in line, or else the next fact; both are nil where there is
// neither. Facts wait while they are held.
func (t *turns) next(held bool) (*branch, interface{ deliver() }) {
	if len(t.line) > 0 {
		b := t.line[0]
		t.line = t.line[:copy(t.line, t.line[1:])]
		return b, nil
	}
	if held || t.facts.empty() {
		return nil, nil
	}
	return nil, t.facts.pop()
}

// give gives b the turn. It reports whether its goroutine has begun: it is to be woken,
// or else started.
func (t *turns) give(b *branch) (begun bool) {
	begun = b.state != isNew
	t.on = b
	t.count++
	b.state = isHolder
	return begun
}

// free leaves nobody holding the turn.
func (t *turns) free() { t.on = nil }

// lendTurn takes the turn from a holder that blocks outside the engine. It reports whether order
// was promised until now; of a run that is over it does not matter any more.
func (t *turns) lendTurn(over bool) (first bool) {
	t.on.state = isOutside
	first = !t.unordered && !over
	t.unordered = t.unordered || first
	return first
}

// watch notes that somebody is to look at the turn. It reports whether nobody was.
func (t *turns) watch() (first bool) {
	first = !t.watched
	t.watched = true
	return first
}

// unwatch notes that somebody looks now. It reports whether anybody was to.
func (t *turns) unwatch() (was bool) {
	was = t.watched
	t.watched = false
	return was
}

// isWatched reports whether somebody is to look at the turn.
func (t *turns) isWatched() bool { return t.watched }

// deliver counts a delivery and returns its place among them.
func (t *turns) deliver() int64 {
	t.deliveries++
	return t.deliveries
}

// catchUp notes that code has gone as far as it can without what is not recorded. It
// reports whether that is news.
func (t *turns) catchUp() (first bool) {
	first = !t.caughtUp
	t.caughtUp = true
	return first
}

// A fact is something recorded that workflow code does not know yet: mostly the
// outcome of an operation.
type fact struct {
	seq  int64
	what interface{ deliver() }
}

// facts are outcomes that are recorded and not delivered, by sequence. Live ones
// come in order and are appended; those of a replay come as code asks for them.
type facts struct {
	queue []fact
	first int // of those that are left
}

func (f *facts) empty() bool { return f.first == len(f.queue) }

func (f *facts) push(x fact) {
	if f.empty() {
		f.queue, f.first = f.queue[:0], 0
	}
	at := len(f.queue)
	if at > f.first && f.queue[at-1].seq > x.seq {
		left, _ := slices.BinarySearchFunc(f.queue[f.first:], x.seq, func(y fact, seq int64) int { return cmp.Compare(y.seq, seq) })
		at = f.first + left
	}
	f.queue = slices.Insert(f.queue, at, x)
}

func (f *facts) pop() interface{ deliver() } {
	what := f.queue[f.first].what
	f.queue[f.first].what = nil
	f.first++
	return what
}

// hold gives b the turn. Its goroutine is started, woken, or is the caller.
func (r *run) hold(b *branch) {
	begun := r.give(b)
	if r.beginTurn() && !r.kept.isAny() {
		r.k.late.watch(openTurn{r, r.turn()})
	}
	if !begun {
		go b.main()
		return
	}
	b.wake <- struct{}{}
}

// endTurn leaves nobody holding the turn. What it appended is sealed, unless it can
// wait for more.
func (r *run) endTurn() {
	r.free()
	if !r.hasLeft() && !r.keep() {
		r.seal()
	}
}

// dispatch gives the turn to the next branch that can go on, delivering facts
// until there is one. It does nothing while somebody has the turn.
func (r *run) dispatch() {
	if r.isFrozen() && !r.gone() {
		r.stayFrozen()
		return
	}
	if r.trial.isAwaiting() && !r.gone() {
		r.commands()
		r.flush()
		return
	}
	if r.holder() != nil {
		r.k.lends.contend(r)
		return
	}
	for {
		b, f := r.next(r.isTentative())
		switch {
		case b != nil:
			if r.hold(b); r.canGoOn() {
				r.k.lends.contend(r)
			}
			return
		case r.isTentative(): // what comes after it must wait
			return
		case f != nil:
			f.deliver()
			continue
		}
		if r.fire() {
			continue
		}
		r.commands()
		if r.isFrozen() {
			return
		}
		if !r.canGoOn() {
			r.idle()
			return
		}
	}
}

// idle says what the run waits for, lets what was appended outside of turns
// become durable, and lets a run that only waits leave memory.
func (r *run) idle() {
	if r.gone() {
		return
	}
	if r.catchUp() {
		r.observed.tellReplayed(false)
	}
	r.tellStatus()
	if r.trial.isOn() && !r.operations.flies() && r.allParked() {
		r.acquit()
	}
	if !r.keep() {
		r.seal()
	}
	r.seek()
	r.considerUnload()
}

// tellStatus records where the run is, that goes on or waits: in the phase of its pattern,
// if it has one.
func (r *run) tellStatus() {
	phase := r.values.ownPhase()
	waits := r.status() == journal.Suspended || r.status() == journal.CompensationFailed
	switch {
	case r.operations.flies():
		if waits || r.status() == journal.Waiting || r.status() == journal.Running {
			r.restate(cmp.Or(phase, journal.Running))
		}
	case r.waits.anyDecision() && phase == journal.Compensating:
		r.restate(journal.CompensationFailed)
	case r.waits.anyDecision():
		r.restate(journal.Suspended)
	case r.waits.any() && (waits || r.status() == journal.Running):
		r.restate(cmp.Or(phase, journal.Waiting))
	}
}

// stay ends the calling goroutine, which is the run's, where the run has left memory.
// The language gives no way to end a goroutine without running its deferred
// functions, so they run; durable calls in them come here again.
func (r *run) stay() {
	if r.hasLeft() {
		runtime.Goexit()
	}
}

package kernel

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/perdure/perdure/journal"
)

// A turns makes replay deterministic although workflow code is ordinary goroutines. The goroutines
// of a run are its branches. Only one branch at a time, the holder of the turn, runs workflow code.
// A durable operation that waits passes the turn on. When no branch can go on, the next fact is
// delivered: a result, a timeout, the end of a context. So
//
//   - before facts, branches that can go on do so in program order: new branches,
//     and branches whose operations are over;
//   - facts are delivered one by one in the order of their entries.
//
// Both orders are the same when the journal is replayed. A fact that is recorded is in the queue as
// soon as code has asked for it, and any fact that is not recorded yet has a higher sequence.
// Therefore the data that branches share, the occurrences of a name, and the results of All, Any
// and None are the same as before.
//
// With free goroutines instead, a crash while branches collect results in a shared slice makes
// later steps book one item twice and another never.
//
// Invariants: the holder is the only branch whose state is isHolder. A branch is in line if and
// only if its state is isReady, or isNew until its first turn. Facts are queued in the order of
// their sequences. No fact is delivered while a branch holds the turn or is in line.
//
// The mu of the run guards it. It decides which branch is next, and starts and wakes none: dispatch
// does that.
type turns struct {
	on         *branch // the holder; nil while every branch waits
	count      int64   // of turns
	line       []*branch
	facts      facts
	branches   []*branch // branches that have begun and not ended, and those that will begin
	deliveries int64     // operations delivered so far
	watched    bool      // a turn that keeps others from going on is watched
	unordered  bool      // a turn was lent: order is no longer promised
	caughtUp   bool      // code has gone as far as it can without an entry that is not recorded
	// payloads that the engine reads for the holder; they are no reason to lend
	reading int
	knows   int64 // the sequence of the last fact that was delivered
}

// holder returns the branch that has the turn, or nil.
func (t *turns) holder() *branch { return t.on }

// turn returns the number of the present turn, or else of the last one.
func (t *turns) turn() int64 { return t.count }

// lent reports whether order is no longer promised.
func (t *turns) lent() bool { return t.unordered }

// isReading reports whether the engine reads a payload for the holder.
func (t *turns) isReading() bool { return t.reading > 0 }

// reads counts payloads that the engine reads for the holder: n is 1 or -1.
func (t *turns) reads(n int) { t.reading += n }

// renumber makes the present turn a new one for the watch over its length.
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

// remove removes a branch that is over.
func (t *turns) remove(b *branch) {
	for i, x := range t.branches {
		if x == b {
			t.branches = append(t.branches[:i], t.branches[i+1:]...)
			return
		}
	}
}

// lineUp makes a branch ready that is able to go on.
func (t *turns) lineUp(b *branch) {
	b.state = isReady
	t.line = append(t.line, b)
}

// makeReady makes a waiting branch ready.
func (t *turns) makeReady(b *branch) {
	if b.state == isWaiting {
		t.lineUp(b)
	}
}

// makeReadyThose makes every waiting branch ready for which is holds.
func (t *turns) makeReadyThose(is func(*branch) bool) {
	for _, b := range t.branches {
		if is(b) {
			t.makeReady(b)
		}
	}
}

// makeAllReady makes every waiting branch ready, and drops the branches that have not begun. It
// reports whether any branch is in line.
func (t *turns) makeAllReady() bool {
	t.makeReadyThose(func(*branch) bool { return true })
	isNew := func(b *branch) bool { return b.state == isNew }
	t.branches = slices.DeleteFunc(t.branches, isNew)
	t.line = slices.DeleteFunc(t.line, isNew)
	return len(t.line) > 0
}

// hasBranch reports whether is holds for a branch that has not ended.
func (t *turns) hasBranch(is func(*branch) bool) bool {
	return slices.ContainsFunc(t.branches, is)
}

// allWaiting reports whether no goroutine of the run does anything.
func (t *turns) allWaiting() bool {
	for _, b := range t.branches {
		if b.state != isWaiting {
			return false
		}
	}
	return true
}

// anyAhead reports whether replayed code may go on without getting a turn: a branch blocks outside
// the engine, or has not begun.
func (t *turns) anyAhead() bool {
	return slices.ContainsFunc(
		t.branches, func(b *branch) bool { return b.state == isOutside || b.state == isNew },
	)
}

// push queues a recorded fact that workflow code does not know yet.
func (t *turns) push(seq int64, what interface{ deliver() }) { t.facts.push(fact{seq, what}) }

// next takes the first branch in line, or else the next fact. Both are nil if there is neither.
// While held is set, facts wait.
func (t *turns) next(held bool) (*branch, interface{ deliver() }) {
	if len(t.line) > 0 {
		b := t.line[0]
		t.line = t.line[:copy(t.line, t.line[1:])]
		return b, nil
	}
	if held || t.facts.empty() {
		return nil, nil
	}
	t.knows = t.facts.queue[t.facts.first].seq
	return nil, t.facts.pop()
}

// give makes b the holder of the turn. It reports whether the goroutine of b has begun: then the
// caller wakes it, and otherwise starts it.
func (t *turns) give(b *branch) (begun bool) {
	begun = b.state != isNew
	t.on = b
	t.count++
	b.state = isHolder
	return begun
}

// free takes the turn from its holder: no branch has it then.
func (t *turns) free() { t.on = nil }

// lendTurn takes the turn from a holder that blocks outside the engine. It reports whether order
// was promised until now. The order of a run that is over does not matter any more.
func (t *turns) lendTurn(over bool) (first bool) {
	t.on.state = isOutside
	first = !t.unordered && !over
	t.unordered = t.unordered || first
	return first
}

// watch records that the turn is watched. It reports whether it was not watched before.
func (t *turns) watch() (first bool) {
	first = !t.watched
	t.watched = true
	return first
}

// unwatch records that the watch has looked. It reports whether the turn was watched.
func (t *turns) unwatch() (was bool) {
	was = t.watched
	t.watched = false
	return was
}

// isWatched reports whether the turn is watched.
func (t *turns) isWatched() bool { return t.watched }

// deliver counts a delivery and returns its place in the order of deliveries.
func (t *turns) deliver() int64 {
	t.deliveries++
	return t.deliveries
}

// catchUp records that code has gone as far as it can without an entry that is not recorded. It
// reports whether that is new.
func (t *turns) catchUp() (first bool) {
	first = !t.caughtUp
	t.caughtUp = true
	return first
}

// replays reports whether code that has that memo does again what it did before.
func (t *turns) replays(m *memo) bool {
	return m != nil && !t.caughtUp && t.knows <= m.last &&
		m.replay.goesOver(!t.facts.hasUpTo(m.last))
}

// A fact is something recorded that workflow code does not know yet: mostly the outcome of an
// operation.
type fact struct {
	seq  int64
	what interface{ deliver() }
}

// A facts has the outcomes that are recorded and not delivered, by sequence. Live facts come in
// order and are appended. Facts of a replay come as code asks for them.
type facts struct {
	queue []fact
	first int // the index of the first fact left
}

func (f *facts) empty() bool { return f.first == len(f.queue) }

// hasUpTo reports whether there is a fact with a sequence up to that.
func (f *facts) hasUpTo(seq int64) bool { return !f.empty() && f.queue[f.first].seq <= seq }

func (f *facts) push(x fact) {
	if f.empty() {
		f.queue, f.first = f.queue[:0], 0
	}
	at := len(f.queue)
	if at > f.first && f.queue[at-1].seq > x.seq {
		left, _ := slices.BinarySearchFunc(f.queue[f.first:], x.seq, func(y fact, seq int64) int {
			return cmp.Compare(y.seq, seq)
		})
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

// hasFact reports whether the outcome of such an operation is among the facts.
func (t *turns) hasFact(is func(*operation) bool) bool {
	return slices.ContainsFunc(t.facts.queue[t.facts.first:], func(x fact) bool {
		o, ok := x.what.(*operation)
		return ok && is(o)
	})
}

// hold makes b the holder of the turn. The goroutine of b is started, woken, or is the caller.
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

// endTurn takes the turn from its holder. The entries that the turn has appended are sealed, unless
// they can wait for more.
func (r *run) endTurn() {
	r.free()
	if !r.hasLeft() && !r.keep() {
		r.seal()
	}
}

// dispatch passes the turn to the next branch that can go on, and delivers facts until there is
// one. While a branch has the turn, it does nothing.
func (r *run) dispatch() {
	if r.isFrozen() && !r.gone() {
		r.stayFrozen()
		return
	}
	if (r.trial.isAwaiting() || r.admission.isAsking()) && !r.gone() {
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
		case r.isTentative(): // the entries after the tentative result must wait
			return
		case f != nil:
			f.deliver()
			continue
		}
		if r.fire() || offerFreed(r) {
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

// idle records the status of the waiting run, lets entries that were appended outside of turns
// become durable, and lets a run that only waits leave memory.
func (r *run) idle() {
	if r.gone() {
		return
	}
	if r.catchUp() {
		r.observed.tellReplayed(false)
	}
	r.tellStatus()
	if r.trial.isOn() && !r.operations.flies() && r.allWaiting() {
		r.acquit()
	}
	if !r.keep() {
		r.seal()
	}
	r.seek()
	r.considerUnload()
}

// tellStatus records the status of a run that goes on or waits: the phase of its pattern, if it has
// one.
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

package kernel

import (
	"cmp"
	"runtime"
	"slices"
	"time"

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
// It is guarded by its run's mu.
type turns struct {
	holder     *branch // nil while every branch is parked
	turn       int64   // counts turns
	opened     int64   // what was appended before the turn's own entries
	ready      []*branch
	facts      facts
	branches   []*branch // that have begun and not ended, and those that will
	deliveries int64     // operations delivered so far
	watched    bool      // somebody is to look at a turn that keeps others from going on
	lent       bool      // order is no longer promised
	held       int64     // up to this, entries that were kept for others to join them are sealed soon; 0 without
	heldAt     time.Time // since when
	caughtUp   bool      // code has gone as far as it can without what is not recorded
	spilling   int       // payloads that the engine makes durable for workflow code: what a turn has appended may be sealed meanwhile
	reading    int       // payloads that the engine reads for the holder, which is no reason to lend
}

// branchState says whether a branch may call durable operations.
type branchState uint8

const (
	isNew     branchState = iota // waits for its first turn
	isHolder                     // has the turn
	isParked                     // waits in a durable operation
	isReady                      // could go on and waits for the turn
	isOutside                    // its turn was lent while it blocked outside the engine
	isOver                       // has returned
)

// A branch is one goroutine of a run: the workflow function itself, or what Go
// started.
type branch struct {
	run   *run
	scope *scope
	state branchState
	wake  chan struct{} // gets one value each time the branch is given the turn
	body  func()        // what the goroutine does; it returns with the turn or by Goexit
	op    *operation    // that ends with the branch; nil for the root
	at    journal.Op    // its last durable operation, for people

	cleanup *cleanup // that it does; nil for others

	heard, told int // how often it has learned of something outside it, and of how much of that its entries tell
}

// A fact is something recorded that workflow code does not know yet: mostly the
// outcome of an operation.
type fact struct {
	seq  int64
	what interface{ deliver() }
}

// hold gives b the turn. Its goroutine is started, woken, or is the caller.
func (r *run) hold(b *branch) {
	r.holder = b
	r.turn++
	r.opened = r.seq
	if r.seq > r.sealed && r.held == 0 {
		r.k.late.watch(r, r.turn)
	}
	begun := b.state != isNew
	b.state = isHolder
	if !begun {
		go b.main()
		return
	}
	b.wake <- struct{}{}
}

// endTurn leaves nobody holding the turn. What it appended is sealed, unless it can
// wait for more.
func (r *run) endTurn() {
	r.holder = nil
	if !r.left && !r.keep() {
		r.seal(r.seq)
	}
}

// dispatch gives the turn to the next branch that can go on, delivering facts
// until there is one. It does nothing while somebody has the turn.
func (r *run) dispatch() {
	if r.frozen && !r.gone() {
		r.stayFrozen()
		return
	}
	if r.trial == awaiting && !r.gone() {
		r.commands()
		r.flush()
		return
	}
	if r.holder != nil {
		r.contend()
		return
	}
	for {
		if len(r.ready) > 0 {
			b := r.ready[0]
			r.ready = r.ready[:copy(r.ready, r.ready[1:])]
			if r.hold(b); len(r.ready) > 0 || !r.facts.empty() {
				r.contend()
			}
			return
		}
		if r.tentative != 0 { // what comes after it must wait
			return
		}
		if !r.facts.empty() {
			r.facts.pop().deliver()
			continue
		}
		if r.fire() {
			continue
		}
		r.commands()
		if r.frozen {
			return
		}
		if len(r.ready) == 0 && r.facts.empty() {
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
	if !r.caughtUp {
		r.caughtUp = true
		r.tellReplayed(false)
	}
	r.tellStatus()
	if r.trial == onTrial && r.inFlight == 0 && r.allParked() {
		r.acquit()
	}
	if !r.keep() {
		r.seal(r.seq)
	}
	r.seek()
	r.considerRest()
}

// tellStatus records where the run is, that goes on or waits: in the phase of its pattern,
// if it has one.
func (r *run) tellStatus() {
	phase := r.phase
	if phase == journal.Running {
		phase = 0
	}
	waits := r.head.Status == journal.Suspended || r.head.Status == journal.CompensationFailed
	switch {
	case r.inFlight > 0:
		if waits || r.head.Status == journal.Waiting || r.head.Status == journal.Running {
			r.restate(cmp.Or(phase, journal.Running))
		}
	case r.deciding > 0 && phase == journal.Compensating:
		r.restate(journal.CompensationFailed)
	case r.deciding > 0:
		r.restate(journal.Suspended)
	case r.waits > 0 && (waits || r.head.Status == journal.Running):
		r.restate(cmp.Or(phase, journal.Waiting))
	}
}

// park gives the turn up until b is made ready and gets it again. It is called
// and returns with the lock. Where the run has left memory meanwhile, it ends
// the goroutine.
func (r *run) park(b *branch) {
	b.state = isParked
	r.endTurn()
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
	r.stay()
}

// stay ends the calling goroutine of the run where the run has left memory.
// The language gives no way to end a goroutine without running its deferred
// functions, so they run; durable calls in them come here again.
func (r *run) stay() {
	if r.left {
		runtime.Goexit()
	}
}

// unpark makes a parked branch ready.
func (r *run) unpark(b *branch) {
	if b.state == isParked {
		b.state = isReady
		r.ready = append(r.ready, b)
	}
}

// rejoin waits for the turn after it was lent away.
func (r *run) rejoin(b *branch) {
	b.state = isReady
	r.ready = append(r.ready, b)
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
}

// withoutLock calls workflow code for a branch that has the turn: without the
// lock, which is held again when the code panics or ends its goroutine. When it
// has returned, the branch has the turn, and the run may have ended.
func (r *run) withoutLock(b *branch, code func()) {
	func() {
		r.mu.Unlock()
		defer r.mu.Lock()
		b.workflow(code)
	}()
	r.stay()
	for b.state == isOutside {
		r.rejoin(b)
		r.stay()
	}
}

// A waitset is what a branch waits for: one operation or several. Operations
// that end are added to done in the order in which their facts are delivered.
type waitset struct {
	b    *branch
	done []*operation
	ops  []*operation // that it is a watcher of
	end  *operation   // the end of the context of the wait; nil without
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

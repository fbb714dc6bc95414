package kernel

import (
	"runtime"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
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

// main is the goroutine of a branch. What the body leaves open is closed here:
// a panic is kept and the run's code is replayed later (L-16 of the spec);
// Goexit of the engine's own making ends the goroutine and nothing else.
func (b *branch) main() {
	r := b.run
	guard.Run(b.body, func(abort *guard.Abort) {
		if abort == nil {
			return
		}
		var f *journal.Failure
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone() { // else the engine itself has ended the goroutine
			r.mu.Unlock()
			f = abortFailure("the workflow", abort)
			r.mu.Lock()
		}
		if f != nil && !r.gone() {
			r.panicked(f)
		}
		b.end()
	})
}

// park gives the turn up until the branch is made ready and gets it again. It is called
// and returns with the lock. Where the run has left memory meanwhile, it ends
// the goroutine.
func (b *branch) park() {
	r := b.run
	b.state = isParked
	r.endTurn()
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
	r.stay()
}

// rejoin waits for the turn after it was lent away.
func (b *branch) rejoin() {
	r := b.run
	r.lineUp(b)
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
}

// withoutLock calls workflow code for the branch, which has the turn: without the
// lock, which is held again when the code panics or ends its goroutine. When it
// has returned, the branch has the turn, and the run may have ended.
func (b *branch) withoutLock(code func()) {
	r := b.run
	func() {
		r.mu.Unlock()
		defer r.mu.Lock()
		b.workflow(code)
	}()
	r.stay()
	for b.state == isOutside {
		b.rejoin()
		r.stay()
	}
}

// returned takes the value that the body of a branch returned.
func (b *branch) returned(data []byte, failure *journal.Failure) {
	r := b.run
	r.stay()
	for b.state == isOutside { // it may be lent again before this goroutine has the lock
		b.rejoin()
		r.stay()
	}
	if b.cleanup != nil && r.ended() == nil {
		b.cleanup.ended(failure)
		b.end()
		return
	}
	if r.ended() == nil && b.scope.cancelled() == nil {
		if r.memo != nil && !r.lent() {
			if err := r.memo.closing(b.scope.id); err != nil {
				r.mismatch(err)
			}
		}
		if c := failure.OwnClass(); c != nil && c.Class == journal.ClassPark {
			r.suspend(c.Message, failure)
			runtime.Goexit()
		}
		b.op.outcome = Outcome{Data: data, Failure: failure}
		b.op.deliver()
		b.scope.unused = func() { b.op.cancel(errBranchReturned) }
		b.scope.use(0)
	}
	b.end()
}

// end takes the branch off the run and passes the turn on.
func (b *branch) end() {
	r := b.run
	held := b.state == isHolder
	b.state = isOver
	r.remove(b)
	if held {
		r.endTurn()
		r.dispatch()
	}
}

// abortFailure describes how code ended that did not return.
func abortFailure(who string, a *guard.Abort) *journal.Failure {
	f := &journal.Failure{Code: journal.CodePanic, Stack: a.Stack(), Message: who + " called runtime.Goexit"}
	if !a.Exited {
		f.Message = who + " panicked: " + a.Text()
	}
	return f
}

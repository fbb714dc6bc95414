package kernel

import (
	"context"
	"fmt"
	"runtime"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// A branch is one goroutine of a run: the workflow function itself, or a body that Go started.
type branch struct {
	run   *run
	scope *scope
	state branchState
	wake  chan struct{} // gets one value each time the branch is given the turn
	body  func()        // the work of the goroutine; it returns with the turn or by Goexit
	op    *operation    // the operation that ends with the branch; nil for the root
	at    journal.Op    // its last durable operation, for messages to people

	cleanup *cleanup // the clean-up that it performs; nil for other branches

	// how often it has learned of something outside it, and how many of these times its entries
	// record
	heard, told int
}

// A branchState is the state of a branch. It decides whether the branch may call durable
// operations.
type branchState uint8

const (
	isNew     branchState = iota // waits for its first turn
	isHolder                     // has the turn
	isWaiting                    // waits in a durable operation
	isReady                      // is able to go on and waits for the turn
	isOutside                    // its turn was lent while it blocked outside the engine
	isOver                       // has returned
)

// call calls the code of the run. b is the root branch.
func (b *branch) call() {
	r := b.run
	r.trial.enter(r.lastProgress())
	r.hold(b)
	r.commands()
}

// main is the goroutine of a branch. It cleans up after the body: after a panic, the run's code is
// replayed later (L-16 of the spec); a Goexit by the engine itself ends only the goroutine.
func (b *branch) main() {
	r := b.run
	guard.Run(b.body, func(abort *guard.Abort) {
		if abort == nil {
			return
		}
		var f *journal.Failure
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone() { // otherwise the engine itself has ended the goroutine
			r.mu.Unlock()
			f = abortFailure("the workflow", abort)
			r.mu.Lock()
		}
		if f != nil && !r.gone() {
			b.panicked(f)
		}
		b.end()
	})
}

// execute is the body of the root branch: it calls the workflow function, from the top.
func (b *branch) execute(ctx context.Context) {
	r := b.run
	input, seq := r.values.startInput()
	if seq != 0 {
		var err error
		if input, err = r.k.fetch(r.number(), seq); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stay()
			if r.ended() == nil {
				b.unreadable(err)
			}
			b.end()
			return
		}
		r.mu.Lock()
		r.values.fetchedInput(input)
		r.mu.Unlock()
	}
	var data []byte
	var failure *journal.Failure
	b.workflow(func() { data, failure = r.def.Body(ctx, input) })
	spill := journal.Number(0)
	if failure == nil {
		spill, failure = b.scope.spillOver("the output", &data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stay()
	if b.state == isOutside {
		b.regainTurn()
		r.stay()
	}
	switch {
	case r.ended() != nil:
	case r.ending.closing() != nil: // the result of the function does not count any more
		r.ending.closing().deliver()
	default:
		b.concludes(data, spill, failure)
	}
	b.end()
}

// concludes ends the run by the result of its function.
func (b *branch) concludes(data []byte, spill journal.Number, failure *journal.Failure) {
	r := b.run
	if r.memo != nil && !r.lent() {
		if err := r.memo.closing(0); err != nil {
			b.mismatch(err)
		}
		r.observed.tellReplayed(true)
	}
	if failure == nil {
		r.finish(completedWith(data, spill), false)
		return
	}
	if c := failure.OwnClass(); c != nil {
		switch c.Class {
		case journal.ClassRetry:
			b.panicked(failure)
			return
		case journal.ClassPark:
			r.suspend(&journal.Detail{Reason: c.Message, Failure: failure})
			return
		}
	}
	r.finish(failedBy(failure), false)
}

// returned takes the result of the body of a branch.
func (b *branch) returned(data []byte, failure *journal.Failure) {
	r := b.run
	r.stay()
	for b.state == isOutside { // the turn may be lent again before this goroutine has the lock
		b.regainTurn()
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
				b.mismatch(err)
			}
		}
		if c := failure.OwnClass(); c != nil && c.Class == journal.ClassPark {
			r.suspend(&journal.Detail{Reason: c.Message, Failure: failure})
			runtime.Goexit()
		}
		b.op.outcome = Outcome{Data: data, Failure: failure}
		b.op.deliver()
		b.scope.unused = func() { b.op.cancel(errBranchReturned) }
		b.scope.use(0)
	}
	b.end()
}

// end removes the branch from the run and passes the turn on.
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

// waitReady passes the turn on, and waits, until the branch is made ready and gets the turn again.
// It is called and returns with the lock. If the run has left memory meanwhile, it ends the
// goroutine.
func (b *branch) waitReady() {
	r := b.run
	b.state = isWaiting
	r.endTurn()
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
	r.stay()
}

// regainTurn waits for the turn after it was lent away.
func (b *branch) regainTurn() {
	r := b.run
	r.lineUp(b)
	r.dispatch()
	r.mu.Unlock()
	<-b.wake
	r.mu.Lock()
}

// withoutLock calls workflow code for the branch, which has the turn. It releases the lock during
// the call, and holds it again afterwards, also when the code panics or ends its goroutine. When it
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
		b.regainTurn()
		r.stay()
	}
}

// mismatch parks the run because its code does not fit its journal, and ends the calling goroutine.
// The entries of this turn are dropped.
func (b *branch) mismatch(err error) {
	r := b.run
	r.unappend()
	r.suspend(&journal.Detail{
		Reason:  "nondeterministic: " + err.Error(),
		Failure: &journal.Failure{Code: journal.CodeNondeterministic, Message: err.Error()},
	})
	runtime.Goexit()
}

// unreadable parks the run because a payload of its journal cannot be read, and
// ends the calling goroutine.
func (b *branch) unreadable(err error) {
	b.run.suspend(unreadable(err))
	runtime.Goexit()
}

// unreadable returns the detail of a suspension because something of the run cannot be read.
func unreadable(err error) *journal.Detail {
	return &journal.Detail{
		Reason:  err.Error(),
		Failure: &journal.Failure{Code: journal.CodeCorrupt, Message: err.Error()},
	}
}

// panicked makes the run's code be replayed later, from the journal: the run leaves memory and is
// due again after a while. It keeps its finished steps.
func (b *branch) panicked(f *journal.Failure) {
	r := b.run
	failures := 1
	if r.memo != nil && r.trial.isIdle(r.lastProgress()) {
		failures = r.memo.failures + 1
	}
	after, again := r.def.Panics(failures)
	if !again {
		r.suspend(&journal.Detail{
			Reason:  fmt.Sprintf("its code failed %d times in a row: %s", failures, f.Message),
			Failure: f, Failures: failures,
		})
		return
	}
	due := r.k.Now().Add(after).Round(0)
	if deadline := r.due(); !deadline.IsZero() && deadline.Before(due) {
		due = deadline
	}
	holdUnbegun(r)
	r.leaveHead(journal.Waiting, f.Message, due)
	r.append(journal.Entry{
		Kind: journal.RunRetrying, Status: journal.Waiting,
		Detail: &journal.Detail{Failure: f, Failures: failures, Due: due},
	})
	r.leave()
	r.seal()
	r.whenDurable(effect{do: func() { r.k.wakeBy(due) }})
}

// abortFailure returns the failure of code that did not return.
func abortFailure(who string, a *guard.Abort) *journal.Failure {
	f := &journal.Failure{
		Code: journal.CodePanic, Stack: a.Stack(), Message: who + " called runtime.Goexit",
	}
	if !a.Exited {
		f.Message = who + " panicked: " + a.Text()
	}
	return f
}

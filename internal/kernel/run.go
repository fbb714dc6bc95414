package kernel

import (
	"context"
	"errors"
	"sync"

	"github.com/perdure/perdure/journal"
)

// ErrUnloaded is the cause of a run's context when the run leaves this engine's
// memory without having ended.
var ErrUnloaded = errors.New("perdure: the run left this engine's memory")

// A run is one activation of a run in this engine: from its start or claim until it ends or leaves;
// see activation.
//
// The mu guards everything in it, except what never changes after newRun. The lock is taken before
// the kernel's and the pipeline's, never after. The state of a run is in value types, each of which
// has a file with its invariants; the run asks them, and carries out their answers.
type run struct {
	k     *Kernel
	def   *Workflow // nil if the engine only writes a mark
	memo  *memo     // nil for a run that was started here
	ctx   context.Context
	stop  context.CancelCauseFunc
	root  *branch
	begun chan struct{}   // closed when a new run is durable
	done  chan struct{}   // closed when the activation is over
	start *journal.Detail // the detail of the run's first entry
	bytes int64           // the size of the journal that it was claimed with

	mu          sync.Mutex
	log                     // its entries on their way to the store
	kept        keeping     // its results that wait for others
	turns                   // which branch may run workflow code
	activation              // how far it is between its claim and its leave
	freezing                // it is suspended, and steps in flight go on
	operations  operations  // operations that have begun and are not over
	waits       waits       // operations that wait
	inbox       inbox       // messages that it has not taken
	values      values      // values that it began with, and that its code has set
	outputs     outputs     // how much its steps have put out
	deadLetters deadLetters // its dead letters
	adoption    adoption    // children that an earlier run has begun
	ending      ending      // how it will end
	deadline    alarm       // the alarm of the overall timeout
	trial       trial       // whether it kills its engines
	admission   admission   // what it waits for before its code is called
	observed    observed    // what observers hear of it
}

// newRun returns the activation of the run with that head.
func (k *Kernel) newRun(head journal.Head, def *Workflow, m *memo) *run {
	r := &run{k: k, def: def, memo: m, begun: make(chan struct{}), done: make(chan struct{})}
	r.log = newLog(head, m.reaches(), k.clock, &k.gate, &k.buffers)
	first := journal.Status(0)
	if def != nil {
		first = def.First
		if def.Changes != nil && def.Changes.Publish {
			r.follow(func(e *journal.Entry) (journal.Entry, bool) { return changed(r, e) })
		}
	}
	r.values, r.outputs = newValues(first, m), newOutputs(m)
	r.ending = newEnding(m)
	r.observed, r.adoption = newObserved(r), newAdoption(r)
	r.admission.run = r
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	s := &scope{run: r, ctx: r.ctx, done: r.ctx.Done()}
	r.root = &branch{run: r, scope: s, wake: make(chan struct{}, 1)}
	s.branch = r.root
	r.root.body = func() { r.root.execute(context.WithValue(r.ctx, contextKey{}, s)) }
	r.add(r.root, true)
	return r
}

// suspended returns the cause of a suspension by an operator. It is never empty, because messages
// do not wake a run that has a cause.
func suspended(reason string) string {
	if reason == "" {
		return "suspended by an operator"
	}
	return reason
}

// suspend parks the run: it waits for an operator. Only this entry is written, and attempts in
// flight are given up.
func (r *run) suspend(d *journal.Detail) { r.suspendAt(journal.Op{}, d) }

// suspendAt parks the run because of an operation.
func (r *run) suspendAt(op journal.Op, d *journal.Detail) {
	if r.gone() && r.refusedBy() == nil {
		return
	}
	holdUnbegun(r)
	wake := r.due()
	if r.inbox.find(unparks) != nil { // the message came while nothing could be done
		wake = r.created()
	}
	r.leaveHead(journal.Suspended, suspended(d.Reason), wake)
	r.append(journal.Entry{
		Kind: journal.RunSuspended, Status: journal.Suspended, Op: op, Detail: d,
	})
	r.unloadHead(r.inbox.known())
	r.leave()
	r.seal()
}

// depart removes the run from memory when every entry of it is durable, or never will be. Contexts
// end, and with them the goroutines of the run.
func (r *run) depart() {
	r.mu.Lock()
	cause, first := r.takeLeave()
	if !first {
		r.mu.Unlock()
		return
	}
	if r.trial.end(true, r.lastDurable()) {
		r.k.trials.over(r)
	}
	for o := range r.operations.all() {
		if o.timer != nil {
			o.timer.Stop()
		}
		if o.ignore != nil {
			o.ignore()
		}
		o.attempt.abandon(nil)
	}
	r.ending.stop(cause)
	r.deadline.stop()
	r.dropEffects()
	r.stop(cause)
	if r.makeAllReady() {
		r.dispatch()
	}
	r.mu.Unlock()
	r.k.forget(r)
	close(r.done)
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// ErrUnloaded is the cause of a run's context when the run leaves this engine's
// memory without having ended.
var ErrUnloaded = errors.New("perdure: the run left this engine's memory")

// A run is one residence of a run in this engine: from its start or claim until
// it ends or leaves. Once end is set or left is true, it is decided that the
// residence is over, and nothing may be appended any more. Once it has departed
// and done is closed, that decision is durable or never will be: contexts have
// ended and waiters hear.
//
// Everything in it is guarded by mu, except what never
// changes after newRun. The lock is taken before the kernel's and the
// pipeline's, never after.
type run struct {
	k    *Kernel
	def  *Workflow // nil where the engine only writes a mark
	memo *memo     // nil for a run that was started here
	ctx  context.Context
	stop context.CancelCauseFunc
	root *branch

	begun chan struct{} // closed when a new run is durable
	done  chan struct{} // closed when the residence is over

	mu sync.Mutex
	log
	turns
	residence
	kept   keeping
	inbox  inbox
	values values
	freezing
	letters    letters
	start      *journal.Detail // of the run's first entry
	operations operations
	waits      waits
	adoption   adoption
	ending     ending
	deadline   alarm            // of the overall timeout
	paths      map[int64]shown  // of the scopes, where somebody observes
	unheard    bool             // a client has made it, and observers have not heard
	bytes      int64            // of the journal that it was claimed with
	broken     *journal.Failure // why that cannot be replayed; nil where it can
	trial      trial
}

// newRun gives the residence of the run with that head.
func (k *Kernel) newRun(head journal.Head, def *Workflow, m *memo) *run {
	r := &run{k: k, def: def, memo: m, begun: make(chan struct{}), done: make(chan struct{})}
	r.log = newLog(head, r.recorded(), &k.gate, &k.buffers)
	first := journal.Status(0)
	if def != nil {
		first = def.First
	}
	r.values = newValues(first, m)
	r.ending = newEnding(m)
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	s := &scope{run: r, ctx: r.ctx, done: r.ctx.Done()}
	r.root = &branch{run: r, scope: s, wake: make(chan struct{}, 1)}
	s.branch = r.root
	r.root.body = func() { r.execute(context.WithValue(r.ctx, contextKey{}, s)) }
	r.add(r.root, true)
	return r
}

// execute is what the root branch does: the workflow function, from the top.
func (r *run) execute(ctx context.Context) {
	input, seq := r.values.startInput()
	if seq != 0 {
		var err error
		if input, err = r.k.fetch(r.number(), seq); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stay()
			if r.ended() == nil {
				r.unreadable(err)
			}
			r.root.end()
			return
		}
		r.mu.Lock()
		r.values.fetchedInput(input)
		r.mu.Unlock()
	}
	var data []byte
	var failure *journal.Failure
	r.root.workflow(func() { data, failure = r.def.Body(ctx, input) })
	spill := journal.Number(0)
	if failure == nil {
		spill, failure = r.spillOver("the output", &data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stay()
	if r.root.state == isOutside {
		r.root.rejoin()
		r.stay()
	}
	switch {
	case r.ended() != nil:
	case r.ending.closing() != nil: // what it returns does not count any more
		r.ending.closing().deliver()
	default:
		r.returned(data, spill, failure)
	}
	r.root.end()
}

// returned ends the run by what its function returned.
func (r *run) returned(data []byte, spill journal.Number, failure *journal.Failure) {
	if r.memo != nil && !r.lent() {
		if err := r.memo.closing(0); err != nil {
			r.mismatch(err)
		}
		r.tellReplayed(true)
	}
	if failure == nil {
		r.finish(completedWith(data, spill), false)
		return
	}
	if c := failure.OwnClass(); c != nil {
		switch c.Class {
		case journal.ClassRetry:
			r.panicked(failure)
			return
		case journal.ClassPark:
			r.suspend(c.Message, failure)
			return
		}
	}
	r.finish(failedBy(failure), false)
}

// suspended is why an operator suspended a run; never empty, since a run with a
// cause is not woken by messages.
func suspended(reason string) string {
	if reason == "" {
		return "suspended by an operator"
	}
	return reason
}

// suspend parks the run: it waits for an operator. But for this mark nothing is
// written, and what is in flight is given up.
func (r *run) suspend(cause string, f *journal.Failure) {
	r.suspendWith(&journal.Detail{Reason: cause, Failure: f})
}

func (r *run) suspendWith(d *journal.Detail) { r.suspendAt(journal.Op{}, d) }

// suspendAt parks the run because of an operation.
func (r *run) suspendAt(op journal.Op, d *journal.Detail) {
	if r.gone() && r.refusedBy() == nil {
		return
	}
	wake := r.due()
	if r.inbox.find(unparks) != nil { // it came while nothing could be done
		wake = r.head().Created
	}
	r.leaveHead(journal.Suspended, suspended(d.Reason), wake)
	r.append(journal.Entry{Kind: journal.RunSuspended, Status: journal.Suspended, Op: op, Detail: d})
	r.asksRest()
	r.leave()
	r.sealAll()
}

// mismatch parks the run because its code does not fit its journal, and ends
// the calling goroutine. What this turn appended is dropped.
func (r *run) mismatch(err error) {
	r.unappend()
	r.suspend("nondeterministic: "+err.Error(), &journal.Failure{
		Code: journal.CodeNondeterministic, Message: err.Error(),
	})
	runtime.Goexit()
}

// unreadable parks the run because a payload of its journal cannot be read, and
// ends the calling goroutine.
func (r *run) unreadable(err error) {
	r.suspend(err.Error(), &journal.Failure{Code: journal.CodeCorrupt, Message: err.Error()})
	runtime.Goexit()
}

// panicked has the run's code replayed later, from the journal: the run leaves
// memory and is due again after a while. It keeps its finished steps.
func (r *run) panicked(f *journal.Failure) {
	failures := 1
	if r.memo != nil && r.trial.isIdle(r.last()) {
		failures = r.memo.failures + 1
	}
	after, again := r.def.Panics(failures)
	if !again {
		r.suspendWith(&journal.Detail{
			Reason: fmt.Sprintf("its code failed %d times in a row: %s", failures, f.Message), Failure: f, Failures: failures,
		})
		return
	}
	due := time.Now().Add(after).Round(0)
	if deadline := r.due(); !deadline.IsZero() && deadline.Before(due) {
		due = deadline
	}
	r.leaveHead(journal.Waiting, f.Message, due)
	r.append(journal.Entry{
		Kind: journal.RunRetrying, Status: journal.Waiting,
		Detail: &journal.Detail{Failure: f, Failures: failures, Due: due},
	})
	r.leave()
	r.sealAll()
	r.whenDurable(effect{do: func() { r.k.wakeBy(due) }})
}

// depart takes the run out of memory when everything it recorded is durable, or
// never will be: contexts end, and the goroutines of the run with them.
func (r *run) depart() {
	r.mu.Lock()
	cause, first := r.takeLeave()
	if !first {
		r.mu.Unlock()
		return
	}
	r.weigh(true)
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
	if r.unparkAll() {
		r.dispatch()
	}
	r.mu.Unlock()
	r.k.forget(r)
	close(r.done)
}

func (r *run) recordOf(op journal.Op) *record {
	if r.memo == nil {
		return nil
	}
	return r.memo.ops[op]
}

// notice gives a notice about the run.
func (r *run) notice(kind observe.Kind) observe.Notice {
	return observe.Notice{
		Kind: kind, At: time.Now(), Run: string(r.head().ID), WorkflowID: r.head().WorkflowID,
		Workflow: r.head().Workflow, Pattern: r.head().Pattern.String(),
	}
}

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
	"github.com/perdure/perdure/store"
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
	kept       keeping
	inbox      inbox
	values     values
	frozen     bool         // suspended, and steps in flight go on
	heldBack   []*operation // whose attempts may begin when it is not frozen any more
	letters    letters
	start      *journal.Detail // of the run's first entry
	operations operations
	waits      waits
	fetching   int          // questions to the store about the inbox, and about children
	adopted    []*operation // children of an earlier run whose ends are to be asked for
	adopting   bool         // somebody asks
	cleanups   []*cleanup   // in the order in which they were planned
	implied    bool         // the first of them has no record: see journal.ImpliedCleanup
	cleaning   cleanings
	closing    *closing        // the run is to end, and cleans up; nil while it is not
	resting    bool            // it has asked to leave memory
	again      bool            // it was parked, and must be looked at again
	claimed    bool            // while it was about to leave: see awaits
	awake      chan struct{}   // closed when that is decided
	lingers    bool            // it is among those that rest after a while
	idleSince  time.Time       // that while ends then
	paths      map[int64]shown // of the scopes, where somebody observes
	unheard    bool            // a client has made it, and observers have not heard
	timeout    *time.Timer
	bytes      int64            // of the journal that it was claimed with
	broken     *journal.Failure // why that cannot be replayed; nil where it can
	trial      trialState
	tries      int    // trials that were before
	tried      int64  // the record of the trial
	acquitted  func() // ends it

	end      *journal.Error // the termination error once the run is over
	entered  int64          // the last entry when the code began here
	result   Outcome        // that it ended with
	left     bool           // it leaves without having ended
	departed bool
	refusal  error         // of the store
	verdict  store.Verdict // of a start
	found    journal.Head  // by a start whose ID was taken
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
			if r.end == nil {
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
	case r.end != nil:
	case r.closing != nil: // what it returns does not count any more
		r.closing.deliver()
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
		e := journal.Entry{Kind: journal.RunCompleted, Status: journal.Completed, Data: data, Spill: spill}
		if spill != 0 {
			e.Data = nil
		}
		r.result = Outcome{Data: data}
		_ = r.finish(e, "workflow completed", &journal.Error{Code: journal.CodeCompleted, Message: "the workflow has returned"}, false)
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
	r.fail(failure)
}

// fail ends the run as FAILED with that failure.
func (r *run) fail(f *journal.Failure) *journal.Error {
	e := journal.Entry{Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{Failure: f}}
	r.decide(Outcome{Failure: f})
	return r.finish(e, "workflow failed: "+f.Message, &journal.Error{Code: journal.CodeFailed, Message: "the workflow has failed: " + f.Message}, false)
}

// endAs ends the run with that status, output and failure.
func (r *run) endAs(status journal.Status, data []byte, spill journal.Number, f *journal.Failure) *journal.Error {
	e := journal.Entry{Kind: kindOfEnd(status), Status: status, Data: data, Spill: spill}
	if spill != 0 {
		e.Data = nil
	}
	if f != nil {
		e.Detail = &journal.Detail{Failure: f, Reason: f.Message}
	}
	r.decide(Outcome{Data: data, Failure: f})
	why := "workflow ended as " + status.String()
	return r.finish(e, why, &journal.Error{Code: journal.CodeCompleted, Message: "the " + why}, false)
}

// kindOfEnd gives the terminal record of a status.
func kindOfEnd(s journal.Status) journal.Kind {
	switch s {
	case journal.Cancelled, journal.Canceled:
		return journal.RunCancelled
	case journal.TimedOut:
		return journal.RunTimedOut
	}
	if s.IsSuccess() {
		return journal.RunCompleted
	}
	return journal.RunFailed
}

// decide keeps how the run will have ended, unless that is decided.
func (r *run) decide(out Outcome) {
	if r.closing == nil || r.holder() != nil && r.holder().cleanup != nil {
		r.result = out
	}
}

// cancel ends the run as CANCELLED, because a message of that number asked for
// it, or for another reason where that is 0.
func (r *run) cancel(reason string, mail int64, outside bool) *journal.Error {
	f := &journal.Failure{Code: journal.CodeCancelled, Message: "workflow cancelled: " + reason}
	e := journal.Entry{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{Failure: f, Reason: reason, Mail: mail}}
	r.decide(Outcome{Failure: f})
	return r.finish(e, "workflow cancelled: "+reason, &journal.Error{Code: journal.CodeCancelled, Message: f.Message}, outside)
}

// timeOut ends the run as TIMED_OUT.
func (r *run) timeOut() *journal.Error {
	f := &journal.Failure{Code: journal.CodeTimedOut, Message: "workflow timed out"}
	e := journal.Entry{Kind: journal.RunTimedOut, Status: journal.TimedOut, Detail: &journal.Detail{Failure: f}}
	r.decide(Outcome{Failure: f})
	return r.finish(e, "workflow timed out", &journal.Error{Code: journal.CodeTimedOut, Message: f.Message}, true)
}

// terminate ends the run: first every step still running is cancelled, in the
// order of the starts, then the run's own terminal record follows (L-12 of the
// spec). No record waits for a step's goroutine. Contexts end, and branches
// hear of it, when the records are durable. With the record go the messages to
// the parent and to children.
func (r *run) terminate(e journal.Entry, why string, end *journal.Error) *journal.Error {
	for _, o := range r.operations.running() {
		switch o.class {
		case isScope:
			r.append(journal.Entry{Kind: journal.ScopeCancelled, Op: o.id, Detail: &journal.Detail{Reason: why}})
		case isStep, isAsync:
			o.stop(why)
		case isChild:
			if endsWith(o.policy, e.Status) {
				r.endChild(o.child, why)
			}
		}
	}
	if r.memo != nil {
		r.terminateRecorded(e.Status, why)
	}
	if r.timeout != nil {
		r.timeout.Stop()
	}
	r.end = end
	r.endHead(e.Status, r.last()+1, r.letters.keep(r.start, e.Status, r.head().Keep, r.k.cfg.KeepLettered))
	if r.k.tells(r.head()) {
		d := journal.Detail{}
		if e.Detail != nil {
			d = *e.Detail
		}
		d.Tell = true
		e.Detail = &d
	}
	r.append(e)
	if r.head().Parent != 0 && e.Kind != journal.RunContinued {
		child := journal.MakeRunID(r.k.database(), r.head().Chain)
		r.send(outgoing{post: &store.Post{
			Run: r.head().Parent, Follow: store.FollowRetry, Message: childEnded(child, r.head().ID, e.Status, r.result, e.Spill),
		}})
	}
	for _, p := range r.letters.settle(r.head().ID, r.start, e.Status, r.result.Failure) {
		r.send(outgoing{post: &p})
	}
	r.sealAll()
	return end
}

// terminateRecorded ends what the journal says goes on and the code of this
// residence has not asked for.
func (r *run) terminateRecorded(status journal.Status, why string) {
	for _, rec := range r.memo.open() {
		d := &journal.Detail{Reason: why, Async: rec.class == isAsync}
		r.append(journal.Entry{Kind: journal.StepCancelled, Op: rec.op, Detail: d})
	}
	for _, rec := range r.memo.order {
		if rec.class == isChild && !rec.asked && rec.ended == nil && endsWith(rec.policy, status) {
			r.endChild(rec.other, why)
		}
	}
}

// ContinueAsNew ends the run of ctx and has a successor go on with that input
// under the same workflow ID, from its beginning and with an empty journal. In
// the same commit it gets the messages that nobody has taken and the named timers
// that have not fired. It gives the termination error.
func ContinueAsNew(ctx context.Context, input []byte) error {
	what := call{verb: "continue as new"}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	spill, failure := s.run.spillOver("the input", &input)
	if failure != nil {
		return &journal.Error{Code: failure.Code, Op: what.String(), Message: failure.Message}
	}
	return finishRun(ctx, what, func(r *run) *journal.Error { return r.continueAsNew(input, spill) })
}

func (r *run) continueAsNew(input []byte, spill journal.Number) *journal.Error {
	if c := r.closing; c != nil { // which nothing comes after
		c.deliver()
		return c.end
	}
	n, err := r.k.number()
	if err != nil {
		return &journal.Error{Code: journal.CodeStopped, Op: "continue as new", Err: err}
	}
	id := journal.MakeRunID(r.k.database(), n)
	timers := r.openTimers()
	end := r.terminate(
		journal.Entry{Kind: journal.RunContinued, Status: journal.ContinuedAsNew, Detail: &journal.Detail{Other: id}},
		"workflow continued as new", &journal.Error{Code: journal.CodeCompleted, Message: "the workflow has continued as new"})
	now := time.Now()
	created := later(now, r.head().Ended.Add(1)) // by which the successor is the newer one, whatever the clocks of nodes say
	start := &journal.Detail{Build: r.k.cfg.Build, Other: r.head().ID, Attributes: r.values.searchAttributes(), Began: r.head().Created, Ended: r.head().Ended}
	if r.start != nil {
		start.Headers = r.start.Headers
	}
	entries := append([]journal.Entry{{Kind: journal.RunStarted, Status: journal.Pending, Data: input, Spill: spill, Detail: start}}, timers...)
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = n, int64(i+1), created
	}
	if spill != 0 {
		entries[0].Data = nil
	}
	h := r.head()
	r.send(outgoing{create: &store.Change{Run: n, Create: true, From: h.Number, Entries: entries, Head: &journal.Head{
		Number: n, ID: id, WorkflowID: h.WorkflowID, Workflow: h.Workflow, Pattern: h.Pattern,
		Status: journal.Pending, Wake: now, Created: created, Chain: h.Chain, Parent: h.Parent, Keep: h.Keep,
		Retain: r.k.retention(h.Workflow),
	}}})
	return end
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
	if r.gone() && r.refusal == nil {
		return
	}
	wake := r.deadline()
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
	if r.memo != nil && r.last() == r.entered {
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
	if deadline := r.deadline(); !deadline.IsZero() && deadline.Before(due) {
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

// leave ends the residence of a run that has not ended. Nothing is appended any
// more, and what is not sealed by the caller's turn is dropped by depart.
func (r *run) leave() { r.left = true }

// over says whether it is decided that the residence ends.
func (r *run) over() bool { return r.left || r.end != nil }

// gone says whether nothing may be appended any more, or not now.
func (r *run) gone() bool { return r.over() || r.resting }

// depart takes the run out of memory when everything it recorded is durable, or
// never will be: contexts end, and the goroutines of the run with them.
func (r *run) depart() {
	r.mu.Lock()
	if r.departed {
		r.mu.Unlock()
		return
	}
	r.departed = true
	r.weigh(true)
	cause := error(ErrUnloaded)
	if r.end != nil && !r.left {
		cause = r.end
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
	r.cleaning.end(cause)
	if r.timeout != nil {
		r.timeout.Stop()
	}
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

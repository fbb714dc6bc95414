package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// A Step is what workflow code asks for: a unit of the user's work whose result
// is journaled.
type Step struct {
	Name string
	Key  string
	Change
	Work
}

// Work is what a step does, and how.
type Work struct {
	Announced bool          // its first attempt is recorded before it begins
	Declared  bool          // it begins however those beside it end
	Timeout   time.Duration // of one attempt; 0 for none
	Tx        bool          // its body works in a transaction; see StepInfo.Join
	Phase     string        // of a TCC's participant; else empty
	// Next says, of a failure of the n-th attempt, after how long the next one
	// begins; false where it was the last. Nil is the workflow's.
	Next func(n int, f *journal.Failure) (time.Duration, bool)
	// Body is the user's code. It is called without the turn, on a goroutine of
	// its own, and its context ends with the attempt, the run or the engine.
	Body func(ctx context.Context) ([]byte, *journal.Failure)
}

// An Outcome is how an operation ended: with data, or with a failure.
type Outcome struct {
	Data    []byte
	Failure *journal.Failure
	Detail  *journal.Detail // of the entry; nil where it has none
	At      time.Time       // of the entry; zero where there is none
	stored  int64           // the entry that has Data, where it is still in the store; else 0
}

// An Operation is a durable operation that runs beside workflow code: an async
// step or a branch. Its methods are durable operations of the scope that ctx
// carries.
type Operation operation

// An operation is asked for by workflow code, then settled, when its outcome is
// recorded, then delivered, when the turns have come to that record; only then
// workflow code sees the outcome. A step's attempts lie between asked and
// settled. Between settled and delivered it is among the facts, except where
// workflow code cancelled it: then it is held, because the call that cancels
// delivers it, live and on replay. So whoever settles an operation pushes a fact,
// delivers, or ends the run. It is guarded by its run's mu.
type operation struct {
	run          *run
	scope        *scope
	id           journal.Op
	class        class
	work         Work
	ctx          context.Context // of the call; what its attempts' contexts come from
	cancel       context.CancelCauseFunc
	ignore       func() bool // stops watching ctx
	opened       *scope      // of a branch
	newer, older *operation  // among those that are not over
	start        int64       // order in which the run's operations began; 0 where it has not
	attempt      *attempt    // being executed or about to be
	first        attempt     // room for the first one
	tries        int         // attempts that were begun
	once         map[string]*checkpoint
	writes       []*journal.Entry // of its body, which count when it is delivered

	want
	child  journal.RunID // of a child
	policy string        // of a child

	settled   bool
	held      bool // workflow code cancelled it: delivered by the call that did
	delivered bool
	order     int64 // in which it was delivered
	outcome   Outcome
	waiter    *branch // that waits for nothing else
	watchers  []*waitset
}

// Do runs a step and waits for it.
func Do(ctx context.Context, step Step) (Outcome, error) {
	s, over, err := asking(ctx, call{"step", step.Name})
	if err != nil {
		return Outcome{}, err
	}
	r := s.run
	defer r.mu.Unlock()
	o := s.begin(ctx, step, isStep, over)
	return s.await(o)
}

// Async runs a step beside the workflow.
func Async(ctx context.Context, step Step) (*Operation, error) {
	s, over, err := asking(ctx, call{"async", step.Name})
	if err != nil {
		return nil, err
	}
	r := s.run
	defer r.mu.Unlock()
	o := s.begin(ctx, step, isAsync, over)
	r.k.lends.contend(r)
	return (*Operation)(o), nil
}

// begin asks for a step: the memo has its outcome, or how far it came, or it begins. It does
// not where over says that ctx has ended already.
func (s *scope) begin(ctx context.Context, step Step, c class, over *journal.Failure) *operation {
	r := s.run
	op, rec := s.ask(asked{step.Name, step.Key, c, step.Change, false})
	o := &operation{run: r, scope: s, id: op, class: c, work: step.Work, ctx: ctx}
	if step.Next == nil {
		o.work.Next = r.def.Next
	}
	r.values.called(step.Name)
	if rec != nil && rec.ended != nil {
		o.writes = rec.writes
		o.recorded(rec.ended)
		return o
	}
	r.operations.track(o)
	if rec != nil {
		for key, e := range rec.once {
			o.remember(key, e.Data, storedAt(e))
		}
	}
	o.heed(ctx, over)
	switch {
	case o.settled:
	case rec == nil || rec.attempt == 0:
		o.makeFirst()
	case rec.failed:
		o.tries = rec.attempt
		o.run.operations.begin(o)
		o.backOff(rec.due)
	default: // an engine died during this attempt: it is made again, under its number
		o.tries = rec.attempt - 1
		o.again(rec)
	}
	return o
}

// makeFirst begins the first attempt. It has a record of its own only where it was
// asked for, or where its timeout is to hold over a crash: else the entry before
// it says that the run came this far.
func (o *operation) makeFirst() {
	o.try(o.class == isAsync || o.work.Announced || o.work.Timeout > 0)
}

// recorded gives the operation the outcome that a journal has of it. A
// cancellation by workflow code is delivered by the call that made it.
func (o *operation) recorded(e *journal.Entry) {
	o.settled = true
	o.outcome = Outcome{Data: e.Data, Failure: e.Failure(), Detail: e.Detail, At: e.At, stored: storedAt(e)}
	if f := o.cancellation(e); f != nil {
		o.outcome.Failure = f
		if !e.Detail.ByWait && !e.Detail.ByMessage() {
			o.held = true
			o.run.operations.begin(o)
			o.run.operations.track(o)
			return
		}
	}
	o.run.push(e.Seq, o)
}

// cancellation is the failure that the operation has by e, where that is a
// cancellation.
func (o *operation) cancellation(e *journal.Entry) *journal.Failure {
	switch e.Kind {
	case journal.StepCancelled, journal.TimerCancelled, journal.WaitEnded:
		return o.cancelled(e.Detail)
	}
	return nil
}

// cancelled is the failure of an operation with such a terminal record.
func (o *operation) cancelled(d *journal.Detail) *journal.Failure {
	if d.Failure != nil {
		return d.Failure
	}
	what := "wait for "
	switch o.class {
	case isStep, isAsync:
		what = "step "
	case isTimer:
		what = "timer "
	}
	return &journal.Failure{Code: journal.CodeCancelled, Message: what + o.path() + " cancelled: " + d.Reason}
}

// settle records the outcome and lets workflow code hear of it. It is called with
// the lock by whoever found it out.
func (o *operation) settle(e journal.Entry) {
	o.conclude(e)
	o.run.dispatch()
}

// conclude records the outcome.
func (o *operation) conclude(e journal.Entry) {
	r := o.run
	e.Op = o.id
	e.Detail = o.mark(e.Detail)
	o.close()
	o.settled = true
	if o.outcome.Data == nil {
		o.outcome.Data = e.Data
	}
	o.outcome.Detail = e.Detail
	if o.outcome.Failure = e.Failure(); o.outcome.Failure == nil {
		o.outcome.Failure = o.cancellation(&e)
	}
	seq := r.outside(e)
	o.outcome.At = r.lastTime()
	r.push(seq, o)
}

// close ends what the operation had going on.
func (o *operation) close() {
	r := o.run
	r.operations.land(o)
	o.waited()
	if o.ignore != nil {
		o.ignore()
		o.ignore = nil
		r.operations.pin(-1)
	}
	r.operations.untrack(o)
}

// deliver lets workflow code see the outcome.
func (o *operation) deliver() {
	if o.delivered {
		return
	}
	r := o.run
	o.delivered, o.order = true, r.deliver()
	for _, e := range o.writes {
		r.noted(e)
	}
	if o.outcome.Failure != nil {
		r.deadLetters.failed(o)
	}
	r.operations.untrack(o)
	if o.waiter != nil {
		r.unpark(o.waiter)
	}
	for _, w := range o.watchers {
		w.done = append(w.done, o)
		r.unpark(w.b)
	}
	o.watchers = nil
}

// await parks the branch until o is delivered, and gives its outcome: also where the
// scope is cancelled when that is a success already, so that it can be undone.
func (s *scope) await(o *operation) (Outcome, error) {
	o.waiter = s.branch
	for !o.delivered {
		s.branch.park()
		if err := s.ended(); err != nil && (!o.settled || o.outcome.Failure != nil) {
			return Outcome{}, err
		} else if err != nil {
			o.deliver()
		}
	}
	return s.payload(o)
}

// payload fetches the outcome's data where it is still in the store.
func (s *scope) payload(o *operation) (Outcome, error) {
	r := s.run
	s.hears(o)
	if o.outcome.stored == 0 {
		return o.outcome, nil
	}
	r.reads(1)
	durable := s.durable(o.outcome.stored)
	r.mu.Unlock()
	if durable != nil {
		select {
		case <-durable:
		case <-r.done:
		}
	}
	data, err := r.k.fetch(r.number(), o.outcome.stored)
	r.mu.Lock()
	r.reads(-1)
	r.renumber() // who watches how long it lasts begins anew
	if err := s.stay(call{"read", o.id.Name}); err != nil {
		return Outcome{}, err
	}
	if err != nil {
		s.branch.unreadable(err)
	}
	o.outcome.Data, o.outcome.stored = data, 0
	return o.outcome, nil
}

// durable gives a channel that is closed when an entry is durable, which the turn
// must not wait for otherwise; nil where it is.
func (s *scope) durable(seq int64) <-chan struct{} {
	r := s.run
	if r.isDurable(seq) {
		return nil
	}
	done := make(chan struct{})
	r.whenDurable(effect{do: func() { close(done) }})
	r.seal()
	return done
}

// contextEnded is called when the context that the author passed has ended.
func (o *operation) contextEnded(ctx context.Context) {
	r := o.run
	f := contextFailure(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.settled || r.gone() || o.scope.cancelled() != nil {
		return
	}
	a := o.attempt
	o.endBy(f)
	if o.class == isStep || o.class == isAsync {
		a.abandon(errStepCancelled)
	}
}

// endBy settles the operation with the end of the context that the author passed.
func (o *operation) endBy(f *journal.Failure) {
	e := journal.Entry{Kind: journal.StepCancelled, Detail: &journal.Detail{Failure: f, ByWait: true}}
	switch o.class {
	case isTimer:
		e.Kind = journal.TimerCancelled
	case isWait, isSignal, isDecision:
		e.Kind = journal.WaitEnded
	case isChild:
		e.Kind, e.Detail.Outcome = journal.ChildCompleted, journal.Cancelled
	}
	if e.Kind == journal.StepCancelled || e.Kind == journal.TimerCancelled {
		e.Detail.Reason = f.Message
	}
	o.settle(e)
}

// contextFailure is the failure that the end of a context is. The context and its
// errors may be the author's.
func contextFailure(ctx context.Context) *journal.Failure {
	err := ctx.Err()
	f := &journal.Failure{Message: guard.Text(err), Name: "context.Canceled", Code: journal.CodeCancelled}
	late := false
	if _ = guard.Call(func() error { late = errors.Is(err, context.DeadlineExceeded); return nil }); late {
		f.Name, f.Code = "context.DeadlineExceeded", journal.CodeTimedOut
	}
	if cause := context.Cause(ctx); cause != nil {
		if text := guard.Text(cause); text != f.Message {
			f.Message += ": " + text
		}
	}
	return f
}

// path shows the operation with the scopes it is in.
func (o *operation) path() string { return o.scope.show(o.id) }

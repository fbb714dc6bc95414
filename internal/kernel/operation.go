package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Step is a unit of the user's work whose result is recorded.
type Step struct {
	Name string
	Key  string
	Change
	Work
}

// A Work has the body and the options of a step.
type Work struct {
	Announced bool // an entry records its first attempt before it begins
	// It is announced, and its body is called at most once: see interrupt. Next allows
	// one attempt.
	AtMostOnce bool
	Declared   bool          // it begins however the steps beside it end
	Undo       bool          // it has a compensation
	Visit      bool          // all its occurrences are one visit: see visiting
	Timeout    time.Duration // of one attempt; 0 for none
	Tx         bool          // its body works in a transaction; see StepInfo.Join
	Phase      string        // the phase of a TCC's participant; empty for other steps
	Of         int           // of an undo: the occurrence of the step; 0 for the first
	Limit      *store.Ask    // for the token that each attempt needs; nil for none
	// Keep returns the limits in bytes of its log lines that are kept, if those of that level are:
	// for one attempt and for the run. Nil means the workflow's.
	Keep func(level int) (attempt, run int)
	// Compensation undoes the step if the run ends without success; nil for none. Undo is set then.
	Compensation *Compensation
	// Next returns how long after a failure of the n-th attempt the next attempt begins, and false
	// if the n-th was the last. Nil means the workflow's policy.
	Next func(n int, f *journal.Failure) (time.Duration, bool)
	// Body is the user's code. It is called without the turn, on a goroutine of
	// its own, and its context ends with the attempt, the run or the engine.
	Body func(ctx context.Context) ([]byte, *journal.Failure)
}

// An Outcome is the end of an operation: data, or a failure.
type Outcome struct {
	Data    []byte
	Failure *journal.Failure
	Detail  *journal.Detail // of the entry; nil if the entry has none
	At      time.Time       // of the entry; zero if there is none
	stored  int64           // the entry that has Data, if that is still in the store; else 0
	// Of a visit that watches, while it is in memory: the number of the last message as its body
	// began, and the numbers of earlier ones that other bodies had claimed. See Wait.Besides.
	Last   int64
	Hidden []int64
}

// An Operation is a durable operation that runs beside workflow code: an async
// step or a branch. Its methods are durable operations of the scope that ctx
// carries.
type Operation operation

// An operation is asked for by workflow code. It is settled when its outcome is recorded. It is
// delivered when the turns have come to that record. Only then does workflow code see the outcome.
// A step's attempts take place after it is asked for and before it is settled. Between settled and
// delivered the operation is among the facts, unless workflow code has cancelled it. Then it is
// held, because the call that cancels delivers it, live and on replay. So code that settles an
// operation also pushes a fact, delivers the operation, or ends the run. The mu of the run guards
// it.
type operation struct {
	run          *run
	scope        *scope
	id           journal.Op
	class        class
	work         Work
	ctx          context.Context // of the call; the contexts of its attempts are made of it
	cancel       context.CancelCauseFunc
	ignore       func() bool // stops watching ctx
	opened       *scope      // the scope of a branch
	newer, older *operation  // its neighbours in the list of operations that are not over
	// its place in the order in which the run's operations began; 0 before it begins
	start   int64
	attempt *attempt         // being executed or about to be
	first   attempt          // room for the first attempt
	tries   int              // the number of attempts begun
	rests   bool             // it waits for its next attempt, and none is being made
	failure *journal.Failure // of the attempt before
	early
	writes []*journal.Entry // of its body; they count when the operation is delivered

	want
	slotRequest
	child  journal.RunID // of a child
	policy string        // of a child

	settled   bool
	held      bool // workflow code cancelled it, and the call that did so delivers it
	delivered bool
	order     int64 // its place in the order of deliveries
	outcome   Outcome
	waiter    *branch // the branch that waits for nothing else
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
	if err := s.refuses(step); err != nil {
		return Outcome{}, err
	}
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
	if err := s.refuses(step); err != nil {
		return nil, err
	}
	o := s.begin(ctx, step, isAsync, over)
	r.k.lends.contend(r)
	return (*Operation)(o), nil
}

// begin begins a step, unless the memo has its outcome or how far it came. If over is set, ctx has
// ended already, and no attempt is made.
func (s *scope) begin(ctx context.Context, step Step, c class, over *journal.Failure) *operation {
	r := s.run
	op, rec := s.ask(asked{step.Name, step.Key, c, step.Change, false})
	o := &operation{run: r, scope: s, id: op, class: c, work: step.Work, ctx: ctx}
	if step.Next == nil {
		o.work.Next = r.def.Next
	}
	if step.Keep == nil {
		o.work.Keep = r.def.Keep
	}
	if o.work.Compensation != nil {
		r.ending.mayUndo(o)
	}
	r.values.called(step.Name)
	if step.Visit {
		o.once = s.visits.checkpoints(op)
	}
	if rec != nil && (rec.ended == nil || step.Visit) {
		for key, e := range rec.once {
			o.remember(key, e.Data, storedAt(e))
		}
	}
	if rec != nil && rec.ended != nil {
		o.writes = rec.writes
		o.recorded(rec.ended)
		return o
	}
	r.operations.track(o)
	o.heed(ctx, over)
	if rec != nil {
		o.slot, o.parts = rec.held, rec.parts
	}
	switch {
	case o.settled:
	case rec == nil || rec.attempt == 0 || o.work.AtMostOnce && rec.unbegun:
		o.makeFirst()
	case o.work.AtMostOnce:
		interrupt(o, rec)
	case rec.failed:
		o.tries, o.failure = rec.attempt, rec.last
		o.run.operations.begin(o)
		o.backOff(rec.due)
	default: // an engine died during this attempt: it is made again, under its number
		o.tries, o.failure = rec.attempt-1, rec.last
		o.again(rec)
	}
	return o
}

// makeFirst begins the first attempt. An entry of its own records it only if the step asks for
// that, or if its timeout has to hold over a crash. Otherwise the entry before it shows that the
// run came to this step.
func (o *operation) makeFirst() {
	o.try(o.class == isAsync || o.work.Announced || o.work.AtMostOnce || o.work.Timeout > 0)
}

// recorded sets the outcome that the journal has of the operation. If workflow code cancelled the
// operation, the call that did so delivers it.
func (o *operation) recorded(e *journal.Entry) {
	o.settled = true
	o.outcome = Outcome{
		Data: e.Data, Failure: e.Failure(), Detail: e.Detail, At: e.At, stored: storedAt(e),
	}
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

// cancellation returns the failure of the operation if e is a cancellation; else nil.
func (o *operation) cancellation(e *journal.Entry) *journal.Failure {
	switch e.Kind {
	case journal.StepCancelled, journal.TimerCancelled, journal.WaitEnded:
		return o.cancelled(e.Detail)
	}
	return nil
}

// cancelled returns the failure of an operation that such an entry has cancelled.
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
	return &journal.Failure{Code: journal.CodeCancelled, Message: what + o.path() + " cancelled: " +
		d.Reason}
}

// settle records the outcome and makes it a fact for workflow code. It is called with the lock by
// the code that has found the outcome.
func (o *operation) settle(e journal.Entry) {
	o.conclude(e)
	o.run.dispatch()
}

// conclude records the outcome.
func (o *operation) conclude(e journal.Entry) {
	r := o.run
	e.Op = o.id
	e.Detail = o.mark(e.Detail)
	o.attempt.closeLog()
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
	o.freeUnless(e.Kind)
	o.outcome.At = r.lastTime()
	r.push(seq, o)
}

// close ends everything that goes on for the operation.
func (o *operation) close() {
	r := o.run
	r.operations.land(o)
	r.operations.asks(o, false)
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
	if o.work.Compensation != nil {
		r.ending.heardOf(o)
	}
	switch {
	case o.outcome.Failure != nil:
		r.deadLetters.failed(o)
	case o.class == isLock:
		r.operations.holds(o)
	}
	r.operations.untrack(o)
	if o.waiter != nil {
		r.makeReady(o.waiter)
	}
	for _, w := range o.watchers {
		w.done = append(w.done, o)
		r.makeReady(w.b)
	}
	o.watchers = nil
}

// await makes the branch wait until o is delivered, and returns the outcome. It returns a success
// also if the scope is cancelled, so that the success can be undone.
func (s *scope) await(o *operation) (Outcome, error) {
	o.waiter = s.branch
	for !o.delivered {
		s.branch.waitReady()
		if err := s.ended(); err != nil && (!o.settled || o.outcome.Failure != nil) {
			return Outcome{}, err
		} else if err != nil {
			o.deliver()
		}
	}
	return s.payload(o)
}

// payload fetches the outcome's data if that is still in the store.
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

// durable returns a channel that is closed when an entry is durable; nil if it is durable. It seals
// the entries of the turn, because a turn that waits does not end.
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

// contextEnded is called when the context of the author's has ended.
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

// endBy settles the operation with the end of the author's context.
func (o *operation) endBy(f *journal.Failure) {
	e := journal.Entry{
		Kind: journal.StepCancelled, Detail: &journal.Detail{Failure: f, ByWait: true},
	}
	switch o.class {
	case isTimer:
		e.Kind = journal.TimerCancelled
	case isWait, isSignal, isDecision, isLock:
		e.Kind = journal.WaitEnded
	case isChild:
		e.Kind, e.Detail.Outcome = journal.ChildCompleted, journal.Cancelled
	}
	if e.Kind == journal.StepCancelled || e.Kind == journal.TimerCancelled {
		e.Detail.Reason = f.Message
	}
	o.settle(e)
}

// contextFailure returns the end of a context as a failure. The context and its errors may be the
// author's.
func contextFailure(ctx context.Context) *journal.Failure {
	err := ctx.Err()
	f := &journal.Failure{
		Message: guard.Text(err), Name: "context.Canceled", Code: journal.CodeCancelled,
	}
	late := false
	if _ = guard.Call(func() error {
		late = errors.Is(err, context.DeadlineExceeded)
		return nil
	}); late {
		f.Name, f.Code = "context.DeadlineExceeded", journal.CodeTimedOut
	}
	if cause := context.Cause(ctx); cause != nil {
		if text := guard.Text(cause); text != f.Message {
			f.Message += ": " + text
		}
	}
	return f
}

// path returns the names of the scopes around the operation, and its own, as people see them.
func (o *operation) path() string { return o.scope.show(o.id) }

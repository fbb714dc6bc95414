package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

var (
	errStepCancelled = errors.New("perdure: the step was cancelled")
	errStepTimedOut  = errors.New("perdure: the attempt passed its timeout")
	errStepReturned  = errors.New("perdure: the step has returned")

	errBranchReturned = errors.New("perdure: the branch has returned")
)

// An attempt is one execution of a step's body. The context of the body carries it. An attempt that
// is given up goes on until its goroutine returns; its result is discarded.
type attempt struct {
	op     *operation
	n      int
	began  time.Time
	before time.Duration   // how long it took already, in an engine that died
	ctx    context.Context // the context of the body
	cancel context.CancelCauseFunc
	events []journal.Entry // events that the body has emitted
	writes []journal.Entry // variables that the body has set, and keys that it has added

	visiting // of a visit
	log      logged

	announced int64 // the entry of its own that records that it begins; 0 for none
	won       bool  // it has succeeded

	// the transaction that the body works in; only the body's goroutine touches it
	tx *userTx
}

// try begins the next attempt when every entry appended so far is durable. If announced is set, an
// entry of its own records that the attempt begins.
func (o *operation) try(announced bool) {
	if holdWhilePaused(o, announced) || holdForToken(o, announced) {
		return
	}
	r := o.run
	o.rests = false
	o.tries++
	a := &o.first
	if o.tries > 1 {
		a = new(attempt)
	}
	*a = attempt{op: o, n: o.tries, before: o.before}
	o.before = 0
	r.operations.fly(o, a)
	o.run.operations.begin(o)
	voidParts(o)
	if announced {
		var d *journal.Detail
		if o.tries > 1 {
			d = &journal.Detail{Attempt: o.tries}
		} else if o.work.Declared {
			d = &journal.Detail{StepDetail: journal.StepDetail{Declared: true}}
		}
		if o.work.AtMostOnce {
			d = cmp.Or(d, &journal.Detail{})
			d.AtMostOnce = true
		}
		e := journal.Entry{Kind: journal.StepStarted, Op: o.id, Detail: o.mark(d)}
		if r.status() == journal.Waiting {
			e.Status = journal.Running
		}
		if o.tries > 1 || o.slot != 0 { // it may be another branch's turn
			a.announced = r.outside(e)
		} else {
			a.announced = r.append(e)
		}
	}
	r.whenDurable(effect{begin: o})
}

// interrupt fails a step whose body may have been called and must not be called again: an engine
// died, or lost its lease, during its attempt. If an earlier build retried the step, its last
// failure stays.
func interrupt(o *operation, rec *record) {
	o.tries = rec.attempt
	o.run.operations.begin(o)
	a := &attempt{op: o, n: o.tries, began: time.Now()}
	o.run.operations.fly(o, a)
	f := rec.last
	if f == nil || !rec.failed {
		f = &journal.Failure{
			Name: journal.Interrupted, Class: journal.ClassPermanent,
			Message: "interrupted: step " + o.path() + " may run at most once, and the engine " +
				"that ran it died or lost its lease before a result was recorded. Its effect may " +
				"have taken place or not, and it is not run again. Verify the effect, park the " +
				"run for an operator, or undo it",
		}
	}
	o.failed(a, f, upshot{})
}

// holdUnbegun records, before the run leaves memory, which steps with at most one call have not
// been called although an entry announces them. It reports whether there are any. It also records
// what the attempts have logged.
func holdUnbegun(r *run) (any bool) {
	if r.gone() {
		return false
	}
	for o := range r.operations.all() {
		a := o.attempt
		a.closeLog()
		if !o.work.AtMostOnce || a == nil || !a.began.IsZero() || a.announced == 0 ||
			a.announced > r.last() { // its entry was dropped
			continue
		}
		r.outside(journal.Entry{
			Kind: journal.StepHeld, Op: o.id,
			Detail: o.mark(&journal.Detail{StepDetail: journal.StepDetail{AtMostOnce: true}}),
		})
		any = true
	}
	return any
}

// again repeats an attempt during which an engine died. The timeout counts from the first time that
// the attempt began.
func (o *operation) again(rec *record) {
	if o.work.Timeout == 0 || rec.began.IsZero() {
		o.try(false)
		return
	}
	before := max(-o.run.k.until(rec.began), 0)
	if before < o.work.Timeout {
		o.before = before
		o.try(false)
		return
	}
	o.tries++
	o.run.operations.begin(o)
	a := &attempt{op: o, n: o.tries, began: time.Now().Add(-o.work.Timeout)}
	o.run.operations.fly(o, a)
	o.failed(a, a.timeoutFailure(), o.next(a.n, a.timeoutFailure()))
}

// begin starts the attempt's goroutine when there is room for the entries of the attempt. It is
// called by the pipeline, or with the lock.
func (o *operation) begin() {
	if k := o.run.k; k.gate.open() {
		o.fly()
	} else {
		k.gate.pass(o.fly)
	}
}

func (o *operation) fly() {
	if o.run.k.fly() {
		go o.execute()
	}
}

// fly counts a step body that begins. It returns false if none may begin.
func (k *Kernel) fly() bool {
	return k.holds() && k.takeOff()
}

// execute runs an attempt, on a goroutine of its own. A panic, or runtime.Goexit, in the body is a
// failed attempt.
func (o *operation) execute() {
	r := o.run
	r.mu.Lock()
	a := o.attempt
	if frozen := r.holdBack(o); a == nil || frozen || r.gone() {
		r.mu.Unlock()
		r.k.land()
		return
	}
	a.began, a.ctx = time.Now(), a.context()
	a.last = r.inbox.last()
	r.mu.Unlock()
	if o.work.Tx {
		o.transact(a)
		return
	}
	a.tellBegun()
	o.body(a, a.returned)
}

// body calls the user's code and the interceptor around it. It calls the function then with the
// result, also if the code panics or ends its goroutine.
func (o *operation) body(a *attempt, then func([]byte, *journal.Failure)) {
	var data []byte
	var failure *journal.Failure
	guard.Run(func() {
		ctx := o.run.k.trace.step(a)
		if o.run.k.cfg.Around != nil && o.run.k.lives() {
			data, failure = o.surrounded(ctx, a)
		} else {
			data, failure = o.call(ctx)
		}
	}, func(abort *guard.Abort) {
		if abort != nil {
			data, failure = nil, abortFailure("step "+o.path(), abort)
		}
		then(data, failure)
	})
}

// call calls the user's code, unless the engine has lost its lease since the attempt began: another
// engine may execute the step by now.
func (o *operation) call(ctx context.Context) ([]byte, *journal.Failure) {
	if !o.run.k.lives() {
		return nil, &journal.Failure{
			Code:    journal.CodeUnavailable,
			Message: "the engine was over before step " + o.path() + " began",
		}
	}
	return o.work.Body(ctx)
}

// surrounded calls the interceptor around the user's code.
func (o *operation) surrounded(ctx context.Context, a *attempt) (data []byte,
	failure *journal.Failure) {
	called := false
	failure = o.run.k.cfg.Around(ctx, StepInfo{a}, func(
		ctx context.Context,
	) (f *journal.Failure) {
		data, f = o.call(ctx)
		called = true // the code has returned without a panic
		return f
	})
	if failure == nil && !called {
		failure = &journal.Failure{
			Code: journal.CodeMisuse,
			Message: "what goes around the steps gave no error, and step " + o.path() +
				" has not returned",
		}
	}
	return data, failure
}

// returned takes the result of the body. A result after the timeout does not count, also if
// returned is the first to notice the timeout.
func (a *attempt) returned(data []byte, failure *journal.Failure) {
	o := a.op
	r := o.run
	spill, hasResult := journal.Number(0), failure == nil
	if context.Cause(a.ctx) == errStepTimedOut {
		data, failure, a.over = nil, a.timeoutFailure(), false
	}
	if failure == nil || a.over {
		var unfit *journal.Failure
		if spill, unfit = r.k.persistPayload("the result of step "+o.path(), &data); unfit != nil {
			data, failure, a.over = nil, unfit, false
		}
	}
	next := o.next(a.n, failure)
	r.mu.Lock()
	current := o.attempt == a && !r.gone()
	if current && failure == nil {
		o.succeeded(a, data, spill)
	} else if current {
		a.decided, a.data, a.spill = a.over, data, spill
		o.failed(a, failure, next)
	} else if o.attempt == a {
		// the run leaves memory, so nobody has to give the attempt up any more
		r.operations.land(o)
	} else if hasResult && !r.gone() {
		a.discarded()
	}
	r.mu.Unlock()
	if current {
		r.k.land()
	} else {
		r.k.returned(a)
		if hasResult {
			a.late()
		}
	}
	if a.cancel != nil {
		a.cancel(errStepReturned)
	}
}

// context returns the context of the body. It makes a new one only if something other than the end
// of the run or the branch can end it.
func (a *attempt) context() context.Context {
	o := a.op
	ctx := context.WithValue(o.ctx, contextKey{}, a)
	if o.class == isStep && o.work.Timeout == 0 && !o.work.Tx {
		return ctx
	}
	ctx, a.cancel = context.WithCancelCause(ctx)
	if o.work.Timeout > 0 {
		timed, stop := context.WithTimeoutCause(ctx, o.work.Timeout-a.before, errStepTimedOut)
		cancel := a.cancel
		a.cancel = func(cause error) { cancel(cause); stop() }
		context.AfterFunc(timed, func() {
			if context.Cause(timed) == errStepTimedOut {
				a.timedOut()
			}
		})
		ctx = timed
	}
	return ctx
}

// timedOut abandons an attempt whose time is over. It does not wait for the body.
func (a *attempt) timedOut() {
	o := a.op
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.attempt != a || o.settled || r.gone() {
		return
	}
	a.abandon(nil)
	o.failed(a, a.timeoutFailure(), o.next(a.n, a.timeoutFailure()))
}

func (a *attempt) timeoutFailure() *journal.Failure {
	return &journal.Failure{
		Code: journal.CodeTimedOut, Name: "context.DeadlineExceeded",
		Message: "step " + a.op.path() + " passed its timeout of " + a.op.work.Timeout.String(),
	}
}

// succeeded settles the step with the result of an attempt.
func (o *operation) succeeded(a *attempt, data []byte, spill journal.Number) {
	e := journal.Entry{
		Kind: journal.StepCompleted, Data: data, Spill: spill, Took: time.Since(a.began),
	}
	o.outcome.Data = data
	if spill != 0 {
		e.Data = nil
	}
	if a.n > 1 || o.work.Undo {
		e.Detail = &journal.Detail{StepDetail: journal.StepDetail{
			Undo: o.work.Undo, OwnUndo: o.work.Compensation != nil,
		}}
	}
	if a.n > 1 {
		e.Detail.Attempt = a.n
	}
	if o.work.Visit {
		e.Detail = a.says(e.Detail)
	}
	o.emit(a)
	o.settle(e)
}

// failed takes the failure of an attempt, and the decision of the policy.
func (o *operation) failed(a *attempt, failure *journal.Failure, next upshot) {
	r := o.run
	took := time.Since(a.began)
	o.failure = failure
	d := &journal.Detail{Attempt: a.n, Failure: failure}
	a.closeLog()
	if c := failure.ClassOf(); c != nil && c.Class == journal.ClassPark && !o.work.AtMostOnce {
		r.append(journal.Entry{Kind: journal.StepRetrying, Op: o.id, Took: took, Detail: o.mark(d)})
		o.freeToken()
		r.operations.land(o)
		r.suspend(&journal.Detail{Reason: c.Message, Failure: failure})
		return
	}
	if next.again && !o.scope.last {
		d.Due = r.k.Now().Add(next.after).Round(0)
		r.outside(journal.Entry{
			Kind: journal.StepRetrying, Op: o.id, Took: took, Detail: o.mark(d),
		})
		o.freeToken()
		r.operations.land(o)
		o.backOff(d.Due)
		r.flush()
		r.dispatch()
		return
	}
	kind := journal.StepFailed
	if failure.Code == journal.CodeTimedOut && failure.Name == "context.DeadlineExceeded" &&
		failure.Type == "" {
		kind = journal.StepTimedOut
	}
	e := journal.Entry{Kind: kind, Took: took, Detail: d}
	if a.decided {
		if e.Spill = a.spill; a.spill == 0 {
			e.Data = a.data
		}
		o.outcome.Data = a.data
		a.take()
		o.emit(a)
	}
	o.settle(e)
}

// discarded records that the body has returned a result after the attempt was given up. A run that
// has left memory, or has ended, does not record it.
func (a *attempt) discarded() {
	o := a.op
	o.run.outside(journal.Entry{
		Kind: journal.ResultDiscarded, Op: o.id, Took: time.Since(a.began),
		Detail: o.mark(&journal.Detail{Attempt: a.n}),
	})
	o.run.flush()
}

// emit records the events of an attempt that has succeeded, and its variables and keys.
func (o *operation) emit(a *attempt) {
	tell := len(a.events) > 0 && o.run.k.subscribed()
	for i, e := range a.events {
		e.Op = o.id
		e.Detail.Tell = tell
		e.Detail.Message = a.eventKey() + "/" + strconv.Itoa(i+1)
		o.run.outside(e)
	}
	a.won = true
	for i := range a.writes {
		e := &a.writes[i]
		e.Op = o.id
		written := *e
		if !a.brings(e.Spill) {
			written.Data = nil
		}
		e.Seq = o.run.outside(written)
		o.writes = append(o.writes, e)
	}
}

// eventKey returns the text that the IDs of the attempt's events begin with. The events of a visit
// that fails are others than those of the same visit in a retry of the run.
func (a *attempt) eventKey() string {
	key := StepInfo{a}.IdempotencyKey()
	if a.decided {
		key += "/failed/" + string(a.op.run.id())
	}
	return key
}

// mark adds to the detail of an entry of a step the fields that every entry of the step has. A nil
// detail stays nil if there are none.
func (o *operation) mark(d *journal.Detail) *journal.Detail {
	async, goesOn := o.class == isAsync, o.work.Visit && o.id.Occ > 1
	if d == nil {
		if !async && !goesOn && o.work.Phase == "" {
			return nil
		}
		d = &journal.Detail{}
	}
	d.Async, d.Phase, d.Of, d.GoesOn = async, o.work.Phase, o.work.Of, goesOn
	return d
}

// An upshot is the decision whether a failed step is tried again, and after how long.
type upshot struct {
	again bool
	after time.Duration
}

// next decides by the failure's class and the policy what follows the n-th attempt. The policy may
// call methods of the author's error types. So a caller that holds the run's lock may pass only
// failures of the engine's own.
func (o *operation) next(n int, f *journal.Failure) (u upshot) {
	c := f.ClassOf()
	if f == nil || f.Code == journal.CodeEncode || f.Code == journal.CodeTooLarge ||
		c != nil && c.Class == journal.ClassPermanent {
		return u
	}
	// a policy that panics knows of no next attempt
	_ = guard.Call(func() error { u.after, u.again = o.work.Next(n, f); return nil })
	if u.again && c != nil && c.Class == journal.ClassRetry && c.After > 0 {
		u.after = c.After
	}
	return u
}

// backOff begins the next attempt at that time; at once if it is zero.
func (o *operation) backOff(due time.Time) {
	o.rests = true
	if due.IsZero() {
		o.try(true)
		return
	}
	o.due = due
	o.wait()
}

// abandon ends the use of an attempt that may still be executing. Its context ends with cause when
// the entry that records this is durable. A nil cause means that the context has ended already. It
// is called with the lock.
func (a *attempt) abandon(cause error) {
	if a == nil || a.began.IsZero() {
		return
	}
	k := a.op.run.k
	if a.op.work.Tx {
		a.op.run.stir()
		if a.cancel != nil {
			a.cancel(cmp.Or(cause, errStepCancelled))
		}
	}
	k.giveUp(a)
	n := a.op.run.observed.notice(observe.StepAbandoned)
	n.Step, n.Attempt = a.op.path(), a.n
	a.op.run.whenDurable(effect{do: func() {
		if cause != nil && a.cancel != nil {
			a.cancel(cause)
		}
		time.AfterFunc(abandonedAfter, func() {
			if k.isGivenUp(a) {
				n.At = k.Now()
				k.observe(n)
			}
		})
	}})
}

// abandonedAfter is how long a body may go on after its attempt was given up before observers are
// notified.
const abandonedAfter = 500 * time.Millisecond

// late notifies observers that the result of an attempt which was given up is discarded. A body
// that returns an error then, as one does that heeds its context, is no news.
func (a *attempt) late() {
	n := a.op.run.observed.notice(observe.LateResult)
	n.Step, n.Attempt = a.op.path(), a.n
	a.op.run.k.observe(n)
}

// A StepInfo is the access of a body to its own step.
type StepInfo struct{ a *attempt }

// StepOf returns the step whose body ctx belongs to.
func StepOf(ctx context.Context, what string) (StepInfo, error) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		return StepInfo{a}, nil
	}
	return StepInfo{}, &journal.Error{
		Code: journal.CodeMisuse, Op: what, Message: "called outside the body of a step",
		Hint: "pass on the context that the step's function was given",
	}
}

// Attempt returns the number of the attempt, counted from 1, and reports whether the policy allows
// no further one.
func (s StepInfo) Attempt() (n int, last bool) {
	_, again := s.a.op.work.Next(s.a.n, nil)
	r := s.a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.a.n, !again || s.a.op.scope.last
}

// Name returns the path of the step.
func (s StepInfo) Name() string { return s.a.op.path() }

// Phase returns the phase that the step is; empty for none.
func (s StepInfo) Phase() string { return s.a.op.work.Phase }

// Run returns the head of the step's run as it is now.
func (s StepInfo) Run() journal.Head {
	r := s.a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head()
}

// eventNote is the name of an event that workflow code has emitted.
const eventNote = ownNames + "event"

// Emit records an event. In the body of a step it is recorded with the step's result, if this
// attempt succeeds; in workflow code in the commit of the turn.
func Emit(ctx context.Context, d journal.Detail, data []byte) error {
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		return emitNote(ctx, d, data)
	}
	r := a.op.run
	d.Trace = traceOf(r)
	spill, f := a.spillOver("event "+d.Event, data)
	if f != nil {
		return &journal.Error{Code: f.Code, Op: "emit " + d.Event, Message: f.Message}
	}
	d.Reason = "" // the operation of the entry is the step
	e := journal.Entry{Kind: journal.EventEmitted, Data: data, Spill: spill, Detail: &d}
	if !a.brings(spill) {
		e.Data = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.events = append(a.events, e)
	return nil
}

// emitNote records an event of workflow code. The event's ID is made of its place in the journal.
func emitNote(ctx context.Context, d journal.Detail, data []byte) error {
	s, err := scopeOf(ctx, call{"emit", d.Event})
	if err != nil {
		return err
	}
	d.Tell, d.Trace = s.run.k.subscribed(), traceOf(s.run)
	return noted(TakeNote(ctx, Note{
		Kind: journal.EventEmitted, Name: eventNote, Detail: &d,
		Produce: func() ([]byte, *journal.Failure) { return data, nil },
	}))
}

// maxKey limits an idempotency key: many services take 255 bytes.
const maxKey = 255

// IdempotencyKey returns a key that is the same for every execution of this step of this run, and
// of the runs that retry the run, and that differs for every other step. A phase of a step has one
// key, however often workflow code asks for it, also in a clean-up.
func (s StepInfo) IdempotencyKey() string {
	o := s.a.op
	path := o.path()
	if o.work.Phase != "" || o.work.Visit {
		path = o.scope.base + s.once()
	}
	run := s.Keys()
	key := string(run) + "/" + path
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(path))
		key = string(run) + "/" + hex.EncodeToString(sum[:16])
	}
	return key
}

// Keys returns the run whose idempotency keys the step uses: its own, or, in a retry, the first run
// of the chain of retries in which the step had these keys. They change when the step is undone.
func (s StepInfo) Keys() journal.RunID {
	r := s.a.op.run
	return cmp.Or(r.start.KeysOf(s.Of()), r.id())
}

// once returns the name and key of the operation, as if it occurred once for each occurrence of the
// step that it is a phase of.
func (s StepInfo) once() string {
	id := s.a.op.id
	id.Occ = max(s.a.op.work.Of, 1)
	return id.String()
}

// Of returns the path of the step or participant that this step is a phase of. Without a phase it
// returns the step's own path.
func (s StepInfo) Of() string {
	o := s.a.op
	if o.work.Phase == "" && !o.work.Visit {
		return o.path()
	}
	return o.scope.base + strings.TrimPrefix(s.once(), strings.ToLower(o.work.Phase)+":")
}

// Progress notifies observers of the progress of the step. It is not recorded.
func (s StepInfo) Progress(what string) {
	n := s.a.op.run.observed.notice(observe.StepProgressed)
	n.Step, n.Attempt, n.Reason = s.a.op.path(), s.a.n, what
	s.a.op.run.k.observe(n)
}

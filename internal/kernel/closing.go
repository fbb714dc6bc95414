package kernel

import (
	"context"
	"reflect"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// A cleanup is workflow code that runs before its run ends: always, or only if the run is cancelled
// or times out. It also runs if the branch that planned it is cancelled, or still goes on when the
// run ends.
type cleanup struct {
	in     *scope // the scope that planned it
	of     *cleaning
	path   string
	id     int64 // the scope of its operations
	always bool
	body   func(context.Context) *journal.Failure
	// It undoes the steps that have a compensation. It is planned by the first of these, and
	// recorded when it begins.
	undoes bool
}

// A cleaning runs clean-ups one by one, the last planned one first, each in a scope of its own with
// a context that has not ended: the clean-ups of a run that is about to end, or of a branch that
// was cancelled. The run does not end before its cleanings have ended.
type cleaning struct {
	run  *run
	ctx  context.Context
	left []*cleanup
	by   *journal.Failure // why the branch was cancelled; nil for the run's own cleaning
}

// An ending is the state of the end of a run, and of the clean-ups before it.
//
// Invariants: clean-ups are in the order in which they were planned. The first one is implied if it
// has no record. While way is set, the run will end so, and nothing from outside changes that end.
// open counts the cleanings that go on: the run does not end before it is 0. The result is the
// result of the end that was decided last.
//
// The mu of the run guards it.
type ending struct {
	memo     *memo // nil for a run that was started here
	cleanups []*cleanup
	implied  bool // see journal.ImpliedCleanup
	open     int
	ctx      context.Context // of all clean-ups; nil before the first one
	cancel   context.CancelCauseFunc
	way      *closing // nil while the run is not about to end
	undoing  undoing
	result   Outcome
}

// newEnding returns the ending of a run with a memo of its journal, or nil for a new run.
func newEnding(m *memo) ending { return ending{memo: m} }

// imply records whether the first clean-up has no record.
func (n *ending) imply(is bool) { n.implied = n.implied || is }

// resume goes on with an end that is recorded and not reached.
func (n *ending) resume(c *closing) { n.way, n.result = c, c.out }

// isImplied reports whether the first clean-up has no record.
func (n *ending) isImplied() bool { return n.implied }

// outcome returns the outcome of the run, as far as it is decided.
func (n *ending) outcome() Outcome { return n.result }

// closing returns the end that the run cleans up for; nil if it does not.
func (n *ending) closing() *closing { return n.way }

// decide sets the outcome of the run, unless that is decided. A clean-up, or an operator who
// terminates the run, may change a decided outcome.
func (n *ending) decide(out Outcome, anew bool) {
	if n.way == nil || anew {
		n.result = out
	}
}

// as returns the status that the run will end with, if that is decided; else 0.
func (n *ending) as() journal.Status {
	switch {
	case n.way != nil:
		return n.way.last.Status
	case n.memo != nil && n.memo.ends != nil:
		return n.memo.ends.Detail.Outcome
	}
	return 0
}

// detail returns the detail of the end that the run cleans up for; nil for none.
func (n *ending) detail() *journal.Detail {
	switch {
	case n.way != nil:
		return n.way.last.Detail
	case n.memo != nil && n.memo.ends != nil:
		return n.memo.ends.Detail
	}
	return nil
}

// endsChild reports whether a child with that policy is cancelled when the code cancels its
// operation, or the run ends.
func (n *ending) endsChild(policy string) bool {
	if n.way == nil {
		return policy != journal.ChildDetached
	}
	return endsWith(policy, n.way.last.Status)
}

// cleansUp reports whether the run may have clean-ups to run before it is cancelled.
func (n *ending) cleansUp() bool {
	return n.implied || len(n.cleanups) > 0 || n.open > 0 ||
		n.memo != nil && (len(n.memo.planned) > 0 || n.memo.undoable)
}

// cleansUp reports whether the run may have clean-ups to run before it ends because of a command of
// that mode. A build without clean-ups may have begun the run: if its definition has some now, and
// its code was called, a cancel with compensation has the code come to them.
func cleansUp(r *run, by journal.Action) bool {
	return r.ending.cleansUp() || by == journal.ActionCompensate && r.def != nil &&
		r.def.CleansUp && r.memo != nil && r.memo.admitted
}

// begins sets the end that the run's own code has come to. It reports whether that has to be
// recorded: there are clean-ups, and the journal has no entry of the end yet.
func (n *ending) begins(c *closing) bool {
	n.way = c
	isRecorded := n.memo != nil && n.memo.ends != nil
	return !isRecorded && (n.open > 0 || slices.ContainsFunc(n.cleanups, c.does))
}

// left returns the clean-ups to be run for an end.
func (n *ending) left(c *closing) []*cleanup {
	return slices.DeleteFunc(slices.Clone(n.cleanups), func(p *cleanup) bool { return !c.does(p) })
}

// takeOf removes the clean-ups that were planned in a scope, and returns them.
func (n *ending) takeOf(in *scope) (left []*cleanup) {
	n.cleanups = slices.DeleteFunc(n.cleanups, func(p *cleanup) bool {
		is := p.in.isWithin(in)
		if is {
			left = append(left, p)
		}
		return is
	})
	return left
}

// clean counts a cleaning that begins. It returns the context of its clean-ups, which does not end
// with the context of.
func (n *ending) clean(of context.Context) context.Context {
	if n.ctx == nil {
		n.ctx, n.cancel = context.WithCancelCause(context.WithoutCancel(of))
	}
	n.open++
	return n.ctx
}

// cleaned counts a cleaning that has ended. It returns the end that the run comes to now, or nil.
func (n *ending) cleaned() *closing {
	if n.open--; n.open == 0 && n.way != nil && n.way.delivered {
		return n.way
	}
	return nil
}

// stop ends the context of clean-ups.
func (n *ending) stop(cause error) {
	if n.cancel != nil {
		n.cancel(cause)
	}
}

// A closing is the end of a run that cleans up first. The run's code has received the termination
// error, or receives it when it calls a durable operation next. The result of the code does not
// count any more. When all of the code has returned, or blocks outside the engine, the clean-ups
// run. Then the run ends.
//
// The end is recorded before the first clean-up, so that nothing from outside can change it. A
// clean-up can, by ending the run itself. A cancel or timeout that comes from outside is a fact
// like any other: on replay it comes where it came, between the same two operations. If the code
// itself came to an end, the record has only the status of the end, and the code comes to it again.
type closing struct {
	run *run
	termination
	delivered bool
	over      *journal.Failure // why the run's scope was cancelled, once it is
}

// Plan plans a clean-up. The plan is recorded, so that an engine that ends a run which is not in
// memory knows that it has to load the run.
func Plan(
	ctx context.Context, n Naming, always bool, body func(context.Context) *journal.Failure,
) error {
	what := call{"plan", n.Name}
	s, err := inside(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	defer r.mu.Unlock()
	c := &cleanup{
		in: s, path: s.path + n.Name, id: journal.ImpliedCleanup, always: always, body: body,
	}
	if !r.ending.implied || len(r.ending.cleanups) > 0 {
		op, rec := s.ask(asked{n.Name, n.Key, isCleanup, n.Change, false})
		c.path = s.show(op)
		if rec != nil {
			c.id = rec.opens
		} else {
			c.id = r.append(journal.Entry{Kind: journal.CleanupPlanned, Op: op})
		}
	}
	r.ending.cleanups = append(r.ending.cleanups, c)
	return nil
}

// finish ends the run, after its clean-ups if there are any. outside is set if the end does not
// come from the run's own code. It returns the termination error.
func (r *run) finish(t termination, outside bool) *journal.Error {
	byCleanup := r.holder() != nil && r.holder().cleanup != nil
	r.ending.decide(t.out, byCleanup)
	if c := r.ending.way; c != nil {
		switch {
		case outside:
		case byCleanup: // a clean-up changes the end
			c.last = t.last
		default:
			c.deliver()
		}
		return c.end
	}
	r.lift() // the run ends, also if it was suspended
	c := &closing{run: r, termination: t}
	switch {
	case outside && r.ending.as() != 0: // the code comes to the recorded end
	case t.last.Kind == journal.RunContinued, !cleansUp(r, t.mode()):
		r.terminate(t)
	case outside:
		d := *t.last.Detail
		d.Outcome = t.last.Status
		c.last.Detail = &journal.Detail{
			Failure: d.Failure, Reason: d.Reason, By: d.By,
			MessageDetail: journal.MessageDetail{Mode: d.Mode},
		}
		r.ending.way = c
		r.push(r.outside(journal.Entry{Kind: journal.RunClosing, Detail: &d}), c)
		if r.root.state != isNew {
			r.dispatch()
		}
	default:
		if r.ending.begins(c) {
			r.append(journal.Entry{
				Kind: journal.RunClosing, Detail: &journal.Detail{Outcome: t.last.Status},
			})
		}
		c.deliver()
	}
	return t.end
}

// does reports whether a clean-up runs for this end. This depends on its kind. It also runs if its
// branch still goes on beside the branch that has come to the end, because the end cancels that
// branch. If its branch is over, the branch around that one counts.
func (c *closing) does(p *cleanup) bool {
	if p.undoes {
		d := c.run.start
		return (!c.last.Status.IsSuccess() || d != nil && d.Undoes != "") &&
			c.run.ending.undoing.any()
	}
	in := p.in
	for in.branch.state == isOver && in.parent != nil {
		in = in.parent
	}
	cut := in.branch != c.run.holder() && in.branch.state != isOver
	return p.always || cut || c.last.Status == journal.Cancelled ||
		c.last.Status == journal.TimedOut
}

// deliver notifies workflow code that the run ends. Code of a run that leaves memory hears of it in
// the next activation: no entry is appended to this one any more.
func (c *closing) deliver() {
	r := c.run
	if c.delivered || r.over() {
		return
	}
	c.delivered = true
	left := r.ending.left(c)
	c.over = &journal.Failure{Code: c.end.Code, Message: c.end.Message}
	r.root.scope.over = c.over
	r.root.scope.stop(c.why)
	r.deadline.stop()
	r.whenDurable(effect{do: func() { r.stop(c.end) }})
	clean(r, left, nil)
}

// cleanUp begins the clean-ups that were planned in the scope, which was cancelled.
func (s *scope) cleanUp() {
	left := s.run.ending.takeOf(s)
	if len(left) > 0 {
		clean(s.run, left, s.over)
	}
}

// isWithin reports whether s is the other scope, or in it.
func (s *scope) isWithin(other *scope) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// clean begins a cleaning.
func clean(r *run, left []*cleanup, by *journal.Failure) {
	c := &cleaning{run: r, ctx: r.ending.clean(r.ctx), left: left, by: by}
	c.next()
}

// next begins the next clean-up. After the last clean-up of the last cleaning it ends a run that is
// about to end.
func (c *cleaning) next() {
	r := c.run
	if r.over() { // it was terminated
		return
	}
	if len(c.left) == 0 {
		if end := r.ending.cleaned(); end != nil {
			r.terminate(end.termination)
		}
		return
	}
	p := c.left[len(c.left)-1]
	c.left, p.of = c.left[:len(c.left)-1], c
	s := &scope{
		run: r, id: p.id, path: p.path + "/", base: p.in.base, ctx: c.ctx, done: c.ctx.Done(),
		cause: c.by,
	}
	b := &branch{run: r, scope: s, wake: make(chan struct{}, 1), cleanup: p}
	s.branch = b
	if !p.undoes {
		r.observed.name(s)
	}
	b.body = func() {
		if p.undoes {
			p.record(s)
		}
		var failure *journal.Failure
		b.workflow(func() { failure = p.body(context.WithValue(c.ctx, contextKey{}, s)) })
		r.mu.Lock()
		defer r.mu.Unlock()
		b.returned(nil, failure)
	}
	r.add(b, false)
}

// ended goes on after a clean-up. A clean-up that failed does not keep others from running.
func (p *cleanup) ended(f *journal.Failure) {
	r := p.in.run
	if f != nil {
		n := r.observed.notice(observe.CleanupFailed)
		n.Step, n.Err = p.path, f.Message
		go r.k.observe(n)
	}
	p.of.next()
}

// A Compensation undoes a step that has completed, if its run ends without success.
type Compensation struct {
	How   any          // how the step is undone; package effect knows
	Takes reflect.Type // the type that the result of the step must have
	// CleanUp undoes what the run has done, which is in the order of completion. It is workflow
	// code in a scope of its own. It is the same function for all steps.
	CleanUp func(ctx context.Context, done []Compensation) *journal.Failure

	// These are set in what CleanUp gets.
	Name, Key string          // of the step
	Occ       int             // of the step, among those of its name and key
	In        context.Context // of the scope of the step; nil for the run's own
	op        *operation
}

// An undoing has the steps of a run that have a compensation: those that have begun, and those that
// have completed, in the order of the journal. Workflow code need not have read their results.
//
// The mu of the run guards it.
type undoing struct {
	open []*operation
	done []*operation
}

// mayUndo takes a step with a compensation that begins. The first one plans the clean-up.
func (n *ending) mayUndo(o *operation) {
	r := o.run
	if !slices.ContainsFunc(n.cleanups, func(p *cleanup) bool { return p.undoes }) {
		body := o.work.Compensation.CleanUp
		n.cleanups = append(n.cleanups, &cleanup{
			in: r.root.scope, undoes: true,
			body: func(ctx context.Context) *journal.Failure {
				done, err := completed(ctx)
				if err != nil {
					return nil // the run has ended
				}
				return body(ctx, done)
			},
		})
	}
	n.undoing.open = append(n.undoing.open, o)
}

// heardOf takes the outcome of a step with a compensation. A step that failed, or that an operator
// has skipped, is not undone.
func (n *ending) heardOf(o *operation) {
	u := &n.undoing
	u.open = slices.DeleteFunc(u.open, func(x *operation) bool { return x == o })
	if d := o.outcome.Detail; o.outcome.Failure == nil && (d == nil || !d.Skipped) {
		u.done = append(u.done, o)
	}
}

// any reports whether a step has completed, or is settled and may have completed.
func (u *undoing) any() bool {
	return len(u.done) > 0 || slices.ContainsFunc(u.open, func(o *operation) bool {
		return o.settled && !o.held && o.outcome.Failure == nil
	})
}

// record records the clean-up that undoes steps, in the scope of the run. It is called in the turn
// of the clean-up, whose scope is s.
func (p *cleanup) record(s *scope) {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stay()
	op, rec := p.in.ask(asked{name: undoName, class: isCleanup, inert: true})
	if p.path = p.in.show(op); rec != nil {
		p.id = rec.opens
	} else {
		p.id = r.append(journal.Entry{Kind: journal.CleanupPlanned, Op: op})
	}
	s.id, s.path = p.id, p.path+"/"
	r.observed.name(s)
}

// undoName is the name of the clean-up that undoes steps. It has no place in the order of the code.
const undoName = ownNames + "undo"

// completed returns the steps that have completed and have a compensation. It first waits for those
// whose results are recorded and not delivered.
func completed(ctx context.Context) ([]Compensation, error) {
	s, err := inside(ctx, call{verb: "undo"})
	if err != nil {
		return nil, err
	}
	r := s.run
	defer r.mu.Unlock()
	open := slices.Clone(r.ending.undoing.open)
	w := s.wait(open)
	defer w.close()
	for range open {
		if _, err := w.next(s); err != nil {
			return nil, err
		}
	}
	done := make([]Compensation, len(r.ending.undoing.done))
	for i, o := range r.ending.undoing.done {
		c := *o.work.Compensation
		c.Name, c.Key, c.Occ, c.op = o.id.Name, o.id.Key, o.id.Occ, o
		if o.scope.id != 0 {
			c.In = context.WithValue(ctx, contextKey{}, o.scope)
		}
		done[i] = c
	}
	return done, nil
}

// Data returns the result of the step. It is called in the body of a step.
func (c Compensation) Data() ([]byte, error) {
	r := c.op.run
	r.mu.Lock()
	data, stored := c.op.outcome.Data, c.op.outcome.stored
	r.mu.Unlock()
	if stored == 0 {
		return data, nil
	}
	return r.k.fetch(r.number(), stored)
}

// refuses returns an error for a step that has a compensation in a place where nothing would call
// it.
func (s *scope) refuses(step Step) error {
	if step.Compensation == nil {
		return nil
	}
	for s.parent != nil {
		s = s.parent
	}
	if s.branch.cleanup == nil {
		return nil
	}
	return &journal.Error{
		Code: journal.CodeInvalid, Op: "step " + step.Name,
		Message: "a step of a clean-up cannot have an Undo",
		Hint:    "leave it out: a run undoes what it did before its end began",
	}
}

package kernel

import (
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// A cleanup is workflow code that runs before its run ends: always, or only where
// the run is cancelled or times out. It also runs where the branch is cancelled that it
// was planned in, and where that goes on when the run ends.
type cleanup struct {
	in     *scope // that it was planned in
	of     *cleaning
	path   string
	id     int64 // the scope of its operations
	always bool
	body   func(context.Context) *journal.Failure
}

// A cleaning is clean-ups that run one by one, the one planned last first, each in a
// scope of its own with a context that has not ended: those of a run that is about to
// end, or those of a branch that was cancelled. The run does not end before its cleanings
// have.
type cleaning struct {
	run  *run
	left []*cleanup
	by   *journal.Failure // why the branch was cancelled; nil for the run's own
}

// cleanings are those of a run that go on.
type cleanings struct {
	open int
	ctx  context.Context // of all clean-ups; nil before the first one
	stop context.CancelCauseFunc
}

// end ends the context of clean-ups.
func (c *cleanings) end(cause error) {
	if c.stop != nil {
		c.stop(cause)
	}
}

// A closing is a run that is about to end and cleans up first. Its code has got,
// or gets when it calls a durable operation next, the termination error; what it
// makes of that no longer counts. When all of it has returned, or blocks outside
// the engine, the clean-ups run. Then the run ends.
//
// The end is recorded before the first of them, so that nothing from outside can make
// another one of it; a clean-up can, by ending the run itself. A cancel or timeout that
// comes from outside is a fact like any other: on replay it comes where it came, between
// the same two operations. Of an end that the code itself came to, the record only says
// which; the code comes to it again.
type closing struct {
	run  *run
	last journal.Entry // the terminal record
	why  string
	end  *journal.Error

	delivered bool
	over      *journal.Failure // what the run's scope was cancelled by, once it is
}

// Plan plans a clean-up. It is recorded, so that an engine that ends a run which
// is not in memory knows that it has to be loaded.
func Plan(ctx context.Context, n Naming, always bool, body func(context.Context) *journal.Failure) error {
	what := call{"plan", n.Name}
	s, err := inside(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	defer r.mu.Unlock()
	c := &cleanup{in: s, path: s.path + n.Name, id: journal.ImpliedCleanup, always: always, body: body}
	if !r.implied || len(r.cleanups) > 0 {
		op, rec := s.ask(asked{n.Name, n.Key, isCleanup, n.Change, false})
		c.path = s.show(op)
		if rec != nil {
			c.id = rec.opens
		} else {
			c.id = r.append(journal.Entry{Kind: journal.CleanupPlanned, Op: op})
		}
	}
	r.cleanups = append(r.cleanups, c)
	return nil
}

// finish ends the run by that terminal record, after its clean-ups if it has
// some; outside says that it was not the run's own code that came to it. It gives
// the termination error.
func (r *run) finish(last journal.Entry, why string, end *journal.Error, outside bool) *journal.Error {
	if c := r.closing; c != nil {
		switch {
		case outside:
		case r.holder() != nil && r.holder().cleanup != nil: // what it has cleaned up makes another end of it
			c.last = last
		default:
			c.deliver()
		}
		return c.end
	}
	r.frozen = false // it ends, also where it was suspended
	c := &closing{run: r, last: last, why: why, end: end}
	switch {
	case outside && r.endsAs() != 0: // its code comes to the end that is recorded
	case last.Kind == journal.RunContinued, !r.cleansUp():
		return r.terminate(last, why, end)
	case outside:
		d := *last.Detail
		d.Outcome = last.Status
		c.last.Detail = &journal.Detail{Failure: d.Failure, Reason: d.Reason}
		r.closing = c
		r.push(r.outside(journal.Entry{Kind: journal.RunClosing, Detail: &d}), c)
		if r.root.state != isNew {
			r.dispatch()
		}
	default:
		r.closing = c
		if (r.memo == nil || r.memo.ends == nil) && (r.cleaning.open > 0 || slices.ContainsFunc(r.cleanups, c.does)) {
			r.append(journal.Entry{Kind: journal.RunClosing, Detail: &journal.Detail{Outcome: last.Status}})
		}
		c.deliver()
	}
	return end
}

// does reports whether a clean-up is one for such an end: by its kind, or since the end
// cancels its branch, or one that this was in, which goes on beside the one that has come
// to the end.
func (c *closing) does(p *cleanup) bool {
	in := p.in
	for in.branch.state == isOver && in.parent != nil {
		in = in.parent
	}
	cut := in.branch != c.run.holder() && in.branch.state != isOver
	return p.always || cut || c.last.Status == journal.Cancelled || c.last.Status == journal.TimedOut
}

// endsAs is the status that the run will end with, where that is decided; else 0.
func (r *run) endsAs() journal.Status {
	switch {
	case r.closing != nil:
		return r.closing.last.Status
	case r.memo != nil && r.memo.ends != nil:
		return r.memo.ends.Detail.Outcome
	}
	return 0
}

// isOwn says whether the code itself came to an end that is recorded.
func isOwn(e *journal.Entry) bool { return e.Detail.Failure == nil }

// resumeClosing goes on with an end that is recorded and not reached.
func (r *run) resumeClosing(e *journal.Entry) {
	kind, why := journal.RunCancelled, "workflow cancelled: "+e.Detail.Reason
	if e.Detail.Outcome == journal.TimedOut {
		kind, why = journal.RunTimedOut, "workflow timed out"
	}
	f := e.Detail.Failure
	r.result = Outcome{Failure: f}
	r.closing = &closing{
		run: r, why: why, end: &journal.Error{Code: f.Code, Message: f.Message},
		last: journal.Entry{Kind: kind, Status: e.Detail.Outcome, Detail: &journal.Detail{Failure: f, Reason: e.Detail.Reason}},
	}
	r.push(e.Seq, r.closing)
}

// deliver lets workflow code hear that the run ends.
func (c *closing) deliver() {
	if c.delivered {
		return
	}
	c.delivered = true
	r := c.run
	left := slices.DeleteFunc(slices.Clone(r.cleanups), func(p *cleanup) bool { return !c.does(p) })
	c.over = &journal.Failure{Code: c.end.Code, Message: c.end.Message}
	r.root.scope.over = c.over
	r.stopCancelled(c.why)
	if r.timeout != nil {
		r.timeout.Stop()
	}
	r.whenDurable(effect{do: func() { r.stop(c.end) }})
	r.clean(left, nil)
}

// cleanBranch begins the clean-ups that were planned in a branch, which was cancelled.
func (r *run) cleanBranch(in *scope) {
	var left []*cleanup
	r.cleanups = slices.DeleteFunc(r.cleanups, func(p *cleanup) bool {
		is := p.in.isWithin(in)
		if is {
			left = append(left, p)
		}
		return is
	})
	if len(left) > 0 {
		r.clean(left, in.over)
	}
}

// isWithin reports whether a scope is another one, or in it.
func (s *scope) isWithin(other *scope) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// clean begins a cleaning.
func (r *run) clean(left []*cleanup, by *journal.Failure) {
	if r.cleaning.ctx == nil {
		r.cleaning.ctx, r.cleaning.stop = context.WithCancelCause(context.WithoutCancel(r.ctx))
	}
	r.cleaning.open++
	c := &cleaning{run: r, left: left, by: by}
	c.next()
}

// next begins the next clean-up. After the last one of all it ends a run that is to end.
func (c *cleaning) next() {
	r := c.run
	if len(c.left) == 0 {
		if r.cleaning.open--; r.cleaning.open == 0 && r.closing != nil && r.closing.delivered {
			r.terminate(r.closing.last, r.closing.why, r.closing.end)
		}
		return
	}
	p := c.left[len(c.left)-1]
	c.left, p.of = c.left[:len(c.left)-1], c
	s := &scope{run: r, id: p.id, path: p.path + "/", base: p.in.base, ctx: r.cleaning.ctx, done: r.cleaning.ctx.Done(), cause: c.by}
	r.name(s)
	b := &branch{run: r, scope: s, wake: make(chan struct{}, 1), cleanup: p}
	s.branch = b
	b.body = func() {
		var failure *journal.Failure
		b.workflow(func() { failure = p.body(context.WithValue(r.cleaning.ctx, contextKey{}, s)) })
		r.mu.Lock()
		defer r.mu.Unlock()
		b.returned(nil, failure)
	}
	r.add(b, false)
}

// ended goes on after a clean-up. One that failed keeps no other from running.
func (p *cleanup) ended(f *journal.Failure) {
	r := p.in.run
	if f != nil {
		n := r.notice(observe.CleanupFailed)
		n.Step, n.Err = p.path, f.Message
		go r.k.observe(n)
	}
	p.of.next()
}

package kernel

import (
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
)

// Await waits for the operation to end, or for ctx to end, and returns the outcome. The end of a
// context that the author made is recorded, so it comes again on replay.
func (f *Operation) Await(ctx context.Context) (Outcome, error) {
	o := (*operation)(f)
	s, over, err := asking(ctx, call{"await", o.id.Name})
	if err != nil {
		return Outcome{}, err
	}
	r := s.run
	defer r.mu.Unlock()
	if err := s.owns(o); err != nil {
		return Outcome{}, err
	}
	if o.delivered {
		return s.payload(o)
	}
	w := s.wait([]*operation{o})
	defer w.close()
	if s.foreign(ctx) {
		w.until(ctx, s, o.id, over)
	}
	first, err := w.next(s)
	if err != nil {
		return Outcome{}, err
	}
	return s.payload(first)
}

// owns refuses an operation of another run.
func (s *scope) owns(o *operation) error {
	if o.run == s.run {
		return nil
	}
	return &journal.Error{
		Code: journal.CodeMisuse, Op: "wait",
		Message: "the future belongs to run " + string(o.run.id()),
		Hint: "a future is used by the workflow that made it; what another run came to is its " +
			"result",
	}
}

// State returns the outcome without waiting. It returns false if workflow code cannot know the
// outcome yet.
func (f *Operation) State() (Outcome, bool) {
	o := (*operation)(f)
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder() != nil {
		r.holder().scope.hears(o)
	}
	if !o.delivered {
		return Outcome{}, false
	}
	out, err := o.scope.payload(o)
	return out, err == nil
}

// Place returns the run of the operation, its key, and the entry that opened its scope.
func (f *Operation) Place() (run journal.RunID, key string, opened int64) {
	return f.run.id(), f.id.Key, f.scope.id
}

// Cancel ends the operation. It returns false if the operation has ended: the first end stays. A
// step's body hears of it through its context.
func (f *Operation) Cancel(ctx context.Context, reason string) (bool, error) {
	o := (*operation)(f)
	s, err := cancelling(ctx, o)
	if err != nil {
		return false, err
	}
	defer s.run.mu.Unlock()
	switch {
	case o.delivered || o.settled && !o.held:
		return false, nil
	case o.class == isScope:
		o.cancelBranch(reason)
	case o.held:
		o.deliver()
	default:
		o.stop(reason)
		o.deliver()
	}
	return true, nil
}

// cancelling returns the scope of the code that cancels an operation, with the lock. The code hears
// of the operation.
func cancelling(ctx context.Context, o *operation) (*scope, error) {
	s, err := inside(ctx, call{"cancel", o.id.Name})
	if err != nil {
		return nil, err
	}
	if err := s.owns(o); err != nil {
		s.run.mu.Unlock()
		return nil, err
	}
	s.hears(o)
	return s, nil
}

// CancelWaiting cancels a branch, as Cancel does, if its step waits for the next attempt. Otherwise
// it returns false, and from then on no step of the branch is tried again: the branch goes on with
// the result of the attempt that is being made. The decision is recorded, because it depends on the
// moment.
func (f *Operation) CancelWaiting(ctx context.Context, reason string) (bool, error) {
	o := (*operation)(f)
	s, err := cancelling(ctx, o)
	if err != nil {
		return false, err
	}
	r := s.run
	defer r.mu.Unlock()
	if o.class != isScope || o.delivered {
		return false, nil
	}
	op, rec := s.ask(asked{name: ownNames + "rests", key: o.id.Key, class: isNote, inert: true})
	resting := o.opened.resting()
	waits := rec != nil && rec.ended.Detail != nil && rec.ended.Detail.Reason != ""
	if rec == nil {
		e := journal.Entry{Kind: journal.ValueRecorded, Op: op}
		if waits = len(resting) > 0; waits {
			e.Detail = &journal.Detail{Reason: reason}
		}
		r.append(e)
	}
	o.opened.last = true
	if waits {
		o.cancelBranch(reason)
		return true, nil
	}
	for _, step := range resting { // it was made again after a crash, and has failed
		step.settle(journal.Entry{Kind: journal.StepFailed, Detail: &journal.Detail{
			Attempt: step.tries, Failure: step.failure,
		}})
	}
	return false, nil
}

// resting returns the steps directly in the scope that wait for their next attempts.
func (s *scope) resting() (all []*operation) {
	for o := range s.run.operations.all() {
		if o.scope == s && o.rests {
			all = append(all, o)
		}
	}
	return all
}

// stop records that the operation was cancelled, and ends its attempt's context
// when that is durable.
func (o *operation) stop(reason string) {
	a := o.attempt
	a.closeLog()
	o.close()
	o.settled = true
	kind := journal.WaitEnded
	switch o.class {
	case isStep, isAsync:
		kind = journal.StepCancelled
	case isTimer:
		kind = journal.TimerCancelled
	}
	if o.class == isChild && o.run.ending.endsChild(o.policy) {
		o.run.send(cancelOf(o.run, o.child, reason, o.run.ending.detail()))
	}
	d := o.mark(&journal.Detail{Reason: reason})
	o.outcome = Outcome{Failure: o.cancelled(d)}
	o.run.append(journal.Entry{Kind: kind, Op: o.id, Detail: d})
	o.freeUnless(kind)
	a.abandon(errStepCancelled)
}

// cancelBranch ends a branch. The operations in it are cancelled in the order of the starts, its
// durable operations fail from here on, and its context ends. The clean-up that it has planned
// runs.
func (o *operation) cancelBranch(reason string) {
	r := o.run
	o.opened.over = &journal.Failure{
		Code: journal.CodeCancelled, Message: "branch " + o.path() + " cancelled: " + reason,
	}
	o.opened.stop(reason)
	o.shut(reason)
	o.opened.cleanUp()
	r.whenDurable(effect{do: func() { o.cancel(errStepCancelled) }})
}

// stop ends the operations of the scope, which was cancelled, in the order of the starts, and lets
// its branches hear of it.
func (s *scope) stop(reason string) {
	r := s.run
	for _, in := range r.operations.ongoing() {
		switch {
		case in.scope.cancelled() == nil:
		case in.held:
			in.deliver()
		case in.class == isScope:
			in.shut(reason)
		default:
			in.stop(reason)
			in.deliver()
		}
	}
	for _, slot := range r.operations.takeCancelled() {
		r.send(outgoing{free: slot})
	}
	r.makeReadyThose(func(b *branch) bool { return b.scope.cancelled() != nil })
}

// shut records that a branch was cancelled.
func (o *operation) shut(reason string) {
	o.outcome.Failure = o.opened.cancelled()
	if rec := o.run.memo.recordOf(o.id); rec == nil || rec.ended == nil {
		o.run.append(journal.Entry{Kind: journal.ScopeCancelled, Op: o.id, Detail: &journal.Detail{
			Reason: reason,
		}})
	}
	o.deliver()
}

// A Set waits for several operations, in the order in which they end.
type Set struct {
	s *scope
	w *waitset
}

// Watch begins to wait for operations. Close ends it.
func Watch(ctx context.Context, ops []*Operation) (*Set, error) {
	s, over, err := asking(ctx, call{verb: "wait"})
	if err != nil {
		return nil, err
	}
	r := s.run
	defer r.mu.Unlock()
	all := make([]*operation, len(ops))
	for i, f := range ops {
		all[i] = (*operation)(f)
		if err := s.owns(all[i]); err != nil {
			return nil, err
		}
	}
	w := s.wait(all)
	if s.foreign(ctx) {
		w.until(ctx, s, journal.Op{Name: "any"}, over)
	}
	return &Set{s, w}, nil
}

// Add waits for one more operation. An operation that has ended comes after the operations of the
// set that have ended.
func (w *Set) Add(f *Operation) error {
	r, o := w.s.run, (*operation)(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.s.enter(call{verb: "wait"}); err != nil {
		return err
	}
	if err := w.s.owns(o); err != nil {
		return err
	}
	if o.delivered {
		w.w.done = append(w.w.done, o)
	} else {
		o.watchers = append(o.watchers, w.w)
		w.w.ops = append(w.w.ops, o)
	}
	return nil
}

// Next returns the next operation that has ended. It is called at most once for each. If the
// context ends first, it returns an operation that is none of the set, and the end of the context
// is its outcome.
func (w *Set) Next() (*Operation, Outcome, error) {
	r := w.s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := w.s.enter(call{verb: "wait"}); err != nil {
		return nil, Outcome{}, err
	}
	o, err := w.w.next(w.s)
	if err != nil {
		return nil, Outcome{}, err
	}
	out, err := w.s.payload(o)
	return (*Operation)(o), out, err
}

// Close ends the waiting.
func (w *Set) Close() {
	w.s.run.mu.Lock()
	defer w.s.run.mu.Unlock()
	w.w.close()
}

// A waitset is the set of operations that a branch waits for: one or several. Operations that end
// are added to done in the order in which their facts are delivered.
type waitset struct {
	b    *branch
	done []*operation
	ops  []*operation // the operations that have the set as a watcher
	end  *operation   // the end of the context of the wait; nil for none
}

// wait returns a set of operations. Operations that have ended are in it in the order in which they
// did.
func (s *scope) wait(ops []*operation) *waitset {
	w := &waitset{b: s.branch}
	for _, o := range ops {
		if o.delivered {
			w.done = append(w.done, o)
		} else {
			o.watchers = append(o.watchers, w)
			w.ops = append(w.ops, o)
		}
	}
	slices.SortStableFunc(w.done, func(a, b *operation) int { return int(a.order - b.order) })
	return w
}

// until adds the end of ctx to the set: an operation of its own, recorded only when it happens.
func (w *waitset) until(ctx context.Context, s *scope, of journal.Op, over *journal.Failure) {
	op, rec := s.ask(asked{name: "wait:" + of.Name, key: of.Key, class: isWait})
	o := &operation{run: s.run, scope: s, id: op, class: isWait, watchers: []*waitset{w}}
	w.end = o
	if rec != nil {
		o.recorded(rec.ended)
		return
	}
	s.run.operations.track(o)
	o.heed(ctx, over)
}

// next makes the branch wait until an operation of the set has ended.
func (w *waitset) next(s *scope) (*operation, error) {
	for len(w.done) == 0 {
		w.b.waitReady()
		if err := s.ended(); err != nil {
			return nil, err
		}
	}
	o := w.done[0]
	w.done = w.done[1:]
	return o, nil
}

func (w *waitset) close() {
	for _, o := range w.ops {
		o.watchers = slices.DeleteFunc(o.watchers, func(x *waitset) bool { return x == w })
	}
	w.ops = nil
	if o := w.end; o != nil && !o.settled {
		o.settled = true
		o.close()
	}
}

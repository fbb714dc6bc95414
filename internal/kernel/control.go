package kernel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Live has the state of a run in this engine's memory, beyond its journal.
type Live struct {
	Loaded    bool
	Running   []string // paths of steps whose attempts are being executed
	Abandoned []string // paths of steps that were given up and whose goroutines go on
}

// live returns the state of a run in memory.
func (k *Kernel) live(n journal.Number) Live {
	l, r := Live{Abandoned: k.givenUp(n)}, k.loadedRun(n)
	if r == nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Loaded = true
	for _, o := range r.operations.running() {
		if o.attempt != nil && !o.attempt.began.IsZero() {
			l.Running = append(l.Running, o.path())
		}
	}
	return l
}

// Cancel ends a run as CANCELLED and returns when that is durable. If the run cleans up before it
// ends, Cancel returns when it is durable that the run will end so; if another engine has the run,
// when the message to it is durable. A run that is cancelled already is left unchanged. For a run
// that ended in another way, Cancel returns an error that names its status.
func (e *Engine) Cancel(ctx context.Context, id string, why Why) error {
	if why.Mode == journal.ActionTerminate {
		return e.terminate(ctx, id, why)
	}
	return e.order(ctx, order{
		op: "cancel " + id, id: id, judge: mayCancel, ends: true, kind: journal.CancelAsked,
		why: why,
		do:  func(r *run) { r.finish(cancelledBy(why, 0), true) },
	})
}

// Suspend parks a run until it is resumed and returns when that is durable. Its steps
// in flight end, and nothing else goes on. A run that is suspended for another reason gets an
// entry with this one, which is the reason from then on.
func (e *Engine) Suspend(ctx context.Context, id string, why Why) error {
	var done atomic.Bool
	return e.order(ctx, order{
		op: "suspend " + id, id: id, kind: journal.SuspendAsked, why: why,
		judge: func(op string, h journal.Head) error {
			if done.Load() && parked(h) { // also for a later reason
				return nil
			}
			return maySuspend(why.Reason)(op, h)
		},
		do: func(r *run) {
			r.freeze(&journal.Detail{Reason: suspended(why.Reason), By: why.By})
			r.whenDurable(effect{do: func() { done.Store(true) }})
		},
	})
}

// Resume lets a parked run go on and returns when that is durable. Its panics in a row count anew.
func (e *Engine) Resume(ctx context.Context, id string, why Why) error {
	var asked, resumed atomic.Bool
	return e.order(ctx, order{
		op: "resume " + id, id: id, kind: journal.ResumeAsked, why: why,
		judge: func(op string, h journal.Head) error {
			err := mayResume(op, h)
			if resumed.Load() || asked.Load() && !errors.Is(err, errOpen) {
				return nil
			}
			return err
		},
		do: func(r *run) {
			asked.Store(true)
			if r.isFrozen() {
				r.thaw(why.detail(0))
			} else {
				r.append(journal.Entry{Kind: journal.RunResumed, Detail: why.detail(0)})
				r.leaveHead(r.values.active(), "", r.created()) // it is due at once
				r.yield()
			}
			r.whenDurable(effect{do: func() { resumed.Store(true) }})
		},
	})
}

// An order is a command of an operator about a run.
type order struct {
	op, id string
	judge  judge
	ends   bool       // it ends the run, which may clean up first
	do     func(*run) // appends to the run, whose lock is held, and ends the activation
	// the kind of the message that carries the order if another engine has the run
	kind journal.Kind
	why  Why
	met  journal.Head // the run that the order is for, as it was found last
}

// find returns the run that the order is for. An ID that names another run by the time that the
// order is tried again does not make the order one for that run, unless it continues the first.
func (o *order) find(ctx context.Context, d *FrontEnd) (journal.Head, error) {
	h, err := d.Find(ctx, o.id)
	if err == nil && o.met.Number != 0 && h.Chain != o.met.Chain {
		h, err = d.Find(ctx, string(o.met.ID))
	}
	if err == nil {
		o.met = h
	}
	return h, err
}

// order carries out an order. If the engine loses its lease meanwhile, the head of the run shows
// whether anything is left to do.
func (e *Engine) order(ctx context.Context, o order) error {
	for again := false; ; again = true {
		k, err := e.running(ctx, o.op)
		if err != nil && again {
			return &journal.Error{
				Code: journal.CodeOf(err), Op: o.op, Message: "the engine has lost its lease: it " +
					"may or may not be done", Err: context.Cause(ctx),
			}
		}
		if err != nil {
			return err
		}
		if err := k.order(ctx, &o); !errors.Is(err, errLost) {
			return err
		}
	}
}

// A judge reports whether there is something to do for a run: it returns errOpen if there is, and
// nil if it is done already.
type judge func(op string, h journal.Head) error

// errOpen means that a command has to be carried out.
var errOpen = errors.New("kernel: open")

func mayCancel(op string, h journal.Head) error {
	switch {
	case h.Status == journal.Cancelled:
		return nil
	case h.Status.IsTerminal():
		return wrongState(op, h, "it has ended, or will when it has cleaned up")
	case h.Status.IsDecided():
		return wrongState(op, h, "it carries out what it has decided")
	}
	return errOpen
}

func maySuspend(reason string) judge {
	return func(op string, h journal.Head) error {
		switch {
		case parked(h) && h.Cause == suspended(reason):
			return nil
		case !h.Status.CanSuspend() && h.Status != journal.Suspended:
			return wrongState(op, h, "only a PENDING, RUNNING or WAITING run can be suspended")
		}
		return errOpen
	}
}

func mayResume(op string, h journal.Head) error {
	switch {
	case h.Status == journal.Waiting && h.Pattern == journal.PatternMachine:
		return errOpen // a step may have suspended
	case !h.Status.CanResume():
		return wrongState(op, h, "only a SUSPENDED run can be resumed")
	case !parked(h):
		return wrongState(op, h, "it waits for an operator's decision, which lets it go on")
	}
	return errOpen
}

// hasSuspended returns an error unless a step of a machine that waits has suspended, so that an
// operator can resume it.
func hasSuspended(ctx context.Context, d *FrontEnd, op string, h journal.Head) error {
	entries, err := d.Read(ctx, h, store.Range{})
	if err != nil {
		return err
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return &journal.Error{Code: journal.CodeCorrupt, Op: op, Err: err}
		}
	}
	if slices.ContainsFunc(a.Snapshot().Waits, func(w journal.Wait) bool {
		return w.Reason == journal.ReasonAnySignal
	}) {
		return nil
	}
	return wrongState(op, h, "only a SUSPENDED run can be resumed, or one with a step that has "+
		"suspended")
}

func wrongState(op string, h journal.Head, why string) error {
	return &journal.Error{
		Code: journal.CodeWrongState, Op: op,
		Message: "run " + string(h.ID) + " is " + h.Status.String() + ": " + why,
	}
}

// order carries out an order: on the activation that the run has here, or on one made
// for it. A run that another engine has is sent a message.
func (k *Kernel) order(ctx context.Context, o *order) error {
	for {
		if err := k.running(ctx, o.op); err != nil {
			return err
		}
		head, err := o.find(ctx, &k.FrontEnd)
		if err != nil {
			return err
		}
		if err := o.judge(o.op, head); !errors.Is(err, errOpen) {
			return err
		}
		wakes := o.kind == journal.ResumeAsked && head.Status == journal.Waiting
		if wakes {
			if err := hasSuspended(ctx, &k.FrontEnd, o.op, head); err != nil {
				return err
			}
		}
		if wakes || head.Owner != 0 && head.Owner != k.engine {
			return k.ask(ctx, o.op, o.kind, head, o.why)
		}
		r, err := k.activation(ctx, head.Number, func(h journal.Head) bool {
			return errors.Is(o.judge(o.op, h), errOpen)
		}, o.ends, o.why.Mode)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		done, err := r.carryOut(o.op, o.judge, o.ends, o.do)
		if done == nil {
			if errors.Is(err, errOpen) {
				continue
			}
			return err
		}
		select {
		case <-done:
		case <-r.done: // the run may have left memory without the order
			err = errOpen
		case <-ctx.Done():
			return &journal.Error{
				Code: journal.CodeUnavailable, Op: o.op, Message: "the store has not answered: " +
					"it may or may not be done", Err: context.Cause(ctx),
			}
		case <-k.dead:
			if k.lost() {
				return k.cause() // the caller asks again
			}
			return k.stopped(o.op, "it may or may not be done", "")
		}
		r.mu.Lock()
		why := r.refusedBy()
		r.mu.Unlock()
		if refusal(why) {
			return &journal.Error{
				Code: journal.CodeInvalid, Op: o.op, Message: "the store refuses it", Err: why,
			}
		}
		if !errors.Is(err, errOpen) {
			return err
		}
	}
}

// carryOut carries out a command on the run, if it is still to be done. It returns a channel that
// is closed when the run has come further, and the result of the command from then on; errOpen
// means that the caller asks again. A nil channel means at once.
func (r *run) carryOut(op string, judge judge, ends bool, do func(*run)) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if decided := r.decides(); decided != nil {
		return decided, errOpen
	}
	did := !r.gone() && errors.Is(judge(op, r.asked(ends)), errOpen)
	if did {
		do(r)
	}
	closes := ends && r.ended() == nil && r.ending.as() != 0
	if closes && r.def == nil && !r.over() {
		if r.ending.closing() != nil {
			r.leaveHead(r.values.active(), "", r.created()) // for an engine that knows its workflow
			r.yield()
		} else {
			r.release()
		}
	}
	decided := ends && r.ended() == nil && !closes && r.values.decided() != 0
	switch {
	case decided && r.values.isPhaseIn(r.memo.reaches()): // the decision is durable
		return nil, judge(op, r.asked(ends))
	case r.over() && closes:
		return r.done, judge(op, r.asked(ends))
	case r.over():
		return r.done, errOpen
	case closes, did, decided:
		done := make(chan struct{})
		r.whenDurable(effect{do: func() { close(done) }})
		r.flush() // a turn that goes on seals the other entries
		return done, judge(op, r.asked(ends))
	}
	return nil, judge(op, r.asked(ends))
}

// asked returns the head by which a command is judged. For a command that ends the run, the head
// has the status that the run will end with, if that is decided.
func (r *run) asked(ends bool) journal.Head {
	h := r.head()
	if s := cmp.Or(r.ending.as(), r.values.decided()); ends && s != 0 {
		h.Status = s
	}
	return h
}

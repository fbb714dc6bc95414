package kernel

import (
	"errors"

	"github.com/perdure/perdure/journal"
)

// A command is a message of the engine's own in the inbox of a run: to cancel, suspend or resume
// the run, or to cancel one of its timers. Operators and other processes send commands. Only the
// owner of the run carries them out, by an entry that takes the message.
type command struct {
	run *run
	journal.Entry
}

// may reports whether the command can be carried out now. The cancelling of a timer waits until no
// code can go on, because replayed code may not have come to the timer yet. If the timer is
// recorded, and code blocks outside the engine or has not begun, it waits until that code has gone
// on. The same holds for resuming a step machine that is not suspended: a step of it waits.
func (c command) may() bool {
	r := c.run
	resumes := c.Kind == journal.ResumeAsked && !r.isFrozen() &&
		r.head().Pattern == journal.PatternMachine
	if c.Kind != journal.TimerCancelled && !resumes {
		return true
	}
	return r.holder() == nil && (r.memo == nil || !r.anyAhead() ||
		!resumes && !r.memo.timerAhead(c.Op.Key))
}

// do carries out the command, if that is possible now. The entry that does so takes the message.
func (c command) do() {
	if !c.may() {
		return
	}
	r, d := c.run, c.Detail
	if d == nil {
		d = &journal.Detail{}
	}
	r.inbox.remove(c.Seq, r.last()+1)
	done := false
	switch c.Kind {
	case journal.CancelAsked:
		why := whyOf(d)
		if why.Mode == journal.ActionJoin {
			done = r.admission.join(d.Other, c.Seq)
			break
		}
		if why.Mode == journal.ActionTerminate {
			if done = !r.values.isTCCDecided(); done {
				endAtOnce(r, why, c.Seq)
			}
			break
		}
		if done = r.ending.as() == 0 && r.values.decided() == 0; done {
			r.finish(cancelledBy(why, c.Seq), true)
		}
	case journal.SuspendAsked:
		if done = errors.Is(maySuspend(d.Reason)("", r.head()), errOpen); done {
			r.freeze(r.takeSuspends(suspension(&c.Entry)))
		}
	case journal.ResumeAsked:
		if done = r.isFrozen(); done {
			r.thaw(whyOf(d).detail(c.Seq))
		} else {
			done = resumeWaits(r, whyOf(d).detail(c.Seq))
		}
	case journal.TimerCancelled:
		o := r.operations.timer(c.Op.Key)
		if done = o != nil; done {
			o.settle(journal.Entry{
				Kind: journal.TimerCancelled,
				Detail: &journal.Detail{
					Reason:        d.Reason,
					MessageDetail: journal.MessageDetail{Mail: c.Seq},
				},
			})
		}
	}
	if !done {
		r.outside(journal.Entry{
			Kind: journal.StatusChanged, Status: r.status(), Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: c.Seq},
			},
		})
	}
}

// resumeWaits ends the waits for any signal of a run that is not suspended, because an operator has
// resumed it. It reports whether there are any. The first entry has the detail.
func resumeWaits(r *run, d *journal.Detail) (any bool) {
	for o := range r.waits.of(anySignal) {
		o.settle(journal.Entry{Kind: journal.SignalNoticed, Detail: d})
		d, any = nil, true
	}
	return any
}

// unparks reports whether a message lets a parked run go on.
func unparks(e *journal.Entry) bool {
	return e.Kind == journal.CancelAsked || e.Kind == journal.ResumeAsked
}

// commands carries out the engine's own messages in the inbox.
func (r *run) commands() {
	for !r.gone() {
		e := r.inbox.find(func(e *journal.Entry) bool {
			return e.Op.Name == controlName && command{r, *e}.may()
		})
		if e == nil {
			return
		}
		command{r, *e}.do()
	}
}

// suspension returns the detail of the entry that carries out a request to suspend.
func suspension(m *journal.Entry) *journal.Detail {
	d := &journal.Detail{MessageDetail: journal.MessageDetail{Mail: m.Seq}}
	if m.Detail != nil {
		d.Reason, d.By = m.Detail.Reason, m.Detail.By
	}
	d.Reason = suspended(d.Reason)
	return d
}

// takeSuspends takes the requests to suspend a run that is suspended already or will be at once, up
// to a request to resume it. Each reason except the last has an entry. The last reason is returned;
// it is first if there is no other.
func (r *run) takeSuspends(first *journal.Detail) (last *journal.Detail) {
	last = first
	for {
		e := r.inbox.find(func(e *journal.Entry) bool {
			return e.Kind == journal.SuspendAsked || e.Kind == journal.ResumeAsked
		})
		if e == nil || e.Kind == journal.ResumeAsked {
			return last
		}
		next := suspension(e)
		r.inbox.remove(next.Mail, r.last()+1)
		switch {
		case last != nil && last.Reason != next.Reason:
			r.outside(journal.Entry{
				Kind: journal.RunSuspended, Status: journal.Suspended, Detail: last,
			})
			last = next
		case last == nil && r.head().Cause != next.Reason:
			last = next
		default:
			r.outside(journal.Entry{
				Kind: journal.StatusChanged, Status: r.status(), Detail: &journal.Detail{
					MessageDetail: next.MessageDetail,
				},
			})
		}
	}
}

// takeReasons takes the requests to suspend a run that is parked already.
func (r *run) takeReasons() {
	if d := r.takeSuspends(nil); d != nil {
		r.because(d.Reason)
		r.outside(journal.Entry{Kind: journal.RunSuspended, Status: journal.Suspended, Detail: d})
	}
}

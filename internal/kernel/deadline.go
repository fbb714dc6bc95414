package kernel

import "time"

// An alarm is a timer that may be set: the alarm of a run's overall timeout, or of its trial. The
// mu of the run guards it.
type alarm struct{ timer *time.Timer }

// set makes the alarm call f after that time. It replaces an earlier alarm.
func (a *alarm) set(after time.Duration, f func()) { a.timer = time.AfterFunc(after, f) }

// stop stops the alarm, if it is set.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// overdue ends a run whose overall timeout has passed, or sets the alarm for it.
func (r *run) overdue() bool {
	deadline := r.due()
	if deadline.IsZero() {
		return false
	}
	if time.Until(deadline) <= 0 {
		r.finish(timedOut(), true)
		return true
	}
	r.deadline.set(r.k.cfg.until(deadline), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone() && !r.overdue() {
			return
		}
	})
	return false
}

// due returns when the overall timeout passes; zero if there is none, or if the timeout would undo
// a decision.
func (r *run) due() time.Time {
	if r.def == nil || r.def.Timeout <= 0 || r.ending.as() != 0 || r.values.decided() != 0 {
		return time.Time{}
	}
	return later(r.created(), r.admission.due()).Add(r.def.Timeout)
}

// earlier returns the earlier one of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

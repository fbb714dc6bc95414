package kernel

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
)

// A Timer is a time that workflow code waits for.
type Timer struct {
	Name string
	Key  string
	Change
	At  time.Time     // zero means after For
	For time.Duration // from now on
}

// Sleep waits until the time has come. It never returns too early by the clock of the engine. It
// counts from its first call, over crashes.
func Sleep(ctx context.Context, t Timer) (Outcome, error) {
	t.Name = cmp.Or(t.Name, sleepName)
	s, over, err := asking(ctx, call{"sleep", t.Name})
	if err != nil {
		return Outcome{}, err
	}
	defer s.run.mu.Unlock()
	return s.await(s.setTimer(ctx, t, over))
}

// StartTimer sets a timer and does not wait for it. It returns when the timer fires.
func StartTimer(ctx context.Context, t Timer) (*Operation, time.Time, error) {
	s, over, err := asking(ctx, call{"timer", t.Name})
	if err != nil {
		return nil, time.Time{}, err
	}
	defer s.run.mu.Unlock()
	o := s.setTimer(ctx, t, over)
	return (*Operation)(o), o.due, nil
}

func (s *scope) setTimer(ctx context.Context, t Timer, over *journal.Failure) *operation {
	r := s.run
	op, rec := s.ask(asked{t.Name, t.Key, isTimer, t.Change, false})
	o := &operation{run: r, scope: s, id: op, class: isTimer}
	if rec != nil {
		o.due = rec.due
	}
	if rec != nil && rec.ended != nil {
		o.recorded(rec.ended)
		return o
	}
	r.operations.track(o)
	o.run.operations.begin(o)
	switch {
	case rec != nil:
	case t.At.IsZero():
		o.due = r.k.Now().Add(t.For).Round(0).UTC()
	default:
		o.due = t.At.Round(0).UTC()
	}
	if rec == nil {
		r.append(journal.Entry{Kind: journal.TimerRegistered, Op: op, Detail: &journal.Detail{
			Due: o.due,
		}})
	}
	if o.heed(ctx, over); !o.settled {
		o.wait()
	}
	return o
}

// fire settles the timers whose times have come, in the order of their times and, at one time, in
// the order in which they were set. It is called when no code can go on, because replayed code may
// still ask for a timer that came before. It reports whether there was one.
func (r *run) fire() bool {
	if r.gone() {
		return false
	}
	fired := false
	for o := r.waits.timer(r.k.clock); o != nil; o = r.waits.timer(r.k.clock) {
		r.observed.fires(o)
		o.conclude(journal.Entry{Kind: journal.TimerFired})
		fired = true
	}
	return fired
}

// openTimers returns the named timers that have not fired, with their times: timers that code has
// asked for, and timers that are recorded. The successor counts occurrences of a name from the
// beginning, so the timers that are left are numbered anew.
func (s *operations) openTimers(m *memo, of journal.RunID) []journal.Entry {
	var out []journal.Entry
	add := func(op journal.Op, due time.Time) {
		if op.Scope == 0 {
			out = append(out, journal.Entry{
				Kind: journal.TimerRegistered, Op: op,
				Detail: &journal.Detail{Due: due, Other: of},
			})
		}
	}
	for o := range s.all() {
		if o.class == isTimer && !o.settled && o.id.Name != sleepName {
			add(o.id, o.due)
		}
	}
	if m != nil {
		for _, rec := range m.order {
			if rec.class == isTimer && !rec.asked && rec.ended == nil && rec.op.Name != sleepName {
				add(rec.op, rec.due)
			}
		}
	}
	slices.SortFunc(out, func(a, b journal.Entry) int {
		return cmp.Or(
			cmp.Compare(a.Op.Name, b.Op.Name), cmp.Compare(a.Op.Key, b.Op.Key),
			cmp.Compare(a.Op.Occ, b.Op.Occ),
		)
	})
	for i := range out {
		op := &out[i].Op
		if op.Occ = 1; i > 0 && op.Name == out[i-1].Op.Name && op.Key == out[i-1].Op.Key {
			op.Occ = out[i-1].Op.Occ + 1
		}
	}
	return out
}

// sleepName is the name of sleeps without a name of their own.
const sleepName = "sleep"

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
	if r.k.until(deadline) <= 0 {
		r.finish(timedOut(), true)
		return true
	}
	r.deadline.set(r.k.clock.look(deadline, r.k.cfg.Sweep), func() {
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
	if r.def == nil || r.ending.as() != 0 || r.values.decided() != 0 {
		return time.Time{}
	}
	limit := r.k.cfg.TimeoutOf(r.def)
	if limit <= 0 {
		return time.Time{}
	}
	return later(r.created(), r.admission.due()).Add(limit)
}

// TimeoutOf returns the overall timeout of the runs of a workflow; at most 0 for none.
func (c *Config) TimeoutOf(w *Workflow) time.Duration {
	usual, set := c.Timeouts[w.Pattern]
	if w.Timed || !set || rules.IsOwn(w.Name) {
		return w.Timeout
	}
	return usual
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

// A clock has the time that is recorded, and that recorded times are compared with: the times of
// entries, messages and notices, when a timer or a retry is due, when a run began and ended. It is
// the clock of the application, or else that of the machine.
//
// What is measured does not ask it, but the monotonic clock of the machine: how long an attempt, a
// commit or a turn takes, how long a run is idle, when a lease ends. A lease keeps two processes
// apart, each of which stops by its own count of the time that has passed. With a clock that jumps,
// both could write.
type clock struct {
	app func() time.Time // nil for the clock of the machine
}

// Now returns the time.
func (c clock) Now() time.Time {
	if c.app == nil {
		return time.Now()
	}
	return c.ask()
}

// ask asks the clock of the application. If that panics, or returns the zero time, ask returns the
// time of the machine: the zero time means never.
func (c clock) ask() (now time.Time) {
	_ = guard.Try(func() error {
		now = c.app().Round(0)
		return nil
	})
	if now.IsZero() {
		return time.Now()
	}
	return now
}

// until returns how long it is until t; below 0 if t has passed.
func (c clock) until(t time.Time) time.Duration {
	if c.app == nil {
		return time.Until(t)
	}
	return t.Sub(c.ask())
}

// look returns how long a timer of the machine waits before the clock is looked at again for that
// time: at most a sweep, since timers do not notice that the clock was put forward, or that the
// machine slept.
func (c clock) look(due time.Time, sweep time.Duration) time.Duration {
	left := max(c.until(due), 0)
	if sweep > 0 {
		left = min(left, sweep)
	}
	return left
}

// Now returns the time by the clock of the engine that executes the workflow code or the step of
// ctx, and elsewhere the time of the machine. In workflow code the caller records it.
func Now(ctx context.Context) time.Time {
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		return v.run.k.Now()
	case *attempt:
		return v.op.run.k.Now()
	}
	return time.Now()
}

package schedule

import (
	"slices"
	"time"
)

// A decision is the part of a schedule's work at one moment. It depends on the clock and on the
// time zones of the machine, so it is recorded.
type decision struct {
	Now     time.Time `json:"now"`
	Broken  string    `json:"broken,omitempty"`
	Starts  []start   `json:"starts,omitempty"`
	Misses  []Miss    `json:"misses,omitempty"`
	Floor   time.Time `json:"floor,omitzero"`
	CatchUp bool      `json:"catch_up,omitempty"`
	Busy    time.Time `json:"busy,omitzero"`
	Cancel  bool      `json:"cancel,omitempty"` // the open run
	Wake    time.Time `json:"wake,omitzero"`    // when to decide again
	// Filled is how far the first backfill is, and Full reports whether it is done.
	Filled time.Time `json:"filled,omitzero"`
	Full   bool      `json:"full,omitempty"`
}

// A start is a run that is to be started.
type start struct {
	At    time.Time `json:"at"` // nominal
	Cause Cause     `json:"cause"`
	Note  string    `json:"note,omitempty"`
}

// startsAtOnce limits how many runs one decision starts.
const startsAtOnce = 100

// The reasons for which times are missed.
const (
	lateTime = "no engine had the schedule at the time"
	busyTime = "a run of the schedule was open"
	// a run was open, or the time waited for other late ones
	changedTime = "the schedule was paused or changed before the time could start a run"
)

// decide returns what is to be done at a time. It changes nothing.
func (s *state) decide(now time.Time) decision {
	p := planner{s: s, d: decision{
		Now: now.Round(0).UTC(), Floor: s.Floor, CatchUp: s.CatchUp, Busy: s.Busy,
	}, left: s.Left}
	if s.Deleted {
		return p.d
	}
	var err error
	if p.times, err = s.timetable(); err != nil {
		p.d.Broken = err.Error()
		return p.d
	}
	switch {
	case s.Open == nil || !s.isSerial():
		p.begin()
	case s.Spec.Overlap == Cancel && !s.Cancelling && s.Paused == nil && !s.CatchUp:
		next, found := p.times.next(p.d.Floor)
		p.d.Cancel = found && !p.times.due(next.At).After(p.d.Now)
	}
	p.d.Wake = p.wake()
	return p.d
}

// A planner makes a decision.
type planner struct {
	s     *state
	d     decision
	times timetable
	left  int // of Spec.Times
	taken int // of state.Wanted
	full  bool
}

// begin decides about the runs to start: one, or with Allow all that are due.
func (p *planner) begin() {
	for len(p.d.Starts) < startsAtOnce {
		next, found := p.one()
		if !found {
			return
		}
		p.d.Starts = append(p.d.Starts, next)
		if p.s.isSerial() {
			return
		}
	}
	p.full = true
}

// one returns the next run to start.
func (p *planner) one() (start, bool) {
	// a run may have been cancelled for a time
	if p.s.Spec.Overlap == Cancel && !p.d.Busy.IsZero() && p.s.Paused == nil {
		if at, found := p.take(); found {
			p.left--
			return start{at, ByTime, p.times.note(at)}, true
		}
	}
	if p.taken < len(p.s.Wanted) {
		p.taken++
		return start{At: p.s.Wanted[p.taken-1].At, Cause: ByRequest}, true
	}
	if p.s.Paused != nil {
		return start{}, false
	}
	at, found := p.take()
	if found {
		p.left--
		return start{at, ByTime, p.times.note(at)}, true
	}
	if at, found = p.fill(); found {
		return start{at, ByBackfill, p.times.note(at)}, true
	}
	return start{}, false
}

// take returns the next nominal time that starts a run now.
func (p *planner) take() (time.Time, bool) {
	switch {
	case p.s.Spec.Times > 0 && p.left <= 0:
		return time.Time{}, false
	case p.s.Spec.After > 0:
		if p.s.Next.IsZero() || p.s.Next.After(p.d.Now) {
			return time.Time{}, false
		}
		return p.s.Next, true
	}
	if p.d.CatchUp {
		return p.catchUp()
	}
	if at, found := p.afterBusy(); found {
		return at, true
	}
	due := p.times.between(p.d.Floor, p.d.Now)
	if due.n == 0 {
		return time.Time{}, false
	}
	late := p.d.Now.Sub(p.times.due(due.last))
	switch {
	case p.s.isSerial() && p.s.hasStray():
		p.miss(due, busyTime)
		return time.Time{}, false
	case p.s.Spec.CatchUp == None && late > grace,
		p.s.Spec.CatchUp == Last && p.s.Spec.Window > 0 && late > p.s.Spec.Window:
		p.miss(due, lateTime)
		return time.Time{}, false
	case p.s.Spec.CatchUp == All && due.n > 1:
		return p.catchUp()
	}
	return p.last(due, lateTime), true
}

// last misses all times of a stretch but the last, which it returns.
func (p *planner) last(s stretch, why string) time.Time {
	if s.n > 1 {
		before := p.times.between(p.d.Floor, p.times.due(s.last).Add(-1))
		if before.n > 0 {
			p.miss(before, why)
		}
	}
	p.d.Floor = s.last
	return s.last
}

// catchUp returns the first of the times that are caught up. Those that become due meanwhile are
// too.
func (p *planner) catchUp() (time.Time, bool) {
	if tooLate := p.times.between(p.d.Floor,
		p.d.Now.Add(-p.s.Spec.Window-1)); p.s.Spec.Window > 0 && tooLate.n > 0 {
		p.miss(tooLate, "it was more than "+p.s.Spec.Window.String()+" late")
	}
	p.d.CatchUp = true
	next, found := p.times.next(p.d.Floor)
	if !found || p.times.due(next.At).After(p.d.Now) {
		p.d.CatchUp = false
		return time.Time{}, false
	}
	p.d.Floor = next.At.UTC()
	return p.d.Floor, true
}

// afterBusy decides about the times that came while the last run was open, and returns the one that
// starts a run.
func (p *planner) afterBusy() (time.Time, bool) {
	busy := p.d.Busy
	if busy.IsZero() {
		return time.Time{}, false
	}
	p.d.Busy = time.Time{}
	came := p.times.between(p.d.Floor, busy)
	switch {
	case came.n == 0:
	case p.s.Spec.Overlap == Skip:
		p.miss(came, busyTime)
	default:
		return p.last(came, busyTime), true
	}
	return time.Time{}, false
}

// miss records that the times of a stretch start nothing.
func (p *planner) miss(s stretch, why string) {
	p.d.Misses = append(p.d.Misses,
		Miss{s.first.UTC(), s.last.UTC(), s.n, s.more, why})
	p.d.Floor = s.last.UTC()
}

// fill returns the next time of the first backfill that starts a run.
func (p *planner) fill() (time.Time, bool) {
	if len(p.s.Backfills) == 0 || p.d.Full {
		return time.Time{}, false
	}
	b := p.s.Backfills[0]
	if b.Started >= maxBackfill {
		p.d.Full = true
		return time.Time{}, false
	}
	if p.d.Filled.IsZero() {
		p.d.Filled = latest(b.Done, b.From.Add(-1))
	}
	times := p.times.since(b.From)
	for range counted {
		next, found := times.next(p.d.Filled)
		if !found || next.At.After(b.To) || next.At.After(p.d.Floor) {
			p.d.Full = true
			return time.Time{}, false
		}
		p.d.Filled = next.At.UTC()
		if !p.s.isCovered(p.d.Filled) {
			return p.d.Filled, true
		}
	}
	p.full = true
	return time.Time{}, false
}

// wake returns when to decide again if nothing else happens.
func (p *planner) wake() time.Time {
	switch {
	case p.full || p.d.Full && len(p.s.Backfills) > 1:
		return p.d.Now
	case p.s.Paused != nil, p.s.Spec.Times > 0 && p.left <= 0:
		return time.Time{}
	case p.waits():
		return time.Time{}
	case p.s.Spec.After > 0:
		return p.s.Next
	}
	next, found := p.times.next(p.d.Floor)
	if !found {
		return time.Time{}
	}
	return p.times.due(next.At).UTC()
}

// waits reports whether nothing is to be done before an open run has ended.
func (p *planner) waits() bool {
	switch {
	case !p.s.isSerial(), p.s.Open == nil && len(p.d.Starts) == 0:
		return false
	case p.s.Spec.Overlap == Cancel:
		return p.s.Cancelling || p.d.Cancel || p.d.CatchUp
	}
	return true
}

// miss records times that start nothing.
func (s *state) miss(all []Miss) {
	for _, m := range all {
		s.Missed += int64(m.N)
		s.Gap = true
	}
	s.Misses = lastOf(append(slices.Clone(s.Misses), all...), keptMisses)
}

// apply takes in a decision, except for its starts, which began records.
func (s *state) apply(d decision) {
	if s.Broken = d.Broken; d.Broken != "" {
		return
	}
	s.Floor, s.CatchUp, s.Busy = d.Floor, d.CatchUp, d.Busy
	s.miss(d.Misses)
	s.Cancelling = s.Cancelling || d.Cancel
	for _, one := range d.Starts {
		switch one.Cause {
		case ByRequest:
			s.Wanted = slices.Clone(s.Wanted[1:])
		case ByBackfill:
			s.Backfills = slices.Clone(s.Backfills)
			s.Backfills[0].Started++
		}
	}
	if !d.Filled.IsZero() && len(s.Backfills) > 0 {
		s.Backfills = slices.Clone(s.Backfills)
		s.Backfills[0].Done = d.Filled
		s.cover(s.Backfills[0].From, d.Filled)
	}
	if d.Full {
		s.Backfills = slices.Clone(s.Backfills[1:])
	}
}

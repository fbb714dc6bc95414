package schedule

import (
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Note is the author of a change and the reason for it. Both may be empty.
type Note struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// A state is the state of a schedule: its definition, and how far it has come. The code of the
// workflow changes it; nothing else does.
type state struct {
	definition
	progress

	run    string // its run ID, for the client that has read it
	isOpen bool
}

// A definition is the part of a state that people change.
type definition struct {
	Name     string    `json:"name"`
	Spec     Spec      `json:"spec"`
	Created  time.Time `json:"created,omitzero"`
	Changed  time.Time `json:"changed,omitzero"`
	By       Note      `json:"by,omitzero"` // of the last change
	Revision int       `json:"revision"`    // the number of changes of the spec
	// Declared is the spec that code has declared last. Own is set if somebody has set another one.
	Declared *Spec `json:"declared,omitempty"`
	Own      bool  `json:"own,omitempty"`
	Paused   *Halt `json:"paused,omitempty"`
}

// A progress is the part of a state that changes as time passes.
type progress struct {
	Floor   time.Time `json:"floor,omitzero"`     // the timetable starts nothing at or before it
	Anchor  time.Time `json:"anchor,omitzero"`    // the first time of a rate
	Next    time.Time `json:"next,omitzero"`      // of a fixed delay
	CatchUp bool      `json:"catch_up,omitempty"` // the times that are due start one after the other
	Busy    time.Time `json:"busy,omitzero"`      // when the last run ended
	Gap     bool      `json:"gap,omitempty"`      // times since the end of the last span are missed
	Left    int       `json:"left,omitempty"`     // of Spec.Times
	Broken  string    `json:"broken,omitempty"`

	Open       *Run      `json:"open,omitempty"` // the run that is waited for
	Cancelling bool      `json:"cancelling,omitempty"`
	Wanted     []want    `json:"wanted,omitempty"`
	Backfills  []Filling `json:"backfills,omitempty"`

	Recent   []Run  `json:"recent,omitempty"` // oldest first
	Previous *Run   `json:"previous,omitempty"`
	Success  *Run   `json:"success,omitempty"`
	Started  int64  `json:"started"`
	Missed   int64  `json:"missed"`
	Misses   []Miss `json:"misses,omitempty"` // oldest first
	Covered  []span `json:"covered,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

// A Halt is a reason for which a schedule starts nothing by itself.
type Halt struct {
	At time.Time `json:"at"`
	Note
}

// A want is a request for a run now.
type want struct {
	At time.Time `json:"at"`
	Note
}

// A Filling is a past period whose missing times are started.
type Filling struct {
	From    time.Time `json:"from"` // in it
	To      time.Time `json:"to"`   // in it
	Done    time.Time `json:"done,omitzero"`
	Started int       `json:"started"`
	Note
}

// A Run is a run that a schedule has started.
type Run struct {
	ID    string    `json:"id"` // its workflow ID
	RunID string    `json:"run_id"`
	Time  time.Time `json:"time"` // nominal
	At    time.Time `json:"at"`   // when it was started
	Cause Cause     `json:"cause"`
	Note  string    `json:"note,omitempty"` // about a change of the clock
	// Status is empty for a run that has not ended, as far as the schedule knows.
	Status string    `json:"status,omitempty"`
	Ended  time.Time `json:"ended,omitzero"`
	Error  string    `json:"error,omitempty"`
}

// A Cause is the reason for which a run was started.
type Cause string

// The causes.
const (
	ByTime     Cause = "time"
	ByRequest  Cause = "request" // by RunNow
	ByBackfill Cause = "backfill"
)

// A Miss is a number of nominal times that have started nothing.
type Miss struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	N    int       `json:"n"`
	More bool      `json:"more,omitempty"` // there are more than N
	Why  string    `json:"why"`
}

// A span is a period whose nominal times have started their runs. A backfill leaves it out.
type span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

const (
	keptRuns   = 10
	keptMisses = 10
	keptSpans  = 50
	maxWanted  = 100
	maxFills   = 10
)

// newState returns the state of a schedule that is set at a time.
func newState(name string, spec Spec, by Note, at time.Time) *state {
	s := &state{}
	s.Name, s.Created, s.Changed, s.By = name, at, at, by
	s.set(spec, by, at)
	s.begin(at)
	return s
}

// begin sets the first time of a new timetable.
func (s *state) begin(at time.Time) {
	first := at.Add(s.Spec.InitialDelay).Round(0).UTC()
	s.Next, s.Anchor = time.Time{}, time.Time{}
	switch {
	case s.Spec.After > 0:
		s.Next = first
	case s.Spec.Every > 0:
		s.Anchor = first
		s.raise(first.Add(-time.Nanosecond))
	default:
		s.raise(first)
	}
}

// set replaces the spec.
func (s *state) set(spec Spec, by Note, at time.Time) {
	if spec.Times != s.Spec.Times {
		s.Left = spec.Times
	}
	if spec.Paused != "" && s.Paused == nil {
		s.Paused = &Halt{at, Note{by.By, spec.Paused}}
	}
	spec.Paused = ""
	s.Spec = spec
}

// change replaces the spec of a schedule that goes on. It begins with its next future time.
func (s *state) change(spec Spec, by Note, at time.Time) {
	old := s.Spec
	s.Changed, s.By, s.Broken = at, by, ""
	s.Revision++
	s.set(spec, by, at)
	isRate := old.Every > 0 && spec.Every > 0 && old.InitialDelay == spec.InitialDelay
	if !spec.isSameTimetable(old) && !isRate {
		s.begin(at)
	}
	s.goOn(at)
}

// goOn makes the next time a future one.
func (s *state) goOn(at time.Time) {
	s.raise(at)
	s.CatchUp, s.Busy = false, time.Time{}
	if s.Spec.After > 0 && !s.Next.IsZero() && s.Next.Before(at) {
		s.Next = at.Add(s.Spec.After)
	}
}

// raise makes the timetable start nothing at or before a time. Nominal times only move forward.
func (s *state) raise(to time.Time) {
	if to = to.Round(0).UTC(); to.After(s.Floor) {
		s.Floor, s.Gap = to, true
	}
}

// hear takes in a change that was asked for.
func (s *state) hear(c change) {
	at := c.At
	switch {
	case c.Set != nil:
		s.change(*c.Set, c.Note, at)
		s.declare(c, s.Declared)
	case c.Declare != nil && s.Own:
		s.Declared = c.Declare
	case c.Declare != nil:
		s.change(*c.Declare, c.Note, at)
		s.declare(c, nil)
	case c.Pause:
		s.Paused = &Halt{at, c.Note}
		s.raise(at)
		s.CatchUp, s.Busy = false, time.Time{}
	case c.Resume && s.Paused != nil:
		s.Paused = nil
		s.goOn(at)
	case c.Run && len(s.Wanted) < maxWanted:
		s.Wanted = append(slices.Clip(s.Wanted), want{c.At.Round(0).UTC(), c.Note})
	case c.Backfill != nil && len(s.Backfills) < maxFills:
		b := *c.Backfill
		b.Note, b.Done, b.Started = c.Note, time.Time{}, 0
		s.Backfills = append(slices.Clip(s.Backfills), b)
	case c.Delete:
		s.Deleted, s.By, s.Changed = true, c.Note, at
	}
}

// began records a run that was started.
func (s *state) began(r Run, serial bool) {
	s.Started++
	s.Recent = lastOf(append(slices.Clone(s.Recent), r), keptRuns)
	if serial {
		s.Open, s.Cancelling = &r, false
	}
	switch {
	case r.Cause != ByTime:
	case s.Spec.After > 0:
		s.Next = time.Time{}
	case s.Gap || len(s.Covered) == 0:
		s.cover(r.Time, r.Time)
		s.Gap = false
	default:
		s.cover(s.Covered[len(s.Covered)-1].To, r.Time)
	}
	if r.Cause == ByTime && s.Left > 0 {
		s.Left--
	}
}

// cover adds a period to the covered ones.
func (s *state) cover(from, to time.Time) {
	var all []span
	for _, c := range s.Covered {
		if c.To.Before(from) || c.From.After(to) {
			all = append(all, c)
			continue
		}
		from, to = earliest(from, c.From), latest(to, c.To)
	}
	all = append(all, span{from, to})
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	if len(all) > keptSpans { // the oldest gap counts as covered
		all[1].From = all[0].From
		all = all[1:]
	}
	s.Covered = all
}

// isCovered reports whether a nominal time has started a run, or may have.
func (s *state) isCovered(at time.Time) bool {
	return slices.ContainsFunc(s.Covered, func(c span) bool {
		return !at.Before(c.From) && !at.After(c.To)
	})
}

// ended records the end of a run of the schedule.
func (s *state) ended(id string, status journal.Status, problem string, at time.Time) {
	for i := range s.Recent {
		if r := s.Recent[i]; r.ID == id && r.Status == "" {
			r.Status, r.Ended, r.Error = status.String(), at, problem
			s.Recent = slices.Clone(s.Recent)
			s.Recent[i] = r
			s.note(r, status)
		}
	}
	if s.Open == nil || s.Open.ID != id {
		return
	}
	s.Open, s.Cancelling = nil, false
	if s.isSerial() {
		s.Busy = at
	}
	if s.Spec.After > 0 {
		s.Next = at.Add(s.Spec.After).Round(0).UTC()
	}
}

// note makes a run that has ended the previous one of those that follow.
func (s *state) note(r Run, status journal.Status) {
	if s.Previous == nil || !r.Ended.Before(s.Previous.Ended) {
		s.Previous = &r
	}
	if status.IsSuccess() && (s.Success == nil || !r.Ended.Before(s.Success.Ended)) {
		s.Success = &r
	}
}

// isOver reports whether the schedule has nothing more to do.
// A declared one stays, or it would begin again with the next engine.
func (s *state) isOver() bool { return s.Deleted || s.isFinished() && s.Declared == nil }

func (s *state) isFinished() bool {
	return s.Spec.Times > 0 && s.Left == 0 && s.Open == nil && len(s.Wanted) == 0 &&
		len(s.Backfills) == 0
}

// isSerial reports whether at most one run is open at a time.
func (s *state) isSerial() bool { return s.Spec.Overlap != Allow }

// hasStray reports whether a run is open, as far as the schedule knows, that it does not wait for:
// it was started when the rule was Allow.
func (s *state) hasStray() bool {
	return slices.ContainsFunc(s.Recent, func(r Run) bool {
		return r.Status == "" && (s.Open == nil || r.ID != s.Open.ID)
	})
}

// timetable returns the timetable of the spec.
func (s *state) timetable() (timetable, error) {
	t, err := newTimetable(s.Name, s.Spec)
	t.anchor = s.Anchor
	return t, err
}

// next returns the next n nominal times, up to the last year that has a form in JSON.
func (s *state) next(n int) ([]Time, error) {
	t, err := s.timetable()
	if err != nil {
		return nil, err
	}
	if s.Spec.Times > 0 {
		n = min(n, s.Left)
	}
	if s.Spec.After > 0 {
		if s.Next.IsZero() || n < 1 {
			return nil, nil
		}
		return []Time{{At: s.Next}}, nil
	}
	var out []Time
	for at := s.Floor; len(out) < n; {
		next, found := t.next(at)
		if !found || next.At.Year() > 9999 {
			break
		}
		out, at = append(out, next), next.At
	}
	return out, nil
}

func lastOf[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

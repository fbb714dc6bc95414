package schedule

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Spec is the definition of a schedule. Exactly one of Cron, Every and After is set.
type Spec struct {
	// Workflow is the name of the workflow, graph, saga or TCC that the schedule starts.
	Workflow string
	// Cron has five fields: minute, hour, day of the month, month, day of the week. Or it has six,
	// with a second before them. 0 and 7 are Sunday. If the day of the month and the day of the
	// week are both given, one of them is enough.
	Cron string
	// Zone is the time zone of Cron, a name of the tz database. Empty means UTC.
	Zone string
	// Every is a fixed rate, from start to start. The first time is that of the creation, plus
	// InitialDelay.
	Every time.Duration
	// After is a fixed delay, from the end of a run to the start of the next.
	After time.Duration
	// InitialDelay puts off the first time of a new schedule.
	InitialDelay time.Duration

	// Input is the JSON of the runs' input. Empty means {}.
	Input json.RawMessage
	// Headers and Attributes are those that the runs begin with.
	Headers    map[string]string
	Attributes map[string]string
	// Description is for people.
	Description string

	// Overlap decides about a time that comes while a run of the schedule is open. Empty means
	// Skip.
	Overlap Overlap
	// CatchUp decides about times that came while no engine had the schedule. Empty means Last.
	CatchUp CatchUp
	// Window is how late a time may still start a run. Zero means no limit with Last, and 24 h with
	// All.
	Window time.Duration
	// Jitter delays each start by a part of it, which follows from the name of the schedule and the
	// nominal time. It is never longer than the time until the next nominal time.
	Jitter time.Duration
	// Times is how many runs the timetable starts. Then the schedule is finished. Zero means no
	// limit. It counts anew when it is changed.
	Times int
	// Paused, if not empty, is the reason for which the schedule is paused when it is set. An empty
	// Paused does not resume a schedule: see [Resume].
	Paused string
}

// An Overlap is a rule for a time that comes while a run of the schedule is open.
type Overlap string

// The rules. Allow starts the run beside the open one, and waits for none.
const (
	Skip   Overlap = "skip"   // the time is missed
	Allow  Overlap = "allow"  // the run is started
	Buffer Overlap = "buffer" // the last of such times starts when the open run has ended
	Cancel Overlap = "cancel" // the open run is cancelled, and the last of such times starts then
)

// A CatchUp is a rule for times that came while no engine had the schedule.
type CatchUp string

// The rules. A time that is at most a minute late is on time with None.
const (
	Last CatchUp = "last" // the last of them starts a run
	None CatchUp = "none" // they are missed
	All  CatchUp = "all"  // each of them starts a run; one after the other, except with Allow
)

const (
	minRate    = time.Second
	maxRate    = 100 * 366 * 24 * time.Hour
	grace      = time.Minute
	allWindow  = 24 * time.Hour
	maxTimes   = 1_000_000_000
	maxName    = 200
	maxText    = 1000
	longestDue = 41 * 366 * 24 * time.Hour // as far as a cron expression is followed
)

// Check returns an [perdure.Error] of code invalid if the spec is not valid.
func (s Spec) Check() error {
	_, err := s.complete("schedule")
	return err
}

// complete returns the spec with its defaults.
func (s Spec) complete(op string) (Spec, error) {
	s, err := s.fill(op)
	if err == nil {
		if _, err := newTimetable("", s); err != nil {
			return s, invalid(op, "read perdure schedules next --help", "%v", err)
		}
	}
	return s, err
}

// fill returns the spec with its defaults. It does not read the cron expression, because machines
// may know different time zones.
func (s Spec) fill(op string) (Spec, error) {
	if err := s.check(op); err != nil {
		return s, err
	}
	if len(bytes.TrimSpace(s.Input)) == 0 {
		s.Input = json.RawMessage("{}")
	}
	if s.Overlap == "" {
		s.Overlap = Skip
	}
	if s.CatchUp == "" {
		s.CatchUp = Last
	}
	if s.CatchUp == All && s.Window == 0 {
		s.Window = allWindow
	}
	return s, nil
}

func invalid(op, hint, format string, args ...any) error {
	err := failure.Invalid(op, format, args...)
	err.Hint = hint
	return err
}

func (s Spec) check(op string) error {
	if !journal.ValidName(s.Workflow) {
		return failure.BadName("workflow", s.Workflow)
	}
	if err := s.checkTimes(op); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(s.Workflow, kernel.OwnPrefix):
		return invalid(op, "names that begin with "+kernel.OwnPrefix+" are the engine's",
			"workflow %s is not valid", failure.Quoted(s.Workflow))
	case len(bytes.TrimSpace(s.Input)) > 0 && !json.Valid(s.Input):
		return invalid(op, `write it as {"name": "value"}`, "the input is not JSON")
	case s.Overlap != "" && s.Overlap != Skip && s.Overlap != Allow && s.Overlap != Buffer &&
		s.Overlap != Cancel:
		return invalid(op, "", "overlap %s is not valid: allowed are skip, allow, buffer, cancel",
			failure.Quoted(string(s.Overlap)))
	case s.CatchUp != "" && s.CatchUp != Last && s.CatchUp != None && s.CatchUp != All:
		return invalid(op, "", "catch-up %s is not valid: allowed are last, none, all",
			failure.Quoted(string(s.CatchUp)))
	case s.After != 0 && s.Overlap != "" && s.Overlap != Skip:
		return invalid(op, "leave it out",
			"overlap %s is not valid with a delay: each run begins after the end of the last one",
			s.Overlap)
	case s.Times < 0 || s.Times > maxTimes:
		return invalid(op, "", "times %d is not valid: allowed are 0 (no limit) to %d", s.Times,
			maxTimes)
	case len(s.Description) > maxText || len(s.Paused) > maxText:
		return invalid(op, "", "a description or reason has at most %d bytes", maxText)
	}
	return checkTexts(op, s)
}

func (s Spec) checkTimes(op string) error {
	given := 0
	for _, is := range []bool{s.Cron != "", s.Every != 0, s.After != 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return invalid(op, "give one of them", "none of cron, every and after is set")
	case given > 1:
		return invalid(op, "give one of them", "%d of cron, every and after are set", given)
	case s.Zone != "" && s.Cron == "":
		return invalid(op, "leave the zone out", "a zone is for a cron expression only")
	}
	for _, d := range []struct {
		name     string
		of       time.Duration
		min, max time.Duration
	}{
		{"every", s.Every, minRate, maxRate}, {"after", s.After, minRate, maxRate},
		{"initial delay", s.InitialDelay, 0, maxRate}, {"window", s.Window, 0, maxRate},
		{"jitter", s.Jitter, 0, maxRate},
	} {
		if d.of != 0 && (d.of < d.min || d.of > d.max) {
			return invalid(op, "", "%s %v is not valid: allowed are %v to %v", d.name, d.of, d.min,
				d.max)
		}
	}
	return nil
}

// isSameTimetable reports whether both have the same nominal times.
func (s Spec) isSameTimetable(t Spec) bool {
	return s.Cron == t.Cron && s.Zone == t.Zone && s.Every == t.Every && s.After == t.After &&
		s.InitialDelay == t.InitialDelay
}

// A specText is a Spec in JSON.
type specText struct {
	Workflow     string            `json:"workflow"`
	Cron         string            `json:"cron,omitempty"`
	Zone         string            `json:"zone,omitempty"`
	Every        duration          `json:"every,omitempty"`
	After        duration          `json:"after,omitempty"`
	InitialDelay duration          `json:"initial_delay,omitempty"`
	Input        json.RawMessage   `json:"input,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	Attributes   map[string]string `json:"attributes,omitempty"`
	Description  string            `json:"description,omitempty"`
	Overlap      Overlap           `json:"overlap,omitempty"`
	CatchUp      CatchUp           `json:"catch_up,omitempty"`
	Window       duration          `json:"window,omitempty"`
	Jitter       duration          `json:"jitter,omitempty"`
	Times        int               `json:"times,omitempty"`
	Paused       string            `json:"paused,omitempty"`
}

// MarshalJSON writes durations as texts such as 1h30m0s.
func (s Spec) MarshalJSON() ([]byte, error) {
	return json.Marshal(specText{
		s.Workflow, s.Cron, s.Zone, duration(s.Every), duration(s.After), duration(s.InitialDelay),
		s.Input, s.Headers, s.Attributes, s.Description, s.Overlap, s.CatchUp, duration(s.Window),
		duration(s.Jitter), s.Times, s.Paused,
	})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var t specText
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	*s = Spec{
		t.Workflow, t.Cron, t.Zone, time.Duration(t.Every), time.Duration(t.After),
		time.Duration(t.InitialDelay), t.Input, t.Headers, t.Attributes, t.Description, t.Overlap,
		t.CatchUp, time.Duration(t.Window), time.Duration(t.Jitter), t.Times, t.Paused,
	}
	return nil
}

// A duration is a time.Duration that is a text in JSON.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// Preview returns the next n times of a spec after a time, as a schedule that is set then has them.
// Of a fixed delay only the first is known. n is 1 to 1,000.
func Preview(s Spec, after time.Time, n int) ([]Time, error) {
	const op = "preview schedule"
	if s.Workflow == "" {
		s.Workflow = "any" // the times do not depend on it
	}
	s, err := s.complete(op)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > 1000 {
		return nil, invalid(op, "", "%d times is not valid: allowed are 1 to 1000", n)
	}
	return newState("", s, Note{}, after).next(n)
}

// A Time is a nominal time of a schedule.
type Time struct {
	At   time.Time `json:"at"`             // in the zone of the schedule
	Note string    `json:"note,omitempty"` // about a change of the clock; empty if there is none
}

func timeOf(f cron.Fire) Time { return Time(f) }

// checkTexts checks the headers and attributes of a spec.
func checkTexts(op string, s Spec) error {
	var o sealed.Start
	if _, own := s.Attributes[attribute]; own {
		return invalid(op, "leave it out: each run has the name of its schedule there",
			"attribute %s is reserved", attribute)
	}
	if err := perdure.Headers(s.Headers).ApplyToStart(&o); err != nil {
		return err
	}
	return perdure.Attributes(s.Attributes).ApplyToStart(&o)
}

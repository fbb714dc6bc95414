package alert

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

// Default is the name of the rule of workflows that have none of their own.
const Default = ""

// A Cause is the reason for an alert.
type Cause string

// The causes. A rule has all of them, or those that it names.
const (
	// CauseEnded: runs have ended with a status of the rule, as often as its thresholds say. A
	// rollback that has stopped counts as an end with COMPENSATION_FAILED.
	CauseEnded Cause = "ended"
	// CauseDeadLettered: a dead letter is new, whatever the thresholds.
	CauseDeadLettered Cause = "dead-lettered"
	// CauseStalled: the run is suspended; or it should go on and has recorded nothing for an hour,
	// also because its engine is not heard of.
	CauseStalled Cause = "stalled"
	// CauseTooSlow: the run has been open for longer than Rule.Longest.
	CauseTooSlow Cause = "too-slow"
	// CauseWaiting: the run has waited for a slot or an engine for longer than Rule.LongestWait.
	CauseWaiting Cause = "waiting"
	// CauseNoEngine: the run has been due for a minute, and no engine has the workflow.
	CauseNoEngine Cause = "no-engine"
	// CauseApproval: the run has an open ask for an approval whose reminder is due
	// (approval.Ask.Remind).
	CauseApproval Cause = "approval-due"
	// CauseTest: [Test] was called. No rule has it.
	CauseTest Cause = "test"
)

// Causes returns the causes that a rule may name.
func Causes() []Cause {
	return []Cause{
		CauseEnded, CauseDeadLettered, CauseStalled, CauseTooSlow, CauseWaiting, CauseNoEngine,
		CauseApproval,
	}
}

// A Rule describes when to alert about the runs of a workflow, and whom.
type Rule struct {
	// Off silences the workflow: the default does not apply to it, either.
	Off bool `json:"off,omitempty"`
	// Causes are those to alert about. None means all of them; CauseTooSlow and CauseWaiting also
	// need their times.
	Causes []Cause `json:"causes,omitempty"`
	// Statuses are the ends to alert about. None means FAILED, TIMED_OUT, COMPENSATED and
	// COMPENSATION_FAILED.
	Statuses []perdure.RunStatus `json:"statuses,omitempty"`

	// The thresholds. Without any, each end alerts at once. InARow alerts when that many runs have
	// ended so without a success in between. Times and Within alert when that many have ended so
	// within that time. The first threshold that is met alerts, and both begin anew. At most 1,000.
	InARow int           `json:"in_a_row,omitempty"`
	Times  int           `json:"times,omitempty"`
	Within time.Duration `json:"within,omitempty"` // nanoseconds in JSON

	// Longest is how long a run may be open. LongestWait is how long it may wait for a slot or an
	// engine. Zero means any time. Both count from when the run was started or was to begin.
	Longest     time.Duration `json:"longest,omitempty"`
	LongestWait time.Duration `json:"longest_wait,omitempty"`

	// To are the recipients: https://HOST/PATH for a webhook, or mailto:ADDRESS. At most 20.
	To []string `json:"to,omitempty"`
}

const (
	mostTo    = 20
	mostCount = 1000
	shortest  = time.Second
)

// counted are the statuses that a rule without statuses counts.
var counted = []journal.Status{
	journal.Failed, journal.TimedOut, journal.Compensated, journal.CompensationFailed,
}

// mayCount are the statuses that a rule may have.
func mayCount() (all []journal.Status) {
	for _, s := range journal.Statuses() {
		if s.IsFailure() || s == journal.CompensationFailed {
			all = append(all, s)
		}
	}
	return all
}

// check returns the error of a rule that is not valid.
func (r Rule) check(op string) error {
	for _, c := range r.Causes {
		if !slices.Contains(Causes(), c) {
			return invalid(op, "cause %s is not valid: allowed are %s", failure.Quoted(string(c)),
				list(Causes()))
		}
	}
	for _, s := range r.Statuses {
		if !slices.Contains(mayCount(), s) {
			return invalid(op, "status %v is not valid: allowed are %s", s, list(mayCount()))
		}
	}
	for name, n := range map[string]int{"InARow": r.InARow, "Times": r.Times} {
		if n < 0 || n > mostCount {
			return invalid(op, "%s of %d is not valid: allowed are 0 to %d", name, n, mostCount)
		}
	}
	for name, d := range map[string]time.Duration{
		"Within": r.Within, "Longest": r.Longest, "LongestWait": r.LongestWait,
	} {
		if d != 0 && d < shortest {
			return invalid(op, "%s of %v is not valid: allowed are 0, for none, and %v or more",
				name, d, shortest)
		}
	}
	if (r.Times == 0) != (r.Within == 0) {
		return invalid(op, "Times and Within are not valid alone: set both or neither")
	}
	return r.checkTo(op)
}

func (r Rule) checkTo(op string) error {
	switch {
	case len(r.To) == 0 && !r.Off:
		return invalid(op, "a rule without a recipient is not valid: set one, or switch it off")
	case len(r.To) > mostTo:
		return invalid(op, "%d recipients are not valid: at most %d", len(r.To), mostTo)
	}
	for i, to := range r.To {
		if slices.Contains(r.To[:i], to) {
			return invalid(op, "recipient %s is there twice", failure.Quoted(to))
		}
		if err := checkRecipient(to); err != nil {
			return failure.Within(op, err)
		}
	}
	return nil
}

func list[T any](all []T) string {
	text, _ := json.Marshal(all) // names and statuses encode
	return strings.Trim(strings.NewReplacer(`"`, "", ",", ", ").Replace(string(text)), "[]")
}

func invalid(op, format string, args ...any) error {
	return failure.Invalid(op, format, args...)
}

// has reports whether the rule has a cause.
func (r Rule) has(c Cause) bool {
	return len(r.Causes) == 0 || slices.Contains(r.Causes, c)
}

// counts reports whether an end with that status counts.
func (r Rule) counts(s journal.Status) bool {
	all := r.Statuses
	if len(all) == 0 {
		all = counted
	}
	return r.has(CauseEnded) && slices.Contains(all, s)
}

// A stored rule is the value of its setting.
type stored struct {
	Rule
	Ends []journal.Status `json:"ends"` // those that the engine is to tell of; see internal/rules
}

func (r Rule) encode() ([]byte, error) {
	out := stored{Rule: r}
	for _, s := range journal.Statuses() {
		resets := r.InARow > 0 && r.has(CauseEnded) && s.IsSuccess()
		if r.counts(s) || resets {
			out.Ends = append(out.Ends, s)
		}
	}
	return json.Marshal(out)
}

func ruleOf(value []byte) (Rule, error) {
	var s stored
	err := json.Unmarshal(value, &s)
	return s.Rule, err
}

// longest returns how long a run may be open; no limit is the longest time.
func (r Rule) longest(c Cause) time.Duration {
	d := r.Longest
	if c == CauseWaiting {
		d = r.LongestWait
	}
	if d == 0 || !r.has(c) || r.Off {
		return math.MaxInt64
	}
	return d
}

package observe

import (
	"unicode"
	"unicode/utf8"
)

// A Changes names the changes of state of a workflow's runs: with a prefix, the name of the
// workflow or step with its first letter in upper case, and the outcome. The zero value uses the
// names as they are.
type Changes struct {
	Prefix string
	Name   string            // in place of the workflow's
	Steps  map[string]string // in place of the steps', by their names
	// Publish is set if the changes are events for the publisher, too. Each is an entry of the
	// journal, in the commit of the entry that it is about.
	Publish bool
}

// ChangeKind is the kind of the events about changes of state.
const ChangeKind = "STATE_CHANGED"

// The outcomes of changes.
const (
	Started   = "Started"
	Completed = "Completed"
	Failed    = "Failed"
	TimedOut  = "TimedOut"
	Cancelled = "Cancelled"
	Retrying  = "Retrying"
)

// Of returns the name of a change of a step, or of the run if step is empty.
func (c Changes) Of(workflow, step, outcome string) string {
	base := workflow
	switch {
	case step != "" && c.Steps[step] != "":
		base = c.Steps[step]
	case step != "":
		base = step
	case c.Name != "":
		base = c.Name
	}
	first, size := utf8.DecodeRuneInString(base)
	return c.Prefix + string(unicode.ToUpper(first)) + base[size:] + outcome
}

// Outcome returns the outcome of a change by the kind of its notice, and for the end of a run by
// its status; empty for a notice of something else.
func Outcome(k Kind, status string) string {
	switch k {
	case RunStarted, StepStarted, ParticipantStarted:
		return Started
	case StepSucceeded, ParticipantSucceeded:
		return Completed
	case StepFailed, ParticipantFailed:
		return Failed
	case StepCancelled:
		return Cancelled
	case StepRetrying, RunRetrying:
		return Retrying
	case RunEnded:
		return ofEnd(status)
	}
	return ""
}

func ofEnd(status string) string {
	switch status {
	case "COMPLETED", "CONFIRMED":
		return Completed
	case "TIMED_OUT":
		return TimedOut
	case "CANCELLED", "CANCELED":
		return Cancelled
	}
	return Failed
}

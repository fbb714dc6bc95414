package present

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

// Exchange returns the exchange that an entry records; false if it records none.
func Exchange(e api.Entry) (x api.Exchange, is bool) {
	x = api.Exchange{Seq: e.Seq, At: e.At, Name: e.Operation}
	switch kind, _ := journal.ParseKind(e.Kind); kind {
	case journal.RunStarted:
		x.Kind, x.Name, x.With = "start", typeOf(e), e.Other
	case journal.SignalConsumed:
		x.Kind = "signal"
		if t := typeOf(e); t != "" {
			x.Kind, x.Name = "event", t
		}
	case journal.EventEmitted:
		x.Kind, x.Name, x.Sent = "event", e.Event, true
	case journal.ChildStarted:
		x.Kind, x.With, x.Sent = "child", e.Other, true
	case journal.ChildCompleted:
		x.Kind, x.With, x.Outcome = "child", e.Other, e.Outcome
	default:
		return api.Exchange{}, false
	}
	return x, true
}

// typeOf returns the type of the event that an entry of an orchestrator's run has; empty if it has
// none.
func typeOf(e api.Entry) string {
	if e.Pattern != journal.PatternOrchestrator.String() {
		return ""
	}
	var of struct {
		Type  string                 `json:"type"`
		First *struct{ Type string } `json:"first"` // of the input
	}
	_ = json.Unmarshal(e.Data, &of) // what is no event has no type
	if of.First != nil {
		return of.First.Type
	}
	return of.Type
}

// A Failure is something that has failed in a run. The run may have gone on all the same.
type Failure struct {
	Step  string // the path of the operation
	Error string
	Child string // the run that has failed; empty for a step
}

// FailureOf returns the failure that an entry records; false if it records none.
func FailureOf(e api.Entry) (f Failure, is bool) {
	f.Step = e.Operation
	if e.Error != nil {
		f.Error = e.Error.Message
	}
	switch kind, _ := journal.ParseKind(e.Kind); kind {
	case journal.StepFailed, journal.StepTimedOut:
		return f, true
	case journal.ChildCompleted:
		status, known := journal.ParseStatus(e.Outcome)
		f.Child = e.Other
		return f, known && !status.IsSuccess() && status != journal.Cancelled
	}
	return f, false
}

// isBackward reports whether it is the failure of something that undoes.
func (f *Failure) isBackward() bool {
	name := f.Step[strings.LastIndexByte(f.Step, '/')+1:]
	return strings.HasPrefix(name, perdure.PhaseUndo.Of("")) ||
		strings.HasPrefix(name, perdure.PhaseCancel.Of(""))
}

// Failing returns where the failure of a run began, and the child that it came from, if it did. It
// returns nil for a run that has not failed. Of several failures it is the first that the error of
// the run tells of: the run may have gone on after others.
func Failing(d api.Description, failures []Failure) (*api.Failing, string) {
	status, _ := journal.ParseStatus(d.Status)
	f := &api.Failing{
		RunID: d.RunID, WorkflowID: d.WorkflowID, Workflow: d.Workflow, Status: d.Status,
	}
	if d.Error != nil {
		f.Error = d.Error.Message
	}
	switch status {
	case journal.Failed, journal.TimedOut, journal.Compensated, journal.Canceled,
		journal.Compensating, journal.CompensationFailed, journal.Canceling:
	default:
		return nil, ""
	}
	// no failure of a step ends such a run: its code has gone on after all that it does not tell of
	fromOutside := status == journal.TimedOut || status == journal.Canceled ||
		status == journal.Canceling
	var first *Failure
	for i := range failures {
		at := &failures[i]
		if first != nil && at.isBackward() {
			continue // it followed from a failure
		}
		if at.Error != "" && strings.Contains(f.Error, at.Error) {
			first = at
			break
		}
		if first == nil && !fromOutside {
			first = at
		}
	}
	if first != nil {
		f.Step = first.Step
		if first.Error != "" {
			f.Error = first.Error
		}
		return f, first.Child
	}
	if f.Error == "" {
		return nil, ""
	}
	return f, ""
}

// Package api has the JSON in which runs are told to the outside. The command line
// prints it with -o json and -o jsonl.
//
// Fields may be added; one that is there keeps its name and its meaning. Times are
// in UTC, durations in milliseconds. What is empty is left out.
package api

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Run is what lists tell of a run.
type Run struct {
	RunID      string    `json:"run_id"`
	WorkflowID string    `json:"workflow_id"`
	Workflow   string    `json:"workflow"`
	Pattern    string    `json:"pattern"`
	Status     string    `json:"status"`
	Created    time.Time `json:"created"`
	Ended      time.Time `json:"ended,omitzero"`
	Wake       time.Time `json:"wake,omitzero"`    // when it goes on by itself, while nobody has it
	Engine     int64     `json:"engine,omitempty"` // that has it
	Cause      string    `json:"cause,omitempty"`  // why it is suspended, or is tried again
	Crashes    int       `json:"crashes,omitempty"`
	Messages   int64     `json:"messages,omitempty"` // that were ever sent to it
}

// RunOf tells of a head.
func RunOf(h journal.Head) Run {
	r := Run{
		RunID: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow,
		Pattern: h.Pattern.String(),
		Status:  h.Status.String(), Created: utc(h.Created), Ended: utc(h.Ended), Cause: h.Cause,
		Crashes: h.Crashes, Messages: h.Mail,
	}
	if h.Status.IsOpen() {
		r.Wake, r.Engine = utc(h.Wake), int64(h.Owner)
	}
	return r
}

// An Outcome is a run and how it ended, if it has.
type Outcome struct {
	Run
	Output Data   `json:"output,omitzero"`
	Error  *Error `json:"error,omitempty"`
}

// An Error is a failure as it is recorded.
type Error struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// ErrorOf tells of a failure; nil of nil.
func ErrorOf(f *journal.Failure) *Error {
	if f == nil {
		return nil
	}
	return &Error{string(f.CodeOf()), f.Message}
}

// Data is a payload. Bytes that are JSON are told as that; others are told as an
// object with the one field base64.
type Data []byte

// IsZero says whether there is none.
func (d Data) IsZero() bool { return len(d) == 0 }

// MarshalJSON implements [json.Marshaler].
func (d Data) MarshalJSON() ([]byte, error) {
	switch {
	case len(d) == 0:
		return []byte("null"), nil
	case json.Valid(d):
		return d, nil
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{d})
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// A Started is a run that was asked for.
type Started struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	New        bool   `json:"new"` // false where it was there already
}

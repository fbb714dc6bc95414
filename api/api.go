// Package api defines the JSON form of runs. The command line prints it with -o json and -o jsonl.
//
// Later versions may add fields. A field keeps its name and its meaning. Times are in UTC,
// durations in milliseconds. Empty fields are left out.
package api

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Run is one row in a list of runs.
type Run struct {
	RunID      string    `json:"run_id"`
	WorkflowID string    `json:"workflow_id"`
	Workflow   string    `json:"workflow"`
	Pattern    string    `json:"pattern"`
	Status     string    `json:"status"`
	Created    time.Time `json:"created"`
	Ended      time.Time `json:"ended,omitzero"`
	// when the run goes on by itself, while no engine has it
	Wake     time.Time `json:"wake,omitzero"`
	Engine   int64     `json:"engine,omitempty"` // the engine that has the run
	Cause    string    `json:"cause,omitempty"`  // the reason why the run is suspended or retried
	Crashes  int       `json:"crashes,omitempty"`
	Messages int64     `json:"messages,omitempty"` // the number of messages ever sent to the run
	Error    string    `json:"error,omitempty"`    // the beginning of the failure that it ended with
	// in a list: the position of the run, behind which the next page begins
	Cursor string `json:"cursor,omitempty"`
}

// RunOf returns the run of a head.
func RunOf(h journal.Head) Run {
	r := Run{
		RunID: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow,
		Pattern: h.Pattern.String(),
		Status:  h.Status.String(), Created: utc(h.Created), Ended: utc(h.Ended), Cause: h.Cause,
		Crashes: h.Crashes, Messages: h.Mail, Error: h.Error,
	}
	if h.Status.IsOpen() {
		r.Wake, r.Engine = utc(h.Wake), int64(h.Owner)
	}
	return r
}

// An Outcome is a run with its result, if it has ended.
type Outcome struct {
	Run
	Output Data   `json:"output,omitzero"`
	Error  *Error `json:"error,omitempty"`
}

// An Error is a recorded failure.
type Error struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// ErrorOf returns the error of a failure; nil for nil.
func ErrorOf(f *journal.Failure) *Error {
	if f == nil {
		return nil
	}
	return &Error{string(f.CodeOf()), f.Text()}
}

// Data is a payload. Bytes that are JSON stay as they are. Others become an object with the one
// field base64.
type Data []byte

// IsZero reports whether there is no payload.
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

// UnmarshalJSON implements [json.Unmarshaler]: the payload is the JSON as it is.
func (d *Data) UnmarshalJSON(raw []byte) error {
	*d = append(Data(nil), raw...)
	return nil
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// A Started is the answer to a start of a run.
type Started struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	New        bool   `json:"new"` // false if the run existed already
}

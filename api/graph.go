package api

import "time"

// An Exchange is something that a run has received from outside, or sent.
type Exchange struct {
	Seq  int64     `json:"seq"` // the number of its entry in the journal
	At   time.Time `json:"at"`
	Sent bool      `json:"sent"` // by the run
	Kind string    `json:"kind"` // start, signal, event, child
	// the name of the signal, the type of the event, the operation that started the child
	Name    string `json:"name"`
	With    string `json:"with,omitempty"`    // the run at the other end, if it is one
	Outcome string `json:"outcome,omitempty"` // the status that the child ended with
}

// A Failing is the place in a run where its failure began.
type Failing struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	Workflow   string `json:"workflow"`
	Status     string `json:"status"`
	Step       string `json:"step,omitempty"` // the path of the operation that failed
	Error      string `json:"error"`
}

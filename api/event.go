package api

import (
	"time"
)

// An Event is a live event of a run, as an engine has told it.
type Event struct {
	Kind       string    `json:"kind"` // such as step succeeded
	At         time.Time `json:"at"`
	RunID      string    `json:"run_id"`
	WorkflowID string    `json:"workflow_id"`
	Workflow   string    `json:"workflow"`
	Pattern    string    `json:"pattern,omitempty"`
	Status     string    `json:"status,omitempty"`
	Step       string    `json:"step,omitempty"`
	Phase      string    `json:"phase,omitempty"`
	Signal     string    `json:"signal,omitempty"`
	Timer      string    `json:"timer,omitempty"`
	Other      string    `json:"other,omitempty"` // the child or successor
	Attempt    int       `json:"attempt,omitempty"`
	TookMS     float64   `json:"took_ms,omitempty"`
	Due        time.Time `json:"due,omitzero"`
	Error      string    `json:"error,omitempty"`
	Reason     string    `json:"reason,omitempty"`
}

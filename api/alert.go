package api

import "time"

// An Alert is a rule of alerts that an operator has set.
type Alert struct {
	Workflow    string     `json:"workflow"` // empty for the default
	Off         bool       `json:"off,omitempty"`
	Causes      []string   `json:"causes,omitempty"`   // none for all
	Statuses    []string   `json:"statuses,omitempty"` // none for those of failures
	InARow      int        `json:"in_a_row,omitempty"`
	Times       int        `json:"times,omitempty"`
	Within      string     `json:"within,omitempty"` // such as 10m0s
	Longest     string     `json:"longest,omitempty"`
	LongestWait string     `json:"longest_wait,omitempty"`
	To          []string   `json:"to,omitempty"`
	By          string     `json:"by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	At          *time.Time `json:"at,omitempty"`
}

// An AlertTest is a test of a recipient of alerts.
type AlertTest struct {
	To    string `json:"to"`
	RunID string `json:"run_id"` // of the run that sends it
}

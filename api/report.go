package api

import "time"

// A Report describes how a run went, step by step.
type Report struct {
	Workflow    string       `json:"workflow"`
	RunID       string       `json:"run_id"`
	WorkflowID  string       `json:"workflow_id"`
	Pattern     string       `json:"pattern"`
	Status      string       `json:"status"`
	TriggeredBy string       `json:"triggered_by,omitempty"`
	DryRun      bool         `json:"dry_run,omitempty"`
	Started     time.Time    `json:"started,omitzero"`
	Ended       time.Time    `json:"ended,omitzero"`
	TookMS      float64      `json:"took_ms"`
	Layers      [][]string   `json:"layers,omitempty"` // the declared steps when the run began
	Steps       []ReportStep `json:"steps"`
	Phase       string       `json:"phase,omitempty"` // of a TCC: the one that began last
	Error       string       `json:"error,omitempty"`
	Successor   string       `json:"successor,omitempty"`
}

// A ReportStep is a step or participant, as a report has it.
type ReportStep struct {
	Step     string    `json:"step"`
	Status   string    `json:"status"`
	Attempts int       `json:"attempts"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	TookMS   float64   `json:"took_ms"`
	Error    string    `json:"error,omitempty"`
}

package api

// A ScheduleSpec is the definition of a schedule. Durations are texts such as 1h30m0s.
type ScheduleSpec struct {
	Workflow     string            `json:"workflow"` // that it starts
	Cron         string            `json:"cron,omitempty"`
	Zone         string            `json:"zone,omitempty"` // of cron; empty for UTC
	Every        string            `json:"every,omitempty"`
	After        string            `json:"after,omitempty"`
	InitialDelay string            `json:"initial_delay,omitempty"`
	Input        Data              `json:"input,omitzero"`
	Headers      map[string]string `json:"headers,omitempty"`
	Attributes   map[string]string `json:"attributes,omitempty"`
	Description  string            `json:"description,omitempty"`
	Overlap      string            `json:"overlap,omitempty"`
	CatchUp      string            `json:"catch_up,omitempty"`
	Window       string            `json:"window,omitempty"`
	Jitter       string            `json:"jitter,omitempty"`
	Times        int               `json:"times,omitempty"`
	Paused       string            `json:"paused,omitempty"` // the reason
}

package api

// A Check is one thing that the doctor has looked at.
type Check struct {
	Name     string   `json:"name"`
	Health   string   `json:"health"` // ok, warning or failed
	Evidence string   `json:"evidence"`
	Count    int      `json:"count"`              // the number of things that it has found
	AtLeast  bool     `json:"at_least,omitempty"` // there may be more
	IDs      []string `json:"ids"`                // some of them
	Mend     []string `json:"mend"`               // the commands that mend it
}

// A Loop is something that an engine does again and again beside the runs.
type Loop struct {
	Engine int64   `json:"engine"`
	Name   string  `json:"name"`
	State  string  `json:"state"`            // running, hangs, stopped, or over until its program is restarted
	Last   string  `json:"last"`             // its latest turn, or when it has stopped
	Every  float64 `json:"every,omitempty"`  // seconds, at most, between two turns; 0 if it waits for news
	Reason string  `json:"reason,omitempty"` // why it has stopped
}

// A Reason describes why a run does not go on.
type Reason struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	Status     string `json:"status"`
	Why        string `json:"why"`
	Waits      []Wait `json:"waits"`
}

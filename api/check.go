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

// A Reason describes why a run does not go on.
type Reason struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	Status     string `json:"status"`
	Why        string `json:"why"`
	Waits      []Wait `json:"waits"`
}

package api

import "time"

// A Callback is the wait that a token is for.
type Callback struct {
	RunID    string     `json:"run_id"`
	Callback string     `json:"callback"` // its path in the run
	State    string     `json:"state"`    // open, answered, expired, ended
	Due      *time.Time `json:"due,omitempty"`
}

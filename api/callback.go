package api

import "time"

// A Callback is the wait that a token is for.
type Callback struct {
	RunID    string     `json:"run_id"`
	Callback string     `json:"callback"` // its path in the run
	State    string     `json:"state"`    // open, answered, expired, ended
	Due      *time.Time `json:"due,omitempty"`
}

// A Key is a key of the database, by which tokens are signed. It has no secret.
type Key struct {
	ID     string    `json:"id"`
	Signs  bool      `json:"signs"` // the others only verify
	Made   time.Time `json:"made"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

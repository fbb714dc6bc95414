package api

import "time"

// A Limit is a limit that an operator has set, or that runs hold or wait for.
type Limit struct {
	Name        string     `json:"name"` // empty for the default
	Concurrency *int       `json:"concurrency,omitempty"`
	PerKey      *int       `json:"per_key,omitempty"`
	Rate        string     `json:"rate,omitempty"` // such as 10/1m0s
	Burst       int        `json:"burst,omitempty"`
	Slots       *int       `json:"slots,omitempty"`
	By          string     `json:"by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	At          *time.Time `json:"at,omitempty"`
	Uses        []LimitUse `json:"uses,omitempty"`
}

// A LimitUse describes the slots of a limit for a key.
type LimitUse struct {
	Of      string `json:"of"` // runs, key, rate, lock or one
	Key     string `json:"key,omitempty"`
	Slots   int    `json:"slots,omitempty"`
	Used    int64  `json:"used"`
	Waiting int64  `json:"waiting"`
}

// A LimitRun is a run that has a slot or token of a limit, or waits in line for a slot.
type LimitRun struct {
	Run
	Key   string     `json:"key,omitempty"`
	Held  bool       `json:"held"`
	Place int64      `json:"place,omitempty"` // in line: 1 is the first
	Since time.Time  `json:"since"`           // when it asked
	Due   *time.Time `json:"due,omitempty"`   // of a token that is given for later
}

// A Pause is a workflow that is paused.
type Pause struct {
	Workflow string    `json:"workflow"` // empty for all
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
}

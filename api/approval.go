package api

import "time"

// An Approval is an ask for a decision, which a run waits for.
type Approval struct {
	RunID      string     `json:"run_id"`
	WorkflowID string     `json:"workflow_id"`
	Workflow   string     `json:"workflow"`
	Key        string     `json:"key"`
	Title      string     `json:"title,omitempty"`
	Roles      []string   `json:"roles,omitempty"` // that may decide now; none: everybody
	Asked      time.Time  `json:"asked"`
	Age        string     `json:"age"`
	Due        *time.Time `json:"due,omitempty"`
	Quorum     int        `json:"quorum"`
	Of         int        `json:"of,omitempty"`
	Form       Data       `json:"form,omitzero" redact:"schema"` // a JSON schema of the data of a decision
	Decisions  []Decided  `json:"decisions,omitempty"`
}

// A Decided is the decision of one person about an ask.
type Decided struct {
	Approved   bool      `json:"approved"`
	By         string    `json:"by"`
	Role       string    `json:"role,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Data       Data      `json:"data,omitzero"`
	At         time.Time `json:"at"`
	Source     string    `json:"source"` // asserted, token or message
	AssertedBy string    `json:"asserted_by,omitempty"`
}

// A Receipt is the reply to a decision.
type Receipt struct {
	RunID    string `json:"run_id"`
	Key      string `json:"key"`
	Status   string `json:"status"` // of the ask, with the decision
	Approved int    `json:"approved"`
	Rejected int    `json:"rejected"`
	Quorum   int    `json:"quorum"`
}

// A Carried is the decision that a signed token carries, for the page behind a link.
type Carried struct {
	Approved bool       `json:"approved"`
	By       string     `json:"by"`
	Role     string     `json:"role,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Expires  time.Time  `json:"expires"` // when the token expires
	Workflow string     `json:"workflow,omitempty"`
	Key      string     `json:"key"`
	Title    string     `json:"title,omitempty"`
	Asked    *time.Time `json:"asked,omitempty"`
	Due      *time.Time `json:"due,omitempty"`
	Form     Data       `json:"form,omitzero" redact:"schema"` // a JSON schema of the data of the decision
	// open, made by this person already, or over
	State string `json:"state"`
	Why   string `json:"why,omitempty"` // why it can be made no more
}

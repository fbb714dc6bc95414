package definition

import (
	"cmp"
	"encoding/json"
)

// An Outline is all that a definition says of itself: what its author does, and what follows
// from its declaration.
type Outline struct {
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	Trigger     string `json:"trigger,omitempty"` // the type of event that starts it
	// the field of that event, or of the input, that is its workflow ID
	IDField string `json:"id_field,omitempty"`
	// the contract of its input, as JSON Schema
	Input json.RawMessage `json:"input,omitempty"`
	Graph *Graph          `json:"graph,omitempty"`
	// of a declaration: it can be walked through without doing anything, see perdure.DryRun
	DryRuns bool `json:"dry_runs,omitempty"`
	// of a declaration: SYNC, ASYNC or BOTH, see perdure.Mode; empty where that is as the caller
	// likes
	Mode string `json:"mode,omitempty"`
	// of a declaration: it does things under a policy of package backpressure
	Pressured bool `json:"pressured,omitempty"`
}

// Over returns a, and for what it leaves empty what b says.
func (a Outline) Over(b Outline) Outline {
	a.Version, a.Description = cmp.Or(a.Version, b.Version), cmp.Or(a.Description, b.Description)
	a.Trigger, a.IDField = cmp.Or(a.Trigger, b.Trigger), cmp.Or(a.IDField, b.IDField)
	if a.Input == nil {
		a.Input = b.Input
	}
	a.Graph = cmp.Or(a.Graph, b.Graph)
	return a
}

// Check returns what is wrong with it.
func (a Outline) Check() []Issue {
	var issues []Issue
	if a.Input != nil && !json.Valid(a.Input) {
		issues = append(issues, Issue{
			Severity: SeverityError, Where: "input",
			Message: "the contract of the input is not JSON",
		})
	}
	if a.Graph != nil {
		issues = append(issues, a.Graph.Check()...)
	}
	return issues
}

package definition

import (
	"cmp"
	"encoding/json"
)

// An Outline is the description of a definition: the fields that its author sets, and the fields
// that follow from its declaration.
type Outline struct {
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	Trigger     string `json:"trigger,omitempty"` // the type of the event that starts it
	// IDField is the field of that event, or of the input, that has the workflow ID.
	IDField string `json:"id_field,omitempty"`
	// Input is the contract of the input, as JSON Schema.
	Input json.RawMessage `json:"input,omitempty"`
	Graph *Graph          `json:"graph,omitempty"`
	// Diagram has the states of a step machine. A definition has a graph, a diagram or neither.
	Diagram *Diagram `json:"diagram,omitempty"`
	// Contracts are those of an orchestrator, the newest last.
	Contracts []Contract `json:"contracts,omitempty"`
	// DryRuns is set for a declaration that can be run without effects, see pattern.DryRun.
	DryRuns bool `json:"dry_runs,omitempty"`
	// Mode is the mode of a declaration: SYNC, ASYNC or BOTH, see pattern.Mode. Empty leaves the
	// choice to the caller.
	Mode string `json:"mode,omitempty"`
	// Backpressure is set for a declaration that uses a policy of package backpressure.
	Backpressure bool `json:"backpressure,omitempty"`
}

// Over returns a with its empty fields taken from b.
func (a Outline) Over(b Outline) Outline {
	a.Version, a.Description = cmp.Or(a.Version, b.Version), cmp.Or(a.Description, b.Description)
	a.Trigger, a.IDField = cmp.Or(a.Trigger, b.Trigger), cmp.Or(a.IDField, b.IDField)
	if a.Input == nil {
		a.Input = b.Input
	}
	a.Graph = cmp.Or(a.Graph, b.Graph)
	return a
}

// Check returns the issues of the outline.
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

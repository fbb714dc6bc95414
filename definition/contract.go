package definition

import "encoding/json"

// A Contract is one version of the events that an orchestrator takes and emits.
type Contract struct {
	URI     string      `json:"uri,omitempty"`     // names the version
	Initial []string    `json:"initial,omitempty"` // the types of events that create an instance
	Accepts []EventType `json:"accepts"`           // by their types; nil if any type is taken
	Emits   []EventType `json:"emits"`             // in the same way
}

// An EventType is a type of events of a contract.
type EventType struct {
	Type string `json:"type"`
	// Checked is set if the contract says what the data is: by the Schema, which is a JSON schema,
	// or by code if there is none.
	Checked bool            `json:"checked,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

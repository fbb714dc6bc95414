package api

// A Workflow is a definition, and how many runs of it there are.
type Workflow struct {
	Name        string `json:"name"`
	Here        bool   `json:"here"` // this program has it
	Pattern     string `json:"pattern"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	Timeout     string `json:"timeout,omitempty"`
	Trigger     string `json:"trigger,omitempty"`
	// how its runs are started; empty where that is as the caller likes
	Mode      string `json:"mode,omitempty"`
	IDField   string `json:"id_field,omitempty"`
	Input     Data   `json:"input,omitzero"` // the contract of its input, as JSON Schema
	Steps     []Node `json:"steps,omitempty"`
	Listeners int    `json:"listeners,omitempty"`
	Open      int    `json:"open"`
	Parked    int    `json:"parked"`
	Ended     int    `json:"ended"`
}

// A Node is one step of a workflow that is known before it runs.
type Node struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"`
}

// A Database is a store and who uses it.
type Database struct {
	Store      string   `json:"store"` // without its password
	Driver     string   `json:"driver"`
	Identity   string   `json:"identity"` // part of each run ID
	Schema     int      `json:"schema"`
	Durability string   `json:"durability"`
	Bytes      int64    `json:"bytes"`
	Runs       int64    `json:"runs"`
	Unrouted   int64    `json:"unrouted"` // signals that found no run
	Owed       int64    `json:"owed"`     // facts that somebody is to be told of
	Engines    []Engine `json:"engines"`
}

// An Engine is one that has a database, or that has died without leaving it.
type Engine struct {
	ID    int64  `json:"id"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Since string `json:"since"`
	Build string `json:"build"`
	Alive bool   `json:"alive"`
	Runs  int64  `json:"runs"`  // that it owns
	Slots int    `json:"slots"` // for runs that it has at a time; 0 where it does not say

	// Where it has a lease, by the clock of the database.
	Seen  string  `json:"seen,omitempty"`  // when it was heard of last
	Until string  `json:"until,omitempty"` // when the lease passes
	Left  float64 `json:"lease_s"`         // how many seconds of it are left; 0 without a lease
}

package api

// A Definition is a workflow as its code declares it.
type Definition struct {
	Name        string `json:"name"`
	Here        bool   `json:"here"` // this program has the workflow
	Pattern     string `json:"pattern"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	Timeout     string `json:"timeout,omitempty"`
	Trigger     string `json:"trigger,omitempty"`
	// the way its runs are started; empty if the caller decides
	Mode      string `json:"mode,omitempty"`
	IDField   string `json:"id_field,omitempty"`
	Input     Data   `json:"input,omitzero" redact:"schema"` // the schema of its input, as JSON Schema
	Steps     []Node `json:"steps,omitempty"`
	Listeners int    `json:"listeners,omitempty"`
	// of an orchestrator, the newest version last
	Contracts []Contract `json:"contracts,omitempty"`
}

// A Contract is one version of the events that an orchestrator takes and emits.
type Contract struct {
	URI        string      `json:"uri,omitempty"`     // names the version
	Initial    []string    `json:"initial,omitempty"` // the types of events that create an instance
	AcceptsAny bool        `json:"accepts_any"`       // events of any type, with any data
	Accepts    []EventType `json:"accepts,omitempty"`
	EmitsAny   bool        `json:"emits_any"`
	Emits      []EventType `json:"emits,omitempty"`
}

// An EventType is a type of events of a contract.
type EventType struct {
	Type    string `json:"type"`
	Checked bool   `json:"checked"`                         // the data is checked: by the schema, or by code
	Schema  Data   `json:"schema,omitzero" redact:"schema"` // of the data, as JSON Schema
}

// A Workflow is a definition with the numbers of its runs.
type Workflow struct {
	Definition
	Open   int `json:"open"`
	Parked int `json:"parked"`
	Ended  int `json:"ended"`
}

// A Node is a step that a workflow declares before it runs.
type Node struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"`
	To    []string `json:"to,omitempty"` // of a step machine: the steps that may come next
}

// A Database is a store, with the engines that use it.
type Database struct {
	Store      string   `json:"store"` // the address, without its password; empty if it is not told
	Driver     string   `json:"driver"`
	Identity   string   `json:"identity"` // the part of each run ID that names the database
	Schema     int      `json:"schema"`
	Durability string   `json:"durability"`
	Bytes      int64    `json:"bytes"`
	Runs       int64    `json:"runs"`
	Unrouted   int64    `json:"unrouted"` // the number of signals that found no run
	Outbox     int64    `json:"outbox"`   // the number of entries in the outbox
	Engines    []Engine `json:"engines"`
}

// An Engine is an engine that uses a database, or one that died without leaving it.
type Engine struct {
	ID    int64  `json:"id"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Since string `json:"since"`
	Build string `json:"build"`
	Alive bool   `json:"alive"`
	Runs  int64  `json:"runs"` // the number of runs that it owns
	// the number of runs that it executes at a time; 0 if it does not report that
	Slots int `json:"slots"`

	Seen  string  `json:"seen,omitempty"`  // when it was heard of last, by the clock of the database
	Until string  `json:"until,omitempty"` // when its lease expires, by the same clock; "" without
	Left  float64 `json:"lease_s"`         // the seconds until then; 0 without a lease

	Drain *Drain `json:"drain,omitempty"` // while it stops

	// the workflows that it has, without those that every engine has; null if it does not say
	Workflows []string `json:"workflows"`
}

// A Drain is the work that an engine still has while it stops.
type Drain struct {
	Until string `json:"until"` // when it waits no longer
	Runs  int    `json:"runs"`  // the number of runs that it has in memory
	Steps int    `json:"steps"` // the number of steps in flight
}

// Versions are the versions of code that runs need.
type Versions struct {
	Builds        []Build  `json:"builds"`
	Markers       []Marker `json:"markers"`
	Partial       bool     `json:"partial,omitempty"`        // not all open runs were read
	PartialFailed bool     `json:"partial_failed,omitempty"` // not all failed runs were read
}

// A Build is a build of a program that has executed runs of a workflow, or that an engine has.
type Build struct {
	Workflow string  `json:"workflow"`
	Build    string  `json:"build"`
	Engines  []int64 `json:"engines"` // the living engines of this build
	Open     int     `json:"open"`    // the number of open runs that it has executed last
	Failed   int     `json:"failed"`  // of failed ones, which may be retried
	MayGo    bool    `json:"may_go"`
	Why      string  `json:"why"`
}

// A Marker is a number that runs of a workflow have decided on for a change of its code.
type Marker struct {
	Workflow  string   `json:"workflow"`
	Change    string   `json:"change"`
	Version   int      `json:"version"`
	Open      int      `json:"open"`      // the number of open runs that have it
	Undecided int      `json:"undecided"` // of open runs that may still get it
	Failed    int      `json:"failed"`    // of failed runs that have it
	MayGo     bool     `json:"may_go"`
	Why       string   `json:"why"`
	Runs      []string `json:"runs"` // some of the open runs that have it, newest first
}

// Package sealed has the types that the options of package perdure are applied to. An option is a
// type with a method such as ApplyToStep, whose argument has a type of this package. So packages
// of this module can have options of their own, and other modules cannot.
package sealed

import (
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// The headers that a start sets to describe itself. They are stored with runs.
const (
	HeaderDryRun    = "perdure:dry-run"
	HeaderTriggered = "perdure:triggered-by"
	HeaderPolicy    = "perdure:pressure"
	HeaderSchedule  = "perdure:schedule" // of package schedule
)

// A Start has the options of the start of a run.
type Start struct {
	ID         string
	Dedup      time.Duration
	At         time.Time // when the run begins at the earliest; zero for at once
	Headers    map[string]string
	Attributes map[string]string
	SendKey    string
	Message    string            // the ID of the message that goes with it; else made of SendKey
	Notes      map[string]string // the engine's own headers
	Mode       string            // the mode that the start asks for; empty for none
}

// Spec returns the start for the kernel. If the workflow is not known here, the engine that loads
// the run sets its pattern.
func (o Start) Spec(workflow string, def *Workflow, input []byte) kernel.Start {
	pattern := journal.PatternWorkflow
	if def != nil {
		pattern = def.Pattern
	}
	return kernel.Start{
		Workflow: workflow, Pattern: pattern, ID: o.ID, Input: input, Dedup: o.Dedup,
		At: o.At, Headers: o.Headers, Attributes: o.Attributes,
	}
}

// Note adds a header of the engine's own.
func (o *Start) Note(name, value string) {
	if o.Notes == nil {
		o.Notes = map[string]string{}
	}
	o.Notes[name] = value
}

// The names of records that patterns make besides the operations of the application.
const (
	CallbackStep    = "perdure:callback"   // the step in which callbacks are called
	SuppressedError = "perdure:suppressed" // the error that a callback has suppressed
	// the backpressure policy of the engine
	BackpressureValue = "perdure:backpressure"
)

// The modes of a start: see package pattern.
const (
	ModeSync  = "SYNC"
	ModeAsync = "ASYNC"
	ModeBoth  = "BOTH"
)

// Asked is an option of a start: the mode that it asks for.
type Asked string

// ApplyToStart sets the mode that the start asks for.
func (a Asked) ApplyToStart(o *Start) error {
	o.Mode = string(a)
	return nil
}

// DecisionName begins the names of messages that decide approvals. A plain signal does not have
// such a name.
const DecisionName = "Approve:"

// Package sealed has what the options of package perdure are applied to. An option is a type
// with a method such as ApplyToStep, whose argument has a type of this package: so packages of
// this module can have options of their own, and others cannot.
package sealed

import (
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// The headers by which a start says what it is.
const (
	HeaderDryRun    = "perdure:dry-run"
	HeaderTriggered = "perdure:triggered-by"
	HeaderPolicy    = "perdure:pressure"
)

// A Start is how a run is started.
type Start struct {
	ID         string
	Dedup      time.Duration
	Headers    map[string]string
	Attributes map[string]string
	SendKey    string
	Notes      map[string]string // headers of the engine's own
	Mode       string            // that the start asks for; empty for none
}

// Spec returns what the kernel is asked to start. The pattern of a workflow that is not known
// here is written by the engine that takes the run up.
func (o Start) Spec(workflow string, def *Workflow, input []byte) kernel.Start {
	pattern := journal.PatternWorkflow
	if def != nil {
		pattern = def.Pattern
	}
	return kernel.Start{
		Workflow: workflow, Pattern: pattern, ID: o.ID, Input: input, Dedup: o.Dedup,
		Headers: o.Headers, Attributes: o.Attributes,
	}
}

// Note adds a header of the engine's own.
func (o *Start) Note(name, value string) {
	if o.Notes == nil {
		o.Notes = map[string]string{}
	}
	o.Notes[name] = value
}

// The names of what patterns record beside the operations of the application.
const (
	CallbackStep    = "perdure:callback"   // the step in which callbacks are called
	SuppressedError = "perdure:suppressed" // the error that a callback has suppressed
)

// The modes of a start: see package pattern.
const (
	ModeSync  = "SYNC"
	ModeAsync = "ASYNC"
	ModeBoth  = "BOTH"
)

// Asked is an option of a start that asks for a mode.
type Asked string

// ApplyToStart has the start ask for it.
func (a Asked) ApplyToStart(o *Start) error {
	o.Mode = string(a)
	return nil
}

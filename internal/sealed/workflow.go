package sealed

import (
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Workflow is a definition without its types.
type Workflow struct {
	kernel.Workflow
	Retention *Retention // nil for the engine's
	Outline   definition.Outline
	// nil for one that is not made of a declaration
	Declared func() (definition.Outline, []definition.Issue)
	// what is done when it is examined for the first time
	Later []func(*Workflow)
	// examine, the first time
	Examined func() (definition.Outline, []definition.Issue)
	// an error refuses a start or child; nil accepts any input
	Accepts func(input []byte) error
	// a run that fails writes a dead letter
	DeadLetters bool
	// of what its author passed to Define
	Odd struct{ Definition, Timeouts, Retries, Replays []definition.Issue }
}

// A Retention says for how long runs are kept.
type Retention struct {
	Period   time.Duration
	ByStatus map[journal.Status]time.Duration
}

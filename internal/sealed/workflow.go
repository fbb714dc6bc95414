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
	Retention   *Retention // nil for the engine's
	Outline     definition.Outline
	Declared    func() (definition.Outline, []definition.Issue)                     // nil for one that is not made of a declaration
	Later       []func(*Workflow)                                                   // what is done when it is examined for the first time
	Examined    func() (definition.Outline, []definition.Issue)                     // examine, the first time
	Accepts     func(input []byte) error                                            // an error refuses a start or child; nil accepts any input
	DeadLetters bool                                                                // a run that fails writes a dead letter
	Odd         struct{ Definition, Timeouts, Retries, Replays []definition.Issue } // of what its author passed to Define
}

// A Retention says for how long runs are kept.
type Retention struct {
	Period   time.Duration
	ByStatus map[journal.Status]time.Duration
}

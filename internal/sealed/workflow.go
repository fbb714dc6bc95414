package sealed

import (
	"context"
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
	// Declared is nil for a definition that is not made of a declaration.
	Declared func() (definition.Outline, []definition.Issue)
	// Later are called when the definition is examined for the first time.
	Later []func(*Workflow)
	// Examined examines the definition at the first call, and then returns the same result.
	Examined func() (definition.Outline, []definition.Issue)
	// Accepts returns an error to refuse the input of a start or child. Nil accepts any input.
	Accepts func(input []byte) error
	// Decodes returns an error if the input is not of the workflow's type.
	Decodes func(input []byte) error
	// DeadLetters is set if a run that fails writes a dead letter.
	DeadLetters bool
	// Own is set for a workflow of this module, whose name may begin with kernel.OwnPrefix.
	Own bool
	// Needs are workflows that an engine registers with this one.
	Needs []*Workflow
	// Begins are called on a goroutine of their own, once an engine that has the workflow runs. The
	// context ends when the engine stops.
	Begins []func(context.Context, *Client) error
	// Hears are called when the workflow is registered. They return listeners of the ends of all
	// workflows of the engine.
	Hears []func(*Client) *kernel.Listener
	// Odd has the issues of the options that the author passed to Define.
	Odd struct{ Definition, Timeouts, Retries, Replays []definition.Issue }
}

// A Retention sets how long runs are kept.
type Retention struct {
	Period   time.Duration
	ByStatus map[journal.Status]time.Duration
}

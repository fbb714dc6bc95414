package effect

import (
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// AtMostOnce is an option of a step whose body must not be called twice. The start of the step is
// durable before the body is called, which costs one commit more. There is one attempt, whatever
// the policy of the workflow is. An error, a panic or a timeout of the body fails the step as
// usual. If the engine dies, or loses its lease, after the body may have been called and before
// the result is recorded, the step fails with [ErrInterrupted].
//
// What comes before the call of the body counts for nothing: a paused workflow, a wait for a token
// of a limit, a suspended run, or an engine that stops in good order and has not called the body
// yet. An engine that stops waits for bodies, up to perdure.Options.Drain; a body that goes on
// after that is interrupted.
//
// If an operator retries the run, a step that failed or was interrupted is done again, under a new
// start and the same idempotency key: the operator has decided that. A fork does it again too.
//
// The option is refused, with an error of code invalid, together with a perdure.Retry, and for a
// perdure.StepTx, which writes exactly once. An error that perdure.Parking has marked fails the
// step. If a run has begun the step with a build that did not have the option, its body may have
// been called without a record of the start.
var AtMostOnce perdure.StepOption = atMostOnce{}

type atMostOnce struct{}

func (atMostOnce) ApplyToStep(o *sealed.Operation) error {
	o.AtMostOnce = true
	return nil
}

// ErrInterrupted is in the chain of the error of a step with [AtMostOnce] that was interrupted:
// its effect may have taken place or not. The workflow decides: it verifies the effect, parks the
// run for an operator (perdure.Park), or undoes it.
var ErrInterrupted = errors.New("perdure: the step was interrupted, and its effect is unknown")

var _ = perdure.RegisterError(journal.Interrupted, ErrInterrupted)

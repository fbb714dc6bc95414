package pattern

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// A StepError says which step of a declared pattern has failed. What it failed with is
// in its chain.
type StepError struct {
	Step string `json:"step"`
	err  error
}

// A CompensationError says which step could not be undone.
type CompensationError struct {
	Step string `json:"step"`
	err  error
}

// A PhaseError says which participant of a TCC has failed in which phase.
type PhaseError struct {
	Phase       perdure.Phase `json:"phase"`
	Participant string        `json:"participant"`
	err         error
}

var (
	_ = perdure.RegisterErrorType[*StepError]("perdure.StepError")
	_ = perdure.RegisterErrorType[*CompensationError]("perdure.CompensationError")
	_ = perdure.RegisterErrorType[*PhaseError]("perdure.PhaseError")
)

// FailedStep gives a StepError around an error.
func FailedStep(step string, err error) error { return &StepError{step, err} }

// FailedUndo gives a CompensationError around an error.
func FailedUndo(step string, err error) error { return &CompensationError{step, err} }

// FailedPhase gives a PhaseError around an error.
func FailedPhase(p perdure.Phase, participant string, err error) error {
	return &PhaseError{p, participant, err}
}

// Error names the step, and what it failed with.
func (e *StepError) Error() string { return reason("step "+e.Step+" failed", e.err) }

// Unwrap gives what it failed with.
func (e *StepError) Unwrap() error { return e.err }

// Error names the step, and what its compensation failed with.
func (e *CompensationError) Error() string {
	return reason("step "+e.Step+" could not be undone", e.err)
}

// Unwrap gives what it failed with.
func (e *CompensationError) Unwrap() error { return e.err }

// Error names the phase and the participant, and what it failed with.
func (e *PhaseError) Error() string {
	return reason(fmt.Sprintf("%s of %s failed", strings.ToLower(string(e.Phase)), e.Participant),
		e.err)
}

// Unwrap gives what it failed with.
func (e *PhaseError) Unwrap() error { return e.err }

func reason(what string, err error) string {
	if err == nil { // it comes from a journal, which has the whole text
		return what
	}
	return what + ": " + err.Error()
}

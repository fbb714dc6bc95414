package pattern

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// A StepError names a step of a declared pattern that has failed. The error of the step is in its
// chain.
type StepError struct {
	Step string `json:"step"`
	err  error
}

// A CompensationError names a step that could not be undone.
type CompensationError struct {
	Step string `json:"step"`
	err  error
}

// A PhaseError names the participant of a TCC that has failed, and the phase.
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

// FailedStep returns a StepError around an error.
func FailedStep(step string, err error) error { return &StepError{step, err} }

// FailedUndo returns a CompensationError around an error.
func FailedUndo(step string, err error) error { return &CompensationError{step, err} }

// FailedPhase returns a PhaseError around an error.
func FailedPhase(p perdure.Phase, participant string, err error) error {
	return &PhaseError{p, participant, err}
}

// Error names the step and its error.
func (e *StepError) Error() string { return reason("step "+e.Step+" failed", e.err) }

// Unwrap returns the error that the step failed with.
func (e *StepError) Unwrap() error { return e.err }

// Error names the step and the error of its compensation.
func (e *CompensationError) Error() string {
	return reason("step "+e.Step+" could not be undone", e.err)
}

// Unwrap returns the error that the compensation failed with.
func (e *CompensationError) Unwrap() error { return e.err }

// Error names the phase, the participant and its error.
func (e *PhaseError) Error() string {
	return reason(fmt.Sprintf("%s of %s failed", strings.ToLower(string(e.Phase)), e.Participant),
		e.err)
}

// Unwrap returns the error that the participant failed with.
func (e *PhaseError) Unwrap() error { return e.err }

func reason(what string, err error) string {
	if err == nil { // read from a journal, which has the whole text
		return what
	}
	return what + ": " + err.Error()
}

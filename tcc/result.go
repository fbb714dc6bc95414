package tcc

import (
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Result is the outcome of a run of a TCC. Its steps are the participants.
type Result struct {
	report.Run
}

// IsConfirmed reports whether the run is CONFIRMED: all participants have confirmed, except
// optional ones that were left out.
func (r Result) IsConfirmed() bool { return r.Status == perdure.StatusConfirmed }

// IsCanceled reports whether the run is CANCELED: all participants that had tried have cancelled.
func (r Result) IsCanceled() bool { return r.Status == perdure.StatusCanceled }

// Failed returns the phase and the participant that prevented the confirmation of the TCC or, if
// the TCC has failed, its cancellation. Both are empty if there is no such participant.
func (r Result) Failed() (phase perdure.Phase, participant string) { return failedOf(r.Err) }

// failedOf returns the phase and the participant that an error names.
func failedOf(err error) (phase perdure.Phase, participant string) {
	var of *pattern.PhaseError
	if errors.As(err, &of) {
		return of.Phase, of.Participant
	}
	return "", ""
}

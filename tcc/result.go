package tcc

import (
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Result tells how a run of a TCC went: its steps are the participants.
type Result struct {
	report.Run
}

// IsConfirmed says whether all participants have confirmed.
func (r Result) IsConfirmed() bool { return r.Status == perdure.StatusConfirmed }

// IsCanceled says whether all that had tried have cancelled.
func (r Result) IsCanceled() bool { return r.Status == perdure.StatusCanceled }

// Failed gives the phase and the participant that kept the TCC from being confirmed, or
// where it has failed, from being cancelled; empty where none has.
func (r Result) Failed() (phase perdure.Phase, participant string) { return failedOf(r.Err) }

// failedOf gives the phase and the participant that an error names.
func failedOf(err error) (phase perdure.Phase, participant string) {
	var of *pattern.PhaseError
	if errors.As(err, &of) {
		return of.Phase, of.Participant
	}
	return "", ""
}

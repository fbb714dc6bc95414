package perdure

import (
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// What a pattern needs of package journal, so that it needs this package only.

// A RunStatus says where a run is. See [journal.Status] for all of them.
type RunStatus = journal.Status

// Statuses that patterns set and end with.
const (
	StatusRunning      = journal.Running
	StatusTrying       = journal.Trying
	StatusConfirming   = journal.Confirming
	StatusCanceling    = journal.Canceling
	StatusCompensating = journal.Compensating
	StatusCompleted    = journal.Completed
	StatusFailed       = journal.Failed
	StatusCancelled    = journal.Cancelled
	StatusTimedOut     = journal.TimedOut
	StatusConfirmed    = journal.Confirmed
	StatusCanceled     = journal.Canceled
	StatusCompensated  = journal.Compensated
)

// The facts that [Record] records.
const (
	StepSkipped         = journal.StepSkipped
	CompensationStarted = journal.CompensationStarted
	StepCompensated     = journal.StepCompensated
	CompensationFailed  = journal.CompensationFailure
	PhaseStarted        = journal.PhaseStarted
	PhaseCompleted      = journal.PhaseCompleted
	PhaseFailed         = journal.PhaseFailed
	StepDeadLettered    = journal.DeadLettered
)

// A Pattern says how a workflow is declared. It is an option of a workflow, whose runs
// have it. Without it that is PatternWorkflow. See [journal.Pattern].
type Pattern journal.Pattern

// The patterns.
const (
	PatternWorkflow = Pattern(journal.PatternWorkflow)
	PatternSaga     = Pattern(journal.PatternSaga)
	PatternTCC      = Pattern(journal.PatternTCC)
)

// String is the pattern's name.
func (p Pattern) String() string { return journal.Pattern(p).String() }

func (p Pattern) workflow(w *workflow) error {
	switch p {
	case PatternWorkflow, PatternSaga, PatternTCC:
		w.Pattern = journal.Pattern(p)
		return nil
	}
	return invalid("define "+w.Name, "there is no pattern %v", p)
}

// Duplicate is the reason of a [StepSkipped] whose effect was there already.
const Duplicate = kernel.Duplicate

package perdure

import (
	"github.com/perdure/perdure/journal"
)

// What a pattern needs of package journal, so that it needs this package only.

// A RunStatus says where a run is. See [journal.Status] for all of them.
type RunStatus = journal.Status

// Statuses that patterns set and end with.
const (
	StatusRunning      = journal.Running
	StatusTrying       = journal.Trying
	StatusCompleted    = journal.Completed
	StatusCancelled    = journal.Cancelled
	StatusTimedOut     = journal.TimedOut
	StatusConfirming   = journal.Confirming
	StatusCanceling    = journal.Canceling
	StatusCompensating = journal.Compensating
	StatusFailed       = journal.Failed
	StatusConfirmed    = journal.Confirmed
	StatusCanceled     = journal.Canceled
	StatusCompensated  = journal.Compensated
)

// RunStatuses lists every status of a run, open ones first.
func RunStatuses() []RunStatus { return journal.Statuses() }

// A FactKind says what a [Fact] tells. See [journal.Kind] for all of them.
type FactKind = journal.Kind

// The facts that [Record] records.
const (
	StepSkipped         = journal.StepSkipped
	CompensationStarted = journal.CompensationStarted
	StepCompensated     = journal.StepCompensated
	CompensationFailed  = journal.CompensationFailure
	PhaseStarted        = journal.PhaseStarted
	PhaseCompleted      = journal.PhaseCompleted
	PhaseFailed         = journal.PhaseFailed
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
		if p == PatternTCC {
			w.First = journal.Trying
		}
		return nil
	}
	return invalid("define "+w.Name, "there is no pattern %v", p)
}

// Duplicate is the reason of a [StepSkipped] whose effect was there already.
const Duplicate = journal.Duplicate

// Codes of errors that patterns give. See [journal.Code] for all of them.
const (
	CodeInvalid    = journal.CodeInvalid
	CodeMisuse     = journal.CodeMisuse
	CodeTopology   = journal.CodeTopology
	CodeWrongState = journal.CodeWrongState
	CodeCancelled  = journal.CodeCancelled
	CodeNotFound   = journal.CodeNotFound
	CodeTimedOut   = journal.CodeTimedOut
)

// A StepStatus says where a step is. See [journal.StepStatus] for all of them.
type StepStatus = journal.StepStatus

// Statuses of steps that patterns ask for.
const (
	StepIsPending            = journal.StepIsPending
	StepIsRunning            = journal.StepIsRunning
	StepIsDone               = journal.StepIsDone
	StepIsFailed             = journal.StepIsFailed
	StepIsSkipped            = journal.StepIsSkipped
	StepIsCompensated        = journal.StepIsCompensated
	StepIsCompensationFailed = journal.StepIsCompensationFailed
)

// ValidName says whether a text can be a name: 1 to 255 of A-Z a-z 0-9 . _ : -.
func ValidName(s string) bool { return journal.ValidName(s) }

package report

import "github.com/perdure/perdure/journal"

// A StepStatus is the status of a step. See [journal.StepStatus] for all of them.
type StepStatus = journal.StepStatus

// The statuses of steps that a program asks for most.
const (
	StepIsPending            = journal.StepIsPending
	StepIsRunning            = journal.StepIsRunning
	StepIsDone               = journal.StepIsDone
	StepIsFailed             = journal.StepIsFailed
	StepIsSkipped            = journal.StepIsSkipped
	StepIsCompensated        = journal.StepIsCompensated
	StepIsCompensationFailed = journal.StepIsCompensationFailed
)

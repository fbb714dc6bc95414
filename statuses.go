package perdure

import (
	"github.com/perdure/perdure/journal"
)

// A RunStatus is the status of a run. See [journal.Status] for all of them.
type RunStatus = journal.Status

// Aliases of the statuses of runs that programs use most.
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

// Aliases of the error codes that programs use most. See [journal.Code] for all of them.
const (
	CodeInvalid    = journal.CodeInvalid
	CodeMisuse     = journal.CodeMisuse
	CodeTopology   = journal.CodeTopology
	CodeWrongState = journal.CodeWrongState
	CodeCancelled  = journal.CodeCancelled
	CodeNotFound   = journal.CodeNotFound
	CodeTimedOut   = journal.CodeTimedOut
)

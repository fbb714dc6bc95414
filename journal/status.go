package journal

import "strconv"

// A Status is the state of a run. One enumeration serves every pattern. Zero is not a status; in an
// entry it means that the status stays as it was.
type Status uint8

// The statuses. Their numbers are stored and never change.
const (
	Pending            Status = 1  // not begun: the run waits for an engine or a slot
	Running            Status = 2  // the code or a step is being executed
	Waiting            Status = 3  // nothing is executed: the run waits for a timer or a message
	Suspended          Status = 4  // parked: the run waits for an operator
	Trying             Status = 5  // TCC: in its first phase
	Confirming         Status = 6  // TCC: decided, confirming
	Canceling          Status = 7  // TCC: decided, canceling
	Compensating       Status = 8  // undoing what was done
	CompensationFailed Status = 9  // parked: an effect could not be undone
	Completed          Status = 20 // the function returned a value
	Failed             Status = 21 // the run failed
	Cancelled          Status = 22 // the run was cancelled
	TimedOut           Status = 23 // the overall timeout passed
	Confirmed          Status = 24 // TCC: every participant has confirmed
	Canceled           Status = 25 // TCC: every participant has cancelled
	Compensated        Status = 26 // every effect is undone
	ContinuedAsNew     Status = 27 // a successor goes on under the same workflow ID
)

var statusNames = map[Status]string{
	Pending: "PENDING", Running: "RUNNING", Waiting: "WAITING", Suspended: "SUSPENDED",
	Trying: "TRYING", Confirming: "CONFIRMING", Canceling: "CANCELING",
	Compensating: "COMPENSATING", CompensationFailed: "COMPENSATION_FAILED",
	Completed: "COMPLETED", Failed: "FAILED", Cancelled: "CANCELLED", TimedOut: "TIMED_OUT",
	Confirmed: "CONFIRMED", Canceled: "CANCELED", Compensated: "COMPENSATED",
	ContinuedAsNew: "CONTINUED_AS_NEW",
}

// Statuses returns all statuses, open ones first.
func Statuses() []Status {
	var all []Status
	for s := Status(1); s <= ContinuedAsNew; s++ {
		if s.Valid() {
			all = append(all, s)
		}
	}
	return all
}

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return statusNames[s] != "" }

// String returns the status's name, in capitals.
func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// ParseStatus returns the status with a name that String returned.
func ParseStatus(name string) (Status, bool) {
	for s, n := range statusNames {
		if n == name {
			return s, true
		}
	}
	return 0, false
}

// IsTerminal reports whether a run with this status has ended. It never changes again.
func (s Status) IsTerminal() bool { return s >= Completed && s.Valid() }

// IsOpen reports whether a run with this status has not ended.
func (s Status) IsOpen() bool { return s.Valid() && s < Completed }

// IsActive reports whether a run with this status goes on by itself: it is open and does not wait
// for an operator.
func (s Status) IsActive() bool {
	return s.IsOpen() && s != Suspended && s != CompensationFailed
}

// IsDecided reports whether a run with this status carries out a decision, so that neither a cancel
// nor its timeout ends it.
func (s Status) IsDecided() bool {
	return s == Confirming || s == Canceling || s == Compensating || s == CompensationFailed
}

// IsSuccess reports whether a run with this status ended with success.
func (s Status) IsSuccess() bool { return s == Completed || s == Confirmed }

// IsFailure reports whether a run with this status ended and did not reach its goal. A run that a
// successor continues has not failed.
func (s Status) IsFailure() bool {
	return s.IsTerminal() && !s.IsSuccess() && s != ContinuedAsNew
}

// CanSuspend reports whether an operator may suspend a run with this status.
func (s Status) CanSuspend() bool { return s == Pending || s == Running || s == Waiting }

// CanResume reports whether an operator may resume a run with this status.
func (s Status) CanResume() bool { return s == Suspended }

// A StepStatus is the state of a step or branch.
type StepStatus string

// The statuses of a step.
const (
	StepIsPending   StepStatus = "PENDING"
	StepIsRunning   StepStatus = "RUNNING"
	StepIsRetrying  StepStatus = "RETRYING"
	StepIsDone      StepStatus = "DONE" // of a branch in a run that has ended: it has returned
	StepIsFailed    StepStatus = "FAILED"
	StepIsTimedOut  StepStatus = "TIMED_OUT"
	StepIsCancelled StepStatus = "CANCELLED"
	StepIsSkipped   StepStatus = "SKIPPED"

	StepIsCompensated        StepStatus = "COMPENSATED"
	StepIsCompensationFailed StepStatus = "COMPENSATION_FAILED"

	// Statuses of a TCC's participants.
	StepIsTried         StepStatus = "TRIED"
	StepIsTryFailed     StepStatus = "TRY_FAILED"
	StepIsConfirming    StepStatus = "CONFIRMING"
	StepIsConfirmed     StepStatus = "CONFIRMED"
	StepIsConfirmFailed StepStatus = "CONFIRM_FAILED"
	StepIsCanceling     StepStatus = "CANCELING"
	StepIsCanceled      StepStatus = "CANCELED"
	StepIsCancelFailed  StepStatus = "CANCEL_FAILED"
)

// StepStatuses returns all statuses of a step.
func StepStatuses() []StepStatus {
	return []StepStatus{
		StepIsPending, StepIsRunning, StepIsRetrying, StepIsDone, StepIsFailed, StepIsTimedOut,
		StepIsCancelled, StepIsSkipped,
		StepIsCompensated, StepIsCompensationFailed,
		StepIsTried, StepIsTryFailed, StepIsConfirming, StepIsConfirmed, StepIsConfirmFailed,
		StepIsCanceling, StepIsCanceled, StepIsCancelFailed,
	}
}

// The phases as entries name them: those of a TCC, the undo of a step, and a composition as a
// whole.
const (
	PhaseTry         = "TRY"
	PhaseConfirm     = "CONFIRM"
	PhaseCancel      = "CANCEL"
	PhaseUndo        = "UNDO"
	PhaseComposition = "COMPOSITION"
)

// IsTerminal reports whether the step does not change by itself any more.
func (s StepStatus) IsTerminal() bool {
	switch s {
	case StepIsPending, StepIsRunning, StepIsRetrying, StepIsConfirming, StepIsCanceling, "":
		return false
	}
	return true
}

// IsFailure reports whether the step, its compensation or its phase has failed.
func (s StepStatus) IsFailure() bool {
	switch s {
	case StepIsFailed, StepIsTimedOut, StepIsCompensationFailed, StepIsTryFailed,
		StepIsConfirmFailed, StepIsCancelFailed:
		return true
	}
	return false
}

// IsDone reports whether the step has had its effect.
func (s StepStatus) IsDone() bool { return s == StepIsDone || s == StepIsConfirmed }

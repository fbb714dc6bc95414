package journal

import "strconv"

// Status says where a run is. One enumeration serves every pattern. The zero
// value is no status; in an entry it means that the status stays as it was.
type Status uint8

// The statuses. Their numbers are stored and never change.
const (
	Pending            Status = 1  // not begun: waits for an engine or a slot
	Running            Status = 2  // code or a step of it is being executed
	Waiting            Status = 3  // nothing is in flight: a timer or message is ahead
	Suspended          Status = 4  // by an operator, or parked by the engine with a cause
	Trying             Status = 5  // TCC: in its first phase
	Confirming         Status = 6  // TCC: decided, confirming
	Canceling          Status = 7  // TCC: decided, cancelling
	Compensating       Status = 8  // undoing what was done
	CompensationFailed Status = 9  // parked: an effect could not be undone
	Completed          Status = 20 // the function returned a value
	Failed             Status = 21 // failed on purpose
	Cancelled          Status = 22 // stopped
	TimedOut           Status = 23 // the overall timeout passed
	Confirmed          Status = 24 // TCC: every participant confirmed
	Canceled           Status = 25 // TCC: every participant cancelled
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

// Statuses lists every status, open ones first.
func Statuses() []Status {
	var all []Status
	for s := Status(1); s <= ContinuedAsNew; s++ {
		if s.Valid() {
			all = append(all, s)
		}
	}
	return all
}

// Valid says whether s is one of the statuses.
func (s Status) Valid() bool { return statusNames[s] != "" }

// String is the status's name in the spec.
func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// ParseStatus gives the status of a name that String gave.
func ParseStatus(name string) (Status, bool) {
	for s, n := range statusNames {
		if n == name {
			return s, true
		}
	}
	return 0, false
}

// IsTerminal says whether a run in this status has ended and will never change.
func (s Status) IsTerminal() bool { return s >= Completed && s.Valid() }

// IsOpen says whether a run in this status has not ended.
func (s Status) IsOpen() bool { return s.Valid() && s < Completed }

// IsActive says whether a run in this status goes on by itself: it is open and
// does not wait for an operator.
func (s Status) IsActive() bool {
	return s.IsOpen() && s != Suspended && s != CompensationFailed
}

// IsDecided says whether a run in this status carries out what it has decided: neither
// a cancel nor its timeout ends it.
func (s Status) IsDecided() bool {
	return s == Confirming || s == Canceling || s == Compensating || s == CompensationFailed
}

// IsSuccess says whether a run in this status ended as its author hoped.
func (s Status) IsSuccess() bool { return s == Completed || s == Confirmed }

// CanSuspend says whether an operator may suspend a run in this status.
func (s Status) CanSuspend() bool { return s == Pending || s == Running || s == Waiting }

// CanResume says whether an operator may resume a run in this status.
func (s Status) CanResume() bool { return s == Suspended }

// StepStatus says where a step or branch is.
type StepStatus string

// The statuses of a step.
const (
	StepIsPending   StepStatus = "PENDING"
	StepIsRunning   StepStatus = "RUNNING"
	StepIsRetrying  StepStatus = "RETRYING"
	StepIsDone      StepStatus = "DONE"
	StepIsFailed    StepStatus = "FAILED"
	StepIsTimedOut  StepStatus = "TIMED_OUT"
	StepIsCancelled StepStatus = "CANCELLED"
	StepIsSkipped   StepStatus = "SKIPPED"

	StepIsCompensated        StepStatus = "COMPENSATED"
	StepIsCompensationFailed StepStatus = "COMPENSATION_FAILED"

	// Of a TCC's participants.
	StepIsTried         StepStatus = "TRIED"
	StepIsTryFailed     StepStatus = "TRY_FAILED"
	StepIsConfirming    StepStatus = "CONFIRMING"
	StepIsConfirmed     StepStatus = "CONFIRMED"
	StepIsConfirmFailed StepStatus = "CONFIRM_FAILED"
	StepIsCanceling     StepStatus = "CANCELING"
	StepIsCanceled      StepStatus = "CANCELED"
	StepIsCancelFailed  StepStatus = "CANCEL_FAILED"
)

// StepStatuses lists every status of a step.
func StepStatuses() []StepStatus {
	return []StepStatus{
		StepIsPending, StepIsRunning, StepIsRetrying, StepIsDone, StepIsFailed, StepIsTimedOut,
		StepIsCancelled, StepIsSkipped,
		StepIsCompensated, StepIsCompensationFailed,
		StepIsTried, StepIsTryFailed, StepIsConfirming, StepIsConfirmed, StepIsConfirmFailed,
		StepIsCanceling, StepIsCanceled, StepIsCancelFailed,
	}
}

// The phases that steps are of, as entries name them: those of a TCC, what undoes a step,
// and the whole of a composition.
const (
	PhaseTry         = "TRY"
	PhaseConfirm     = "CONFIRM"
	PhaseCancel      = "CANCEL"
	PhaseUndo        = "UNDO"
	PhaseComposition = "COMPOSITION"
)

// IsTerminal says whether the step will not change any more by itself.
func (s StepStatus) IsTerminal() bool {
	switch s {
	case StepIsPending, StepIsRunning, StepIsRetrying, StepIsConfirming, StepIsCanceling, "":
		return false
	}
	return true
}

// IsFailure says whether the step, its compensation or its phase has failed.
func (s StepStatus) IsFailure() bool {
	switch s {
	case StepIsFailed, StepIsTimedOut, StepIsCompensationFailed, StepIsTryFailed,
		StepIsConfirmFailed, StepIsCancelFailed:
		return true
	}
	return false
}

// IsDone says whether the step has done what it is for.
func (s StepStatus) IsDone() bool { return s == StepIsDone || s == StepIsConfirmed }

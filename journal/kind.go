package journal

import "strconv"

// Kind says what happened. The set is closed; a kind's number is stored and
// never changes its meaning.
type Kind uint8

// The kinds of a run's life.
const (
	RunStarted     Kind = 1  // the run exists; Data is its input
	RunClaimed     Kind = 2  // an engine took it up that had not begun it, or another build did
	RunCompleted   Kind = 3  // ended by returning a value; Data is the output
	RunFailed      Kind = 4  // ended by failing; Detail.Failure says how
	RunCancelled   Kind = 5  // ended by a cancel
	RunTimedOut    Kind = 6  // ended by its overall timeout
	RunSuspended   Kind = 7  // parked, or suspended by an operator; Detail.Reason says why
	RunResumed     Kind = 8  // an operator let it go on
	RunRetrying    Kind = 9  // its code panicked; replayed at Detail.Due
	RunContinued   Kind = 10 // ended; a successor goes on
	StatusChanged  Kind = 11 // nothing else happened
	AttributeSet   Kind = 12 // a search attribute changed
	PayloadSet     Kind = 13 // the payload was replaced
	VersionMarked  Kind = 14 // a change marker was decided
	ValueRecorded  Kind = 15 // a value the workflow asked for, such as the time
	StatePublished Kind = 16 // Data is what the run shows under this name
	// the run ends as Detail.Outcome once it has cleaned up; Detail.Failure is that of a cancel or
	// timeout from outside
	RunClosing     Kind = 17
	CleanupPlanned Kind = 18 // a clean-up is to run before the run ends
	ScopeOpened    Kind = 20 // a branch or scope; its sequence names the scope
	ScopeCancelled Kind = 21 // the branch was cancelled before it returned
	WaitEnded      Kind = 22 // the context or time of a wait ended before what it waited for came
	WaitStarted    Kind = 23 // a wait for a message; Detail.Due where it has a time limit
	// the run waits for an operator; Detail.Reason says why, Detail.Choices what he may decide
	DecisionSought Kind = 24
	// Data is the variable Detail.Variable from here on; without Data it is removed
	VariableSet Kind = 25
	KeyAdded    Kind = 26 // Data is an idempotency key that the run has used

	// another build's code has the operation, before recorded ones that it had not asked for
	OperationAdded  Kind = 27
	OperationUnused Kind = 28 // another build's code has not asked for the recorded operation

	StepStarted     Kind = 30 // attempt Detail.Attempt begins when this is durable
	StepCompleted   Kind = 31 // Data is the result
	StepFailed      Kind = 32 // for good: the last attempt failed
	StepTimedOut    Kind = 33 // for good: the last attempt passed its timeout
	StepCancelled   Kind = 34 // stopped by its workflow, its context or the end of the run
	StepSkipped     Kind = 35 // decided not to run
	StepRetrying    Kind = 36 // an attempt failed; the next begins at Detail.Due
	CheckpointSaved Kind = 37 // a value that a step's body keeps over attempts

	CompensationStarted Kind = 40
	StepCompensated     Kind = 41
	CompensationFailure Kind = 42
	PhaseStarted        Kind = 43
	PhaseCompleted      Kind = 44
	PhaseFailed         Kind = 45
	// the step failed for good, and the run Detail.Other keeps that for an operator
	DeadLettered Kind = 46

	SignalReceived  Kind = 50 // a message: a signal
	SignalConsumed  Kind = 51 // the run took the message Detail.Mail; Data is its payload
	TimerRegistered Kind = 52 // due at Detail.Due
	TimerFired      Kind = 53
	ChildStarted    Kind = 54 // Detail.Other is the child, created with this entry
	// a message, and its taking: the child ended as Detail.Outcome; Data is its output
	ChildCompleted Kind = 55
	EventEmitted   Kind = 56 // an event for the outside; Detail.Event is its type
	// a message, and its taking: somebody cancelled the timer; or the workflow did
	TimerCancelled Kind = 57
)

// The kinds of messages that are never in a journal: what they ask for is.
const (
	CancelAsked  Kind = 60 // Detail.Reason says why
	SuspendAsked Kind = 61 // Detail.Reason says why
	ResumeAsked  Kind = 62
	// of an operator; its name is the choice. The journal has it as SignalConsumed
	DecisionMade Kind = 63
)

var kindNames = map[Kind]string{
	RunStarted: "RunStarted", RunClaimed: "RunClaimed", RunCompleted: "RunCompleted",
	RunFailed: "RunFailed", RunCancelled: "RunCancelled", RunTimedOut: "RunTimedOut",
	RunSuspended: "RunSuspended", RunResumed: "RunResumed", RunRetrying: "RunRetrying",
	RunContinued: "RunContinued", StatusChanged: "StatusChanged", AttributeSet: "AttributeSet",
	PayloadSet: "PayloadSet", VersionMarked: "VersionMarked", ValueRecorded: "ValueRecorded",
	StatePublished: "StatePublished", RunClosing: "RunClosing", CleanupPlanned: "CleanupPlanned",
	ScopeOpened: "ScopeOpened", ScopeCancelled: "ScopeCancelled", WaitEnded: "WaitEnded",
	WaitStarted: "WaitStarted", DecisionSought: "DecisionSought", VariableSet: "VariableSet",
	KeyAdded:       "KeyAdded",
	OperationAdded: "OperationAdded", OperationUnused: "OperationUnused",
	StepStarted: "StepStarted", StepCompleted: "StepCompleted", StepFailed: "StepFailed",
	StepTimedOut: "StepTimedOut", StepCancelled: "StepCancelled", StepSkipped: "StepSkipped",
	StepRetrying: "StepRetrying", CheckpointSaved: "CheckpointSaved",
	CompensationStarted: "CompensationStarted", StepCompensated: "StepCompensated",
	CompensationFailure: "CompensationFailed", DeadLettered: "DeadLettered",
	PhaseStarted:   "PhaseStarted",
	PhaseCompleted: "PhaseCompleted", PhaseFailed: "PhaseFailed",
	SignalReceived: "SignalReceived", SignalConsumed: "SignalConsumed",
	TimerRegistered: "TimerRegistered", TimerFired: "TimerFired",
	ChildStarted: "ChildStarted", ChildCompleted: "ChildCompleted",
	EventEmitted: "EventEmitted", TimerCancelled: "TimerCancelled",
	CancelAsked: "CancelAsked", SuspendAsked: "SuspendAsked", ResumeAsked: "ResumeAsked",
	DecisionMade: "DecisionMade",
}

// Kinds lists every kind in the order of its number.
func Kinds() []Kind {
	var all []Kind
	for k := Kind(1); k <= DecisionMade; k++ {
		if k.Valid() {
			all = append(all, k)
		}
	}
	return all
}

// Valid says whether k is one of the kinds.
func (k Kind) Valid() bool { return kindNames[k] != "" }

// String is the kind's name.
func (k Kind) String() string {
	if name := kindNames[k]; name != "" {
		return name
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// ParseKind gives the kind of a name that String gave.
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return k, true
		}
	}
	return 0, false
}

// IsMessage says whether an entry of this kind may be in an inbox.
func (k Kind) IsMessage() bool {
	switch k {
	case SignalReceived, ChildCompleted, TimerCancelled, CancelAsked, SuspendAsked, ResumeAsked,
		DecisionMade:
		return true
	}
	return false
}

// onlyMessage says whether an entry of this kind is in inboxes only: what it
// asks for is in the journal, as an entry of another kind.
func (k Kind) onlyMessage() bool {
	return k.IsMessage() && k != ChildCompleted && k != TimerCancelled
}

// EndsRun says whether an entry of this kind is a run's last one.
func (k Kind) EndsRun() bool {
	switch k {
	case RunCompleted, RunFailed, RunCancelled, RunTimedOut, RunContinued:
		return true
	}
	return false
}

// EndsStep says whether an entry of this kind is the terminal record of the
// step that its Op names.
func (k Kind) EndsStep() bool {
	switch k {
	case StepCompleted, StepFailed, StepTimedOut, StepCancelled, StepSkipped:
		return true
	}
	return false
}

// ofStep reports whether an entry of this kind belongs to a step, or to one of its attempts.
func (k Kind) ofStep() bool {
	return k.EndsStep() || k == StepStarted || k == StepRetrying || k == CheckpointSaved
}

// takesMessage reports whether an entry of this kind may record that the run took a message.
func (k Kind) takesMessage() bool {
	switch k {
	case SignalConsumed, StatusChanged, ValueRecorded, EventEmitted, WaitEnded,
		RunCancelled, RunTimedOut, RunFailed, RunClosing, RunResumed, RunSuspended:
		return true
	}
	return false
}

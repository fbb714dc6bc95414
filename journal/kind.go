package journal

import "strconv"

// A Kind is the kind of fact that an entry records. The set is closed. The number of a kind is
// stored and never changes its meaning.
type Kind uint8

// The kinds of entries.
const (
	RunStarted Kind = 1 // the run exists; Data is its input
	// the run was claimed by an engine that had not executed it before, or by one of another build
	RunClaimed   Kind = 2
	RunCompleted Kind = 3 // the run ended by returning a value; Data is the output
	RunFailed    Kind = 4 // the run ended by failing; Detail.Failure is the error
	RunCancelled Kind = 5 // the run ended by a cancel
	RunTimedOut  Kind = 6 // the run ended by its overall timeout
	// the run was parked, by an operator or otherwise; Detail.Reason is the reason
	RunSuspended   Kind = 7
	RunResumed     Kind = 8  // an operator resumed the run
	RunRetrying    Kind = 9  // the run's code panicked; it is replayed at Detail.Due
	RunContinued   Kind = 10 // the run ended; its successor goes on
	StatusChanged  Kind = 11 // nothing but the status changed
	AttributeSet   Kind = 12 // a search attribute changed
	PayloadSet     Kind = 13 // the payload was replaced
	VersionMarked  Kind = 14 // a change marker was decided
	ValueRecorded  Kind = 15 // a value that the workflow asked for, such as the time
	StatePublished Kind = 16 // Data is the value that the run publishes under this name
	// the run ends as Detail.Outcome once it has cleaned up; Detail.Failure is that of a cancel or
	// timeout from outside
	RunClosing     Kind = 17
	CleanupPlanned Kind = 18 // a clean-up is to run before the run ends
	ScopeOpened    Kind = 20 // a branch or scope began; the sequence of the entry names it
	ScopeCancelled Kind = 21 // the branch was cancelled before it returned
	WaitEnded      Kind = 22 // a wait ended by its context or time limit before the message came
	// a wait for a message began; Detail.Due is its time limit, if it has one
	WaitStarted Kind = 23
	// the run waits for an operator; Detail.Reason is the reason, Detail.Choices are the decisions
	// to choose from
	DecisionSought Kind = 24
	// Data is the value of Detail.Variable from here on; without Data the variable is removed. If
	// Op is zero, the run begins with the variable
	VariableSet Kind = 25
	KeyAdded    Kind = 26 // Data is an idempotency key that the run has used

	// the code of another build asked for this operation before recorded operations that it had not
	// reached yet
	OperationAdded  Kind = 27
	OperationUnused Kind = 28 // the code of another build has not asked for the recorded operation
	// Data is the value of the header Detail.Variable from here on; without Data the header is
	// removed
	HeaderSet Kind = 29

	StepStarted   Kind = 30 // attempt Detail.Attempt begins when this entry is durable
	StepCompleted Kind = 31 // Data is the result
	StepFailed    Kind = 32 // the last attempt failed
	StepTimedOut  Kind = 33 // the last attempt passed its timeout
	// the step was stopped by its workflow, its context or the end of the run
	StepCancelled   Kind = 34
	StepSkipped     Kind = 35 // the step was not executed, on purpose
	StepRetrying    Kind = 36 // an attempt failed; the next one begins at Detail.Due
	CheckpointSaved Kind = 37 // a value that a step's body keeps from attempt to attempt
	// the body of attempt Detail.Attempt returned a result after the attempt was given up; the
	// result is discarded
	ResultDiscarded Kind = 38
	// the next attempt waits for a token of the limit Detail.Reason, or for the end of a pause
	StepHeld Kind = 39

	CompensationStarted    Kind = 40
	StepCompensated        Kind = 41
	StepCompensationFailed Kind = 42
	PhaseStarted           Kind = 43
	PhaseCompleted         Kind = 44
	PhaseFailed            Kind = 45
	// the step failed for good, and the run Detail.Other is its dead letter
	DeadLettered Kind = 46
	SlotAsked    Kind = 47 // the run asks for a slot of the limit Detail.Reason
	SlotTaken    Kind = 48 // the run has the slot
	SlotFreed    Kind = 49 // the run has given the slot back

	SignalReceived  Kind = 50 // a message: a signal
	SignalConsumed  Kind = 51 // the run took the message Detail.Mail; Data is its payload
	TimerRegistered Kind = 52 // a timer that is due at Detail.Due
	TimerFired      Kind = 53
	ChildStarted    Kind = 54 // Detail.Other is the child, which is created with this entry
	// a message, and the entry that takes it: the child ended as Detail.Outcome; Data is its output
	ChildCompleted Kind = 55
	EventEmitted   Kind = 56 // an event for the outside; Detail.Event is its type
	// a message, and the entry that takes it: somebody cancelled the timer; or the workflow
	// cancelled it
	TimerCancelled Kind = 57
	// a wait ended because a message has come, or an operator resumed the run. It took no signal
	SignalNoticed Kind = 58
)

// The kinds of messages that are never in a journal. The journal has an entry of another kind for
// the effect of such a message.
const (
	CancelAsked  Kind = 60 // Detail.Reason is the reason
	SuspendAsked Kind = 61 // Detail.Reason is the reason
	ResumeAsked  Kind = 62
	// an operator's decision; its name is the choice. The journal has it as SignalConsumed
	DecisionMade Kind = 63
	// the run has a slot of a limit that it waited for; its key is the number of the slot. The
	// journal has an entry of another kind, which takes it
	SlotGranted Kind = 64
	// the answer to the callback of its key: Detail.Failure is set if it fails the wait, Detail.Due
	// if it extends the wait. The journal has it as SignalConsumed or WaitEnded
	AnswerReceived Kind = 65
)

// The kinds of what the body of a step puts out while it goes on.
const (
	// Data is a chunk of the stream Detail.Stream; or Detail.Part is void from here on
	StepOutput Kind = 70
	StepLogged Kind = 71 // Data has lines that the body has logged, one JSON object in each line
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
	KeyAdded: "KeyAdded", HeaderSet: "HeaderSet",
	OperationAdded: "OperationAdded", OperationUnused: "OperationUnused",
	StepStarted: "StepStarted", StepCompleted: "StepCompleted", StepFailed: "StepFailed",
	StepTimedOut: "StepTimedOut", StepCancelled: "StepCancelled", StepSkipped: "StepSkipped",
	StepRetrying: "StepRetrying", CheckpointSaved: "CheckpointSaved",
	ResultDiscarded: "ResultDiscarded", StepHeld: "StepHeld",
	CompensationStarted: "CompensationStarted", StepCompensated: "StepCompensated",
	StepCompensationFailed: "CompensationFailed", DeadLettered: "DeadLettered",
	SlotAsked: "SlotAsked", SlotTaken: "SlotTaken", SlotFreed: "SlotFreed",
	PhaseStarted:   "PhaseStarted",
	PhaseCompleted: "PhaseCompleted", PhaseFailed: "PhaseFailed",
	SignalReceived: "SignalReceived", SignalConsumed: "SignalConsumed",
	TimerRegistered: "TimerRegistered", TimerFired: "TimerFired",
	ChildStarted: "ChildStarted", ChildCompleted: "ChildCompleted",
	EventEmitted: "EventEmitted", TimerCancelled: "TimerCancelled",
	SignalNoticed: "SignalNoticed",
	CancelAsked:   "CancelAsked", SuspendAsked: "SuspendAsked", ResumeAsked: "ResumeAsked",
	DecisionMade: "DecisionMade", SlotGranted: "SlotGranted",
	AnswerReceived: "AnswerReceived",
	StepOutput:     "StepOutput", StepLogged: "StepLogged",
}

// Kinds returns all kinds, in the order of their numbers.
func Kinds() []Kind {
	var all []Kind
	for k := Kind(1); k <= StepLogged; k++ {
		if k.Valid() {
			all = append(all, k)
		}
	}
	return all
}

// Valid reports whether k is one of the kinds.
func (k Kind) Valid() bool { return kindNames[k] != "" }

// String returns the kind's name.
func (k Kind) String() string {
	if name := kindNames[k]; name != "" {
		return name
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// ParseKind returns the kind with a name that String returned.
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return k, true
		}
	}
	return 0, false
}

// IsMessage reports whether an entry of this kind may be in an inbox.
func (k Kind) IsMessage() bool {
	switch k {
	case SignalReceived, ChildCompleted, TimerCancelled, CancelAsked, SuspendAsked, ResumeAsked,
		DecisionMade, SlotGranted, AnswerReceived:
		return true
	}
	return false
}

// IsOrder reports whether a message of this kind tells a run to end, to park or to go on, whatever
// its code waits for.
func (k Kind) IsOrder() bool {
	return k == CancelAsked || k == SuspendAsked || k == ResumeAsked
}

// onlyMessage reports whether entries of this kind are in inboxes only. The journal has an entry of
// another kind for their effect.
func (k Kind) onlyMessage() bool {
	return k.IsMessage() && k != ChildCompleted && k != TimerCancelled
}

// EndsRun reports whether an entry of this kind is the last one of a run.
func (k Kind) EndsRun() bool {
	switch k {
	case RunCompleted, RunFailed, RunCancelled, RunTimedOut, RunContinued:
		return true
	}
	return false
}

// EndsStep reports whether an entry of this kind is the terminal record of the step that its Op
// names.
func (k Kind) EndsStep() bool {
	switch k {
	case StepCompleted, StepFailed, StepTimedOut, StepCancelled, StepSkipped:
		return true
	}
	return false
}

// ofStep reports whether an entry of this kind belongs to a step, or to one of its attempts.
func (k Kind) ofStep() bool {
	return k.EndsStep() || k == StepStarted || k == StepRetrying || k == CheckpointSaved ||
		k == ResultDiscarded || k == StepHeld || k.IsOutput()
}

// IsOutput reports whether an entry of this kind records what the body of a step has put out. It
// does not show that the run has come further: the body is called again after a crash.
func (k Kind) IsOutput() bool { return k == StepOutput || k == StepLogged }

// takesMessage reports whether an entry of this kind may record that the run took a message.
func (k Kind) takesMessage() bool {
	switch k {
	case SignalConsumed, StatusChanged, ValueRecorded, EventEmitted, WaitEnded,
		RunCancelled, RunTimedOut, RunFailed, RunClosing, RunResumed, RunSuspended, RunClaimed,
		RunContinued, SlotTaken, SignalNoticed:
		return true
	}
	return false
}

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
	ScopeOpened    Kind = 20 // a branch or scope; its sequence names the scope
	ScopeCancelled Kind = 21 // the branch was cancelled before it returned
	WaitEnded      Kind = 22 // the context of a wait ended before what it waited for

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

	SignalReceived  Kind = 50
	SignalConsumed  Kind = 51
	TimerRegistered Kind = 52
	TimerFired      Kind = 53
	ChildStarted    Kind = 54
	ChildCompleted  Kind = 55
)

var kindNames = map[Kind]string{
	RunStarted: "RunStarted", RunClaimed: "RunClaimed", RunCompleted: "RunCompleted",
	RunFailed: "RunFailed", RunCancelled: "RunCancelled", RunTimedOut: "RunTimedOut",
	RunSuspended: "RunSuspended", RunResumed: "RunResumed", RunRetrying: "RunRetrying",
	RunContinued: "RunContinued", StatusChanged: "StatusChanged", AttributeSet: "AttributeSet",
	PayloadSet: "PayloadSet", VersionMarked: "VersionMarked", ValueRecorded: "ValueRecorded",
	ScopeOpened: "ScopeOpened", ScopeCancelled: "ScopeCancelled", WaitEnded: "WaitEnded",
	StepStarted: "StepStarted", StepCompleted: "StepCompleted", StepFailed: "StepFailed",
	StepTimedOut: "StepTimedOut", StepCancelled: "StepCancelled", StepSkipped: "StepSkipped",
	StepRetrying: "StepRetrying", CheckpointSaved: "CheckpointSaved",
	CompensationStarted: "CompensationStarted", StepCompensated: "StepCompensated",
	CompensationFailure: "CompensationFailed", PhaseStarted: "PhaseStarted",
	PhaseCompleted: "PhaseCompleted", PhaseFailed: "PhaseFailed",
	SignalReceived: "SignalReceived", SignalConsumed: "SignalConsumed",
	TimerRegistered: "TimerRegistered", TimerFired: "TimerFired",
	ChildStarted: "ChildStarted", ChildCompleted: "ChildCompleted",
}

// Kinds lists every kind in the order of its number.
func Kinds() []Kind {
	var all []Kind
	for k := Kind(1); k <= ChildCompleted; k++ {
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

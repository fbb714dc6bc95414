package observe

// Kind says what a notice tells. The set is closed.
type Kind string

// The kinds of the lifecycle: what happens to a run, its steps, and what it
// waits for. [Lifecycle] lists them.
const (
	RunStarted Kind = "run started"
	// an attempt begins; again where an engine has died in it
	StepStarted   Kind = "step started"
	StepSucceeded Kind = "step succeeded"            // Took says how long the attempt took
	StepFailed    Kind = "step failed"               // after the last attempt
	StepSkipped   Kind = "step skipped"              // decided not to run
	StepDuplicate Kind = "step skipped as duplicate" // its effect was there already
	RunEnded      Kind = "run ended"                 // Status says how
	// it failed for good, by Err, and is kept for an operator
	DeadLettered        Kind = "run dead-lettered"
	CompensationStarted Kind = "compensation started"
	StepCompensated     Kind = "step compensated"
	CompensationFailed  Kind = "compensation failed" // of Step; Err says how
	PhaseStarted        Kind = "phase started"       // of a TCC, as the next two; Phase names it
	PhaseCompleted      Kind = "phase completed"
	PhaseFailed         Kind = "phase failed"
	// of a TCC, as the next two; Step names it, Phase says in which
	ParticipantStarted   Kind = "participant started"
	ParticipantSucceeded Kind = "participant succeeded"
	ParticipantFailed    Kind = "participant failed"
	// suspended; Reason says why: it waits for an operator
	RunParked       Kind = "run parked"
	RunResumed      Kind = "run resumed"      // by an operator
	SignalDelivered Kind = "signal delivered" // the run took it; Signal names it
	TimerFired      Kind = "timer fired"      // Timer names it
	ChildStarted    Kind = "child started"    // Other is its run
	// Other is its run; Reason has the status it ended in, Err its failure
	ChildEnded Kind = "child ended"
	// as new, by the run Other; there is no notice that it ended
	RunContinued       Kind = "run continued"
	CompositionStarted Kind = "composition started" // of sagas or TCCs, as the next
	CompositionEnded   Kind = "composition ended"
)

// Lifecycle lists the kinds of the lifecycle.
func Lifecycle() []Kind {
	return []Kind{
		RunStarted, StepStarted, StepSucceeded, StepFailed, StepSkipped, StepDuplicate, RunEnded,
		DeadLettered,
		CompensationStarted, StepCompensated, CompensationFailed, PhaseStarted, PhaseCompleted,
		PhaseFailed,
		ParticipantStarted, ParticipantSucceeded, ParticipantFailed, RunParked, RunResumed,
		SignalDelivered, TimerFired,
		ChildStarted, ChildEnded, RunContinued, CompositionStarted, CompositionEnded,
	}
}

// The kinds that tell what else an operator should know.
const (
	// Workflow was registered, and Reason is a warning or a remark
	DefinitionAdvised Kind = "definition advised"
	// by an engine that had not begun it, or that is another build
	RunClaimed Kind = "run claimed"
	// its code panicked; Attempt counts, Due says when it goes on
	RunRetrying Kind = "run retrying"
	// an attempt failed; Due says when the next begins
	StepRetrying  Kind = "step retrying"
	StepCancelled Kind = "step cancelled"
	// of an attempt that was given up; it is discarded
	LateResult     Kind = "late result"
	StepAbandoned  Kind = "step abandoned"  // its goroutine went on after its context ended
	StepProgressed Kind = "step progressed" // Reason is what the step said
	// what was to run before the run ended; Err says how, the run ends all the same
	CleanupFailed Kind = "cleanup failed"
	// a lifecycle listener or subscriber gave an error or panicked; Err says which
	ListenerFailed Kind = "listener failed"
	// Reason names where the workflow blocks outside the engine
	TurnLent Kind = "turn lent"
	// another build: Step is an operation, Reason one of those below
	ReplayDiffered Kind = "replay differed"
	// another build replays an occurrence above 1: give it a key
	KeyAdvised  Kind = "key advised"
	StoreFailed Kind = "store failed" // a commit or claim is tried again
	// what is kept no longer is still there; the next clean-up tries again
	PurgeFailed    Kind = "purge failed"
	StoreRecovered Kind = "store recovered" // after Attempt tries
	// a group is durable; Rows and Took say of what size
	Committed Kind = "committed"
	// the engine stops what it executes, and joins again when it can; Err says why
	LeaseLost Kind = "lease lost"
	// it has joined again, after Took, at the try Attempt
	LeaseRegained Kind = "lease regained"
	// a call waits for Engine.Run, and nobody has called it; Reason names the call
	EngineNotRunning Kind = "engine not running"
	// this one has taken over one that died; Rows is how many of its runs are due
	EngineExpired Kind = "engine expired"
)

// The reasons of ReplayDiffered.
const (
	OperationNew    = "new in this build"
	OperationUnused = "recorded, and unused by this build"
)

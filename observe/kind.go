package observe

// A Kind is the kind of event that a notice reports. The set is closed.
type Kind string

// The kinds of the lifecycle: events of a run, of its steps and of its waits. [Lifecycle] returns
// them.
const (
	RunStarted Kind = "run started"
	// an attempt begins; sent again if an engine died during the attempt
	StepStarted   Kind = "step started"
	StepSucceeded Kind = "step succeeded"            // Took is the duration of the attempt
	StepFailed    Kind = "step failed"               // after the last attempt
	StepSkipped   Kind = "step skipped"              // not executed, on purpose
	StepDuplicate Kind = "step skipped as duplicate" // its effect existed already
	RunEnded      Kind = "run ended"                 // Status is the final status
	// it failed for good, with Err, and is kept for an operator
	DeadLettered           Kind = "run dead-lettered"
	CompensationStarted    Kind = "compensation started"
	StepCompensated        Kind = "step compensated"
	StepCompensationFailed Kind = "compensation failed" // compensation of Step; Err is the error
	// of a TCC, as are the next two; Phase is the phase
	PhaseStarted   Kind = "phase started"
	PhaseCompleted Kind = "phase completed"
	PhaseFailed    Kind = "phase failed"
	// of a TCC, as are the next two; Step is the participant, Phase the phase
	ParticipantStarted   Kind = "participant started"
	ParticipantSucceeded Kind = "participant succeeded"
	ParticipantFailed    Kind = "participant failed"
	// it waits for an operator, who may have suspended it; Reason is the reason
	RunParked       Kind = "run parked"
	RunResumed      Kind = "run resumed"      // by an operator
	SignalDelivered Kind = "signal delivered" // the run took it; Signal is its name
	TimerFired      Kind = "timer fired"      // Timer is its path
	ChildStarted    Kind = "child started"    // Other is its run
	// Other is its run; Reason is its status, Err its failure
	ChildEnded Kind = "child ended"
	// the run continued as new, in the run Other; there is no notice of its end
	RunContinued       Kind = "run continued"
	CompositionStarted Kind = "composition started" // of sagas or TCCs, as is the next one
	CompositionEnded   Kind = "composition ended"
)

// Lifecycle returns the kinds of the lifecycle.
func Lifecycle() []Kind {
	return []Kind{
		RunStarted, StepStarted, StepSucceeded, StepFailed, StepSkipped, StepDuplicate, RunEnded,
		DeadLettered,
		CompensationStarted, StepCompensated, StepCompensationFailed, PhaseStarted, PhaseCompleted,
		PhaseFailed,
		ParticipantStarted, ParticipantSucceeded, ParticipantFailed, RunParked, RunResumed,
		SignalDelivered, TimerFired,
		ChildStarted, ChildEnded, RunContinued, CompositionStarted, CompositionEnded,
	}
}

// The other kinds, for operators.
const (
	// Workflow was registered, and Reason is a warning or a remark
	DefinitionAdvised Kind = "definition advised"
	// by an engine that had not executed it before, or that has another build
	RunClaimed Kind = "run claimed"
	// its code panicked; Attempt is the number of panics, Due the time of the replay
	RunRetrying Kind = "run retrying"
	// an attempt failed; the next one begins at Due
	StepRetrying  Kind = "step retrying"
	StepCancelled Kind = "step cancelled"
	// an attempt that was given up returned a result, which is discarded
	LateResult Kind = "late result"
	// the body of the step still ran half a second after its attempt was given up
	StepAbandoned  Kind = "step abandoned"
	StepProgressed Kind = "step progressed" // Reason is the text that the step reported
	// a clean-up before the end of the run failed with Err; the run ends all the same
	CleanupFailed Kind = "cleanup failed"
	// a lifecycle listener or subscriber returned an error or panicked; Err names it
	ListenerFailed Kind = "listener failed"
	// Reason names the place where the workflow blocks outside the engine
	TurnLent Kind = "turn lent"
	// by another build: Step is an operation, Reason one of the reasons below
	ReplayDiffered Kind = "replay differed"
	// another build replays an occurrence above 1: the operation should have a key
	KeyAdvised  Kind = "key advised"
	StoreFailed Kind = "store failed" // a commit or claim is retried
	// a run whose retention has passed could not be removed; the next clean-up retries that
	PurgeFailed    Kind = "purge failed"
	StoreRecovered Kind = "store recovered" // after Attempt retries
	// a group of entries is durable; Rows is its size, Took the duration
	Committed Kind = "committed"
	// the engine stops what it executes, and joins again when it can; Err is the reason
	LeaseLost Kind = "lease lost"
	// the engine has joined again, after Took, in the try Attempt
	LeaseRegained Kind = "lease regained"
	// a loop of the engine, Reason, has stopped, and waits for admin.Client.StartLoop; Err is why
	LoopStopped Kind = "loop stopped"
	// a call waits for Engine.Run, which nobody has called; Reason names the call
	EngineNotRunning Kind = "engine not running"
	// this engine has taken over from one that died; Rows is the number of its runs that are due
	EngineExpired Kind = "engine expired"
	// the engine stops, and waits until Due for Rows steps in flight, which Reason names; again
	// every 5 s, and Attempt counts
	EngineDraining Kind = "engine draining"
	// the drain time is over, and the engine leaves Rows steps behind, which Reason names: their
	// contexts end, and the next engine makes their attempts again
	StepsLeft Kind = "steps left behind"
)

// The reasons of ReplayDiffered.
const (
	OperationNew    = "new in this build"
	OperationUnused = "recorded, and unused by this build"
)

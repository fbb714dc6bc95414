// Package observe has what is told to observers: metrics, traces, logs.
// Notices are never needed for correctness. One that tells of a journal entry
// is told after the entry is durable.
package observe

import "time"

// Kind says what a notice tells. The set is closed.
type Kind string

// The kinds that tell of entries in journals.
const (
	RunStarted    Kind = "run started"
	RunClaimed    Kind = "run claimed"    // by an engine that had not begun it, or that is another build
	RunEnded      Kind = "run ended"      // Status says how
	RunParked     Kind = "run parked"     // Reason says why; it waits for an operator
	RunResumed    Kind = "run resumed"    // by an operator
	RunRetrying   Kind = "run retrying"   // its code panicked; Attempt counts, Due says when it goes on
	StepStarted   Kind = "step started"   // of attempts whose start is recorded: further ones, and those of async and announced steps
	StepSucceeded Kind = "step succeeded" // Took says how long the attempt took
	StepFailed    Kind = "step failed"    // after the last attempt
	StepRetrying  Kind = "step retrying"  // an attempt failed; Due says when the next begins
	StepCancelled Kind = "step cancelled"
)

// The kinds that tell what else an operator should know.
const (
	LateResult     Kind = "late result"     // of an attempt that was given up; it is discarded
	StepAbandoned  Kind = "step abandoned"  // its goroutine went on after its context ended
	StepProgressed Kind = "step progressed" // Reason is what the step said
	TurnLent       Kind = "turn lent"       // Reason names where the workflow blocks outside the engine
	ReplayDiffered Kind = "replay differed" // another build: Reason names operations unused and new
	KeyAdvised     Kind = "key advised"     // another build replays an occurrence above 1: give it a key
	StoreFailed    Kind = "store failed"    // a commit or claim is tried again
	StoreRecovered Kind = "store recovered" // after Attempt tries
	Committed      Kind = "committed"       // a group is durable; Rows and Took say of what size
)

// A Notice tells one thing. Fields that do not apply are zero.
type Notice struct {
	Kind       Kind
	At         time.Time
	Run        string // run ID
	WorkflowID string
	Workflow   string
	Pattern    string
	Status     string // of the run
	Step       string // path of the step or branch
	Attempt    int
	Took       time.Duration
	Due        time.Time
	Rows       int
	Err        string
	Reason     string
	Benign     bool // the failure was expected
}

// A Func receives notices. Those that tell of a run's entries come one at a time
// and in the order of its journal, and the engine's commits wait for them, so it
// must return soon. Others come from other goroutines at any time. A panic in it
// is caught and changes nothing.
type Func func(Notice)

// Only gives a Func that passes on the kinds it is given.
func Only(f Func, kinds ...Kind) Func {
	want := make(map[Kind]bool, len(kinds))
	for _, k := range kinds {
		want[k] = true
	}
	return func(n Notice) {
		if want[n.Kind] {
			f(n)
		}
	}
}

package journal

// An Action is the operator's part in what a run is: a new run goes on from one that has ended, or
// an open run is ended, parked or lets go on.
type Action string

// The actions by which a new run goes on from one that has ended.
const (
	ActionRetry      Action = "retry"      // from the place where it failed
	ActionSkip       Action = "skip"       // the same, and the failed step has the given output
	ActionFork       Action = "fork"       // from a step that has run already
	ActionCompensate Action = "compensate" // what a completed run has done is undone
)

// The actions on an open run.
const (
	// a run that has not begun is continued by another one that has its input; no operator asks it
	ActionJoin      Action = "join"
	ActionTerminate Action = "terminate" // it is CANCELLED at once, and cleans nothing up
	ActionCancel    Action = "cancel"    // it is CANCELLED after its clean-ups
	ActionSuspend   Action = "suspend"   // it is parked
	ActionResume    Action = "resume"    // it goes on
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		ActionRetry, ActionSkip, ActionFork, ActionCompensate, ActionTerminate, ActionCancel,
		ActionSuspend, ActionResume,
	}
}

// GoesOn reports whether the action starts a run that goes on from one that has ended.
func (a Action) GoesOn() bool {
	switch a {
	case ActionRetry, ActionSkip, ActionFork, ActionCompensate:
		return true
	}
	return false
}

// An Origin is the link of a run to the run that it goes on from.
type Origin struct {
	Run      RunID  // empty for a run that begins by itself
	Action   Action // empty for a run that begins by itself
	Step     string // the path of the step that was skipped or from which on it was forked
	By       string // the operator
	Reason   string
	NewInput bool  // its input is another one
	Undoes   RunID // the completed run whose effects it undoes
}

// OriginOf returns the origin of a run by the detail of its first entry, which may be nil.
func OriginOf(d *Detail) Origin {
	if d == nil || d.Retried == "" {
		return Origin{}
	}
	o := Origin{
		Run: d.Retried, Action: d.Action, Step: d.From, By: d.By, Reason: d.Reason,
		NewInput: d.NewInput, Undoes: d.Undoes,
	}
	if o.Action == "" {
		o.Action = ActionRetry
	}
	return o
}

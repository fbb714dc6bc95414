package journal

import (
	"cmp"
	"time"
)

// A Detail has what few entries have. What entries of a few kinds have is a part of its own,
// and [Entry.Misplaced] names a part in an entry of another kind. The order of the fields is
// that of the stored bytes.
type Detail struct {
	// of a step, counted from 1; 0 if it was the first and only one
	Attempt int `json:"attempt,omitempty"`
	// when a retry, a timer or the time limit of a wait is due
	Due     time.Time `json:"due,omitzero"`
	Failure *Failure  `json:"failure,omitempty"` // how it failed
	Reason  string    `json:"reason,omitempty"`  // why it was cancelled, skipped or suspended
	CodeDetail
	StepDetail
	ByWait   bool   `json:"by_wait,omitempty"`  // the end of a context caused the cancellation
	Failures int    `json:"failures,omitempty"` // panics of the run's code in a row
	Version  int    `json:"version,omitempty"`  // what a change marker decided
	Phase    string `json:"phase,omitempty"`    // of a TCC's participant, or UNDO
	VariableDetail
	Other RunID `json:"other,omitempty"` // the child, parent, predecessor or successor
	ScopeDetail
	// The operation began after its branch had learned of something that began outside the branch.
	Heard bool `json:"heard,omitempty"`
	MessageDetail
	// how a child ended; of RunClosing how the run will end
	Outcome Status   `json:"outcome,omitempty"`
	Choices []string `json:"choices,omitempty"` // what an operator may decide
	EventDetail
	Policy string `json:"policy,omitempty"` // of a child: what becomes of it when its parent ends
	Tell   bool   `json:"tell,omitempty"`   // somebody is to be told of this entry at least once
	StartDetail
}

// A CodeDetail is of RunStarted and RunClaimed: the program that executes the run from here on.
type CodeDetail struct {
	Build  string   `json:"build,omitempty"`
	Engine EngineID `json:"engine,omitempty"` // that took the run up
}

// A StartDetail is of RunStarted. CleansUp and Layers are of RunClaimed, too, and DeadLetters is
// of DeadLettered.
type StartDetail struct {
	Headers map[string]string `json:"headers,omitempty"`
	// search attributes that the run begins with
	Attributes map[string]string `json:"attributes,omitempty"`
	Began      time.Time         `json:"began,omitzero"` // when the predecessor was started
	Ended      time.Time         `json:"ended,omitzero"` // when the predecessor ended
	// The code of the run plans a clean-up before anything else, which has no entry.
	CleansUp bool `json:"cleans_up,omitempty"`
	// The failed run that this one retries: its journal begins with the reusable history of that
	// one.
	Retried RunID `json:"retried,omitempty"`
	// The run whose idempotency keys the steps have; empty for the run itself.
	Keys RunID `json:"keys,omitempty"`
	// Instead of Keys, by the path of a step that was undone since, or of the step that it is a
	// phase of.
	Renewed map[string]RunID `json:"renewed,omitempty"`
	// workflow IDs of those that the retry is to settle
	DeadLetters []string `json:"letters,omitempty"`
	// the steps of the declaration, layer by layer
	Layers [][]string `json:"layers,omitempty"`
}

// A ScopeDetail is of ScopeOpened.
type ScopeDetail struct {
	Branch bool `json:"branch,omitempty"` // the scope has a goroutine of its own
	// the scope that this one works for, by its number
	StandsFor int64 `json:"stands_for,omitempty"`
	// the step beside the scope, of the same key, that its branch performs
	ForStep string `json:"does,omitempty"`
}

// A StepDetail is of the entries of a step.
type StepDetail struct {
	Once  string `json:"once,omitempty"`  // of CheckpointSaved: its name within the step
	Async bool   `json:"async,omitempty"` // the step runs beside its workflow
	// the step is one of a declaration: it begins however the steps beside it end
	Declared bool `json:"declared,omitempty"`
	// the result was recorded in a transaction of the application
	Tx bool `json:"tx,omitempty"`
}

// A VariableDetail is of VariableSet and KeyAdded.
type VariableDetail struct {
	Variable string `json:"variable,omitempty"` // the name of the variable
	// the body of a step set it: it counts from the step's result on
	ByStep bool `json:"by_step,omitempty"`
}

// A MessageDetail is of messages, and of the entries that take one.
type MessageDetail struct {
	// number of the message that this entry takes from the inbox
	Mail int64 `json:"mail,omitempty"`
	// number of the message that it took in the run that this one retries
	Taken int64 `json:"taken,omitempty"`
	// the sender's ID of the message: the same ID counts once for a chain of runs
	Message string `json:"message,omitempty"`
	To      string `json:"to,omitempty"` // the workflow ID of a message that found no run
}

// An EventDetail is of EventEmitted.
type EventDetail struct {
	Event string `json:"event,omitempty"` // the type of the event
	// the execution event of a pattern that it is, such as STEP_COMPLETED
	Execution string `json:"tells,omitempty"`
	Topic     string `json:"topic,omitempty"`   // the topic under which it is published
	Routing   string `json:"routing,omitempty"` // its routing key there
}

// Misplaced names the part of its detail that entries of this kind do not have; empty if there
// is none. No version of this package has written one. An entry that has one is read all the
// same.
func (e *Entry) Misplaced() string {
	d, k := e.Detail, e.Kind
	begins := k == RunStarted || k == RunClaimed
	switch {
	case d == nil:
	case !begins && d.CodeDetail != CodeDetail{}:
		return "CodeDetail"
	case k != RunStarted && d.starts(), !begins && (d.CleansUp || d.Layers != nil),
		k != RunStarted && k != DeadLettered && d.DeadLetters != nil:
		return "StartDetail"
	case k != ScopeOpened && d.ScopeDetail != ScopeDetail{}:
		return "ScopeDetail"
	case !k.ofStep() && d.StepDetail != StepDetail{}:
		return "StepDetail"
	case k != VariableSet && k != KeyAdded && d.VariableDetail != VariableDetail{}:
		return "VariableDetail"
	case !k.IsMessage() && !k.takesMessage() && d.MessageDetail != MessageDetail{}:
		return "MessageDetail"
	case k != EventEmitted && d.EventDetail != EventDetail{}:
		return "EventDetail"
	}
	return ""
}

// starts reports whether the detail has what RunStarted alone has.
func (d *Detail) starts() bool {
	return d.Headers != nil || d.Attributes != nil || d.Renewed != nil || d.Retried != "" ||
		d.Keys != "" ||
		!d.Began.IsZero() || !d.Ended.IsZero()
}

// ByMessage reports whether the entry took a message, in its own run or in the run that its
// own run retries.
func (d *Detail) ByMessage() bool { return d.Mail != 0 || d.Taken != 0 }

// KeysOf returns, of the start of a run, the run whose idempotency keys a step has. The path is
// that of the step, or of the step that it is a phase of. Empty means the run itself.
func (d *Detail) KeysOf(path string) RunID {
	if d == nil {
		return ""
	}
	return cmp.Or(d.Renewed[path], d.Keys)
}

// size is the part of a detail's size that has no bound.
func (d *Detail) size() int {
	n := d.Failure.size() + len(d.Reason)
	for _, texts := range append([][]string{d.Choices, d.DeadLetters}, d.Layers...) {
		for _, t := range texts {
			n += len(t)
		}
	}
	for path, run := range d.Renewed {
		n += len(path) + len(run)
	}
	for _, m := range []map[string]string{d.Headers, d.Attributes} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}

package journal

import (
	"cmp"
	"time"
)

// A Detail has the fields that few entries need. Fields that only a few kinds of entries have are
// in a part of their own. [Entry.Misplaced] names a part, or a field of two or three kinds, that is
// in an entry of another kind. The order of the fields is that of the stored bytes.
type Detail struct {
	// the attempt of a step, counted from 1; 0 if the first attempt was the only one
	Attempt int `json:"attempt,omitempty"`
	// when a retry, a timer or the time limit of a wait is due; in RunStarted, when the run begins
	Due     time.Time `json:"due,omitzero"`
	Failure *Failure  `json:"failure,omitempty"` // the error of the failed operation
	// the reason of a cancellation, a skipped step or a suspension
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // the operator whose action the entry records
	CodeDetail
	StepDetail
	ByWait   bool   `json:"by_wait,omitempty"`  // the end of a context caused the cancellation
	Failures int    `json:"failures,omitempty"` // panics of the run's code in a row
	Version  int    `json:"version,omitempty"`  // the version that a change marker decided
	Phase    string `json:"phase,omitempty"`    // the phase of a TCC's participant, or UNDO
	// of an undo, and of a fact: the occurrence of the step that it is about; 0 for the first
	Of int `json:"of,omitempty"`
	VariableDetail
	Other RunID `json:"other,omitempty"` // the child, parent, predecessor or successor
	ScopeDetail
	// The operation began after its branch had learned of something that began outside the branch.
	Heard bool `json:"heard,omitempty"`
	MessageDetail
	// the status that a child ended with; in RunClosing, the status that the run will end with
	Outcome Status `json:"-"`
	outcomeNumber
	Choices []string `json:"choices,omitempty"` // the decisions that an operator may take
	EventDetail
	// what happens to a child when its parent ends; in CompensationStarted, the name of the handler
	// of compensations that fail, if the engine has chosen it
	Policy string `json:"policy,omitempty"`
	// the entry is in the outbox: it is delivered at least once
	Tell bool `json:"tell,omitempty"`
	StartDetail
	// what a codec of payloads has encoded of the fields above. Only stores have it
	Sealed []byte `json:"sealed,omitempty"`
}

// An outcomeNumber is Outcome in the stored bytes. It is set only while these bytes are made or
// read.
type outcomeNumber struct {
	Number uint8 `json:"outcome,omitempty"`
}

// A CodeDetail is part of RunStarted and RunClaimed. It describes the program that executes the run
// from here on.
type CodeDetail struct {
	Build  string   `json:"build,omitempty"`
	Engine EngineID `json:"engine,omitempty"` // the engine that claimed the run
}

// A StartDetail is part of RunStarted. CleansUp and Layers are in RunClaimed, too, Gathered is only
// there, and DeadLetters is in DeadLettered.
type StartDetail struct {
	Headers map[string]string `json:"headers,omitempty"`
	// the search attributes that the run begins with
	Attributes map[string]string `json:"attributes,omitempty"`
	// the time when the predecessor was started
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"` // the time when the predecessor ended
	// The code of the run plans a clean-up before anything else. That clean-up has no entry.
	CleansUp bool `json:"cleans_up,omitempty"`
	// The run that this run goes on from. The journal begins with what is kept of the journal of
	// that run.
	Retried RunID `json:"retried,omitempty"`
	// the operator's action by which it goes on; empty for a retry
	Action Action `json:"action,omitempty"`
	// the path of the step that was skipped, or from which on the run was forked
	From string `json:"from,omitempty"`
	// the input is another one than that of the run that this run goes on from
	NewInput bool `json:"new_input,omitempty"`
	// the completed run whose effects this run undoes
	Undoes RunID `json:"undoes,omitempty"`
	// The run whose idempotency keys the steps use; empty for the run itself.
	Keys RunID `json:"keys,omitempty"`
	// Overrides Keys for some steps: those that were undone since, or, in a fork, those that it
	// keeps and may undo. Its keys are paths of steps, or of the steps that these are phases of.
	Renewed map[string]RunID `json:"renewed,omitempty"`
	// workflow IDs of the dead letters that the retry settles
	DeadLetters []string `json:"letters,omitempty"`
	// the steps of the declaration, layer by layer
	Layers [][]string `json:"layers,omitempty"`
	// The run asks for slots or tokens of limits. Its code is called when it has them.
	Limited bool `json:"limited,omitempty"`
	// in RunClaimed: the runs whose inputs the run has. The payload of the entry is the input then.
	Gathered []RunID `json:"gathered,omitempty"`
}

// A ScopeDetail is part of ScopeOpened.
type ScopeDetail struct {
	Branch bool `json:"branch,omitempty"` // the scope has a goroutine of its own
	// the number of the scope that this one works for
	StandsFor int64 `json:"stands_for,omitempty"`
	// the step that the branch performs: it is beside the scope and has the same key
	ForStep string `json:"does,omitempty"`
}

// A StepDetail is part of the entries of a step.
type StepDetail struct {
	// in CheckpointSaved: the name of the checkpoint within the step
	Once  string `json:"once,omitempty"`
	Async bool   `json:"async,omitempty"` // the step runs beside its workflow
	// the step belongs to a declaration: it begins however the steps beside it end
	Declared bool `json:"declared,omitempty"`
	// the step has a compensation: its result puts it on the undo stack
	Undo bool `json:"undo,omitempty"`
	// in StepCompleted: an option of the step undoes it, and no pattern
	OwnUndo bool `json:"own_undo,omitempty"`
	// in StepStarted: the step's body is called at most once; in StepHeld: it was not called
	AtMostOnce bool `json:"at_most_once,omitempty"`
	// an operator has set the result, and the step was not executed
	Skipped bool `json:"skipped,omitempty"`
	// the result was recorded in a transaction of the application
	Tx bool `json:"tx,omitempty"`
	OutputDetail
	VisitDetail
}

// An OutputDetail is part of StepOutput. What one attempt of a step puts into a stream is a part of
// the stream. The part is named by the entry of its first chunk.
type OutputDetail struct {
	Stream string `json:"stream,omitempty"`
	Part   int64  `json:"part,omitempty"` // 0 in the first chunk
	// the part does not count from here on, because the step is tried again
	Void bool `json:"void,omitempty"`
	Size int  `json:"size,omitempty"` // of a payload that is spilled, in bytes
}

// A VisitDetail is part of the entries of a visit: the step of a machine may take several
// operations of one name and key, which count as one step.
type VisitDetail struct {
	// the operation goes on with the visit of the occurrence before it
	GoesOn bool `json:"goes_on,omitempty"`
	// in StepCompleted: the action that the visit takes before it goes on; empty if it is over
	Then string `json:"then,omitempty"`
	// in StepCompleted: the step that is next, if the result decides about it
	Next string `json:"next,omitempty"`
	// in StepCompleted: the number of the last message that the body could see, if the visit waits
	// for a later one
	Seen int64 `json:"seen,omitempty"`
}

// ThenSplit is the action of a visit that has split into branches. Its step is done: the branches
// have steps of their own.
const ThenSplit = "SPLIT"

// GoesOnWith returns the action after which the visit goes on with its step; empty if the step is
// over.
func (d *VisitDetail) GoesOnWith() string {
	if d.Then == ThenSplit {
		return ""
	}
	return d.Then
}

// A VariableDetail is part of VariableSet, HeaderSet and KeyAdded, and ByStep of SignalConsumed.
type VariableDetail struct {
	Variable string `json:"variable,omitempty"` // the name of the variable or header
	// The body of a step set the variable: it counts from the step's result on. Or it observed the
	// message, which is taken with the step's result.
	ByStep bool `json:"by_step,omitempty"`
}

// A MessageDetail is part of messages, and of the entries that take one.
type MessageDetail struct {
	// the number of the message that this entry takes from the inbox
	Mail int64 `json:"mail,omitempty"`
	// the number of the message that the entry took in the run that this run retries
	Taken int64 `json:"taken,omitempty"`
	// the sender's ID of the message: one ID counts once in a chain of runs
	Message string `json:"message,omitempty"`
	// the same, of a message that an earlier run of the chain had: it counts already
	Passed string `json:"passed,omitempty"`
	To     string `json:"to,omitempty"` // the workflow ID of a message that found no run
	// the trace context of the call that sent a signal, as in a header traceparent
	SentIn string `json:"sent_in,omitempty"`
	// how the run is to end: ActionTerminate, ActionJoin, or ActionCompensate if also a pattern
	// undoes that does not do so by itself; empty for a plain cancel
	Mode Action `json:"mode,omitempty"`
}

// An EventDetail is part of EventEmitted.
type EventDetail struct {
	Event string `json:"event,omitempty"` // the type of the event
	// the execution event of a pattern, such as STEP_COMPLETED
	Execution string `json:"tells,omitempty"`
	Topic     string `json:"topic,omitempty"`   // the topic of the event
	Routing   string `json:"routing,omitempty"` // the routing key within the topic
	Trace     string `json:"trace,omitempty"`   // the header traceparent of the run
}

// Misplaced returns the name of a part or field of the detail that entries of this kind do not
// have, and the empty string if there is none. No version of this package has written such an
// entry, but it is read all the same.
func (e *Entry) Misplaced() string {
	d, k := e.Detail, e.Kind
	begins := k == RunStarted || k == RunClaimed
	switch {
	case d == nil:
	case !begins && d.CodeDetail != CodeDetail{}:
		return "CodeDetail"
	case k != RunStarted && d.starts(), !begins && (d.CleansUp || d.Layers != nil),
		k != RunClaimed && d.Gathered != nil,
		k != RunStarted && k != DeadLettered && d.DeadLetters != nil:
		return "StartDetail"
	case k != ScopeOpened && d.ScopeDetail != ScopeDetail{}:
		return "ScopeDetail"
	case !k.ofStep() && d.StepDetail != StepDetail{}:
		return "StepDetail"
	case k != StepOutput && d.OutputDetail != OutputDetail{}:
		return "OutputDetail"
	case k != VariableSet && k != HeaderSet && k != KeyAdded && k != SignalConsumed &&
		d.VariableDetail != VariableDetail{}:
		return "VariableDetail"
	case !k.IsMessage() && !k.takesMessage() && d.MessageDetail != MessageDetail{}:
		return "MessageDetail"
	case k != EventEmitted && d.EventDetail != EventDetail{}:
		return "EventDetail"
	case k != VersionMarked && d.Version != 0:
		return "Version"
	case k != ChildStarted && k != CompensationStarted && d.Policy != "":
		return "Policy"
	case k != RunRetrying && k != RunSuspended && d.Failures != 0:
		return "Failures"
	case k != DecisionSought && k != DecisionMade && k != SignalConsumed && d.Choices != nil:
		return "Choices"
	}
	return ""
}

// starts reports whether the detail has a field that only RunStarted has.
func (d *Detail) starts() bool {
	return d.Headers != nil || d.Attributes != nil || d.Renewed != nil || d.Retried != "" ||
		d.Keys != "" || d.Action != "" || d.From != "" || d.NewInput || d.Undoes != "" ||
		d.Limited || !d.Began.IsZero() || !d.Ended.IsZero()
}

// MessageID returns the sender's ID of a message; empty if it has none.
func (d *MessageDetail) MessageID() string { return cmp.Or(d.Message, d.Passed) }

// UpdateID is the beginning of the IDs of messages whose senders wait for a reply.
const UpdateID = "update/"

// StreamID is the beginning of what callers wait for news about: the name of a stream follows.
const StreamID = "stream/"

// MaxChunk limits a chunk of a stream in bytes.
const MaxChunk = 1 << 20

// ByMessage reports whether the entry took a message, in its own run or in the run that its run
// retries.
func (d *Detail) ByMessage() bool { return d.Mail != 0 || d.Taken != 0 }

// KeysOf returns the run whose idempotency keys a step uses, by the start of its run. The path is
// that of the step, or of the step that it is a phase of. Empty means the run itself.
func (d *Detail) KeysOf(path string) RunID {
	if d == nil {
		return ""
	}
	return cmp.Or(d.Renewed[path], d.Keys)
}

// size returns the size in bytes of the fields that have no bound.
func (d *Detail) size() int {
	n := d.Failure.size() + len(d.Reason) + len(d.By) + len(d.Sealed)
	for _, texts := range append([][]string{d.Choices, d.DeadLetters}, d.Layers...) {
		for _, t := range texts {
			n += len(t)
		}
	}
	for path, run := range d.Renewed {
		n += len(path) + len(run)
	}
	for _, run := range d.Gathered {
		n += len(run)
	}
	for _, m := range []map[string]string{d.Headers, d.Attributes} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}

package api

import (
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// An Entry is one fact in a run's journal. It names its run, so that it can be read alone.
type Entry struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	Pattern    string `json:"pattern"`

	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	Status    string    `json:"status,omitempty"`    // the status of the run from here on
	Operation string    `json:"operation,omitempty"` // with its scopes: branch/label
	Attempt   int       `json:"attempt,omitempty"`
	TookMS    float64   `json:"took_ms,omitempty"`
	Due       time.Time `json:"due,omitzero"`
	Data      Data      `json:"data,omitzero"`
	Error     *Error    `json:"error,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`      // the operator whose action the entry records
	Other     string    `json:"other,omitempty"`   // the child, parent, predecessor or successor
	Message   int64     `json:"message,omitempty"` // the number of the message that the entry takes
	// the status that a child ended with, or that the run will end with
	Outcome string   `json:"outcome,omitempty"`
	Event   string   `json:"event,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Version int      `json:"version,omitempty"` // the version that a change marker decided
	// the operator's action by which the run goes on from another one, or ended
	Action  string `json:"action,omitempty"`
	Skipped bool   `json:"skipped,omitempty"` // an operator has set the result of the step
	Build   string `json:"build,omitempty"`
	Engine  int64  `json:"engine,omitempty"`
	Stream  string `json:"stream,omitempty"` // the stream that the entry is a chunk of
	Part    int64  `json:"part,omitempty"`   // the entry of the first chunk of the same attempt
	Void    bool   `json:"void,omitempty"`   // that part does not count from here on
}

// A Journal makes entries of the journal of one run.
type Journal struct {
	head   journal.Head
	scopes map[int64]string // the names of scopes, by the entries that opened them
}

// JournalOf returns a Journal of the run with that head.
func JournalOf(h journal.Head) *Journal { return &Journal{h, map[int64]string{}} }

// Lacks returns the number of the entry that names the scope of e, if that entry has not been given
// to Entry; else 0.
func (j *Journal) Lacks(e journal.Entry) int64 {
	if _, known := j.scopes[e.Op.Scope]; known || e.Op.Scope >= e.Seq {
		return 0
	}
	return e.Op.Scope
}

// Entry returns the form of an entry. It comes after the one that names its scope: see Lacks.
func (j *Journal) Entry(e journal.Entry) Entry {
	out := Entry{
		RunID: string(j.head.ID), WorkflowID: j.head.WorkflowID, Pattern: j.head.Pattern.String(),
		Seq: e.Seq, At: utc(e.At), Kind: e.Kind.String(), TookMS: millis(e.Took), Data: e.Data,
	}
	if e.Kind == journal.StepLogged {
		out.Data = linesOf(e.Data)
	}
	if e.Status != 0 {
		out.Status = e.Status.String()
	}
	if !e.Op.IsZero() {
		out.Operation = e.Op.String()
		if scope := j.scopes[e.Op.Scope]; scope != "" {
			out.Operation = scope + "/" + out.Operation
		}
	}
	if e.Kind == journal.ScopeOpened || e.Kind == journal.CleanupPlanned {
		j.scopes[e.Seq] = out.Operation
	}
	if d := e.Detail; d != nil {
		out.Attempt, out.Due, out.Error = d.Attempt, utc(d.Due), ErrorOf(d.Failure)
		out.Reason, out.Other, out.Message = d.Reason, string(d.Other), d.Mail
		out.By, out.Action, out.Skipped = d.By, actionOf(&e), d.Skipped
		out.Stream, out.Part, out.Void = d.Stream, d.Part, d.Void
		if d.Retried != "" {
			out.Other = string(d.Retried)
		}
		out.Event, out.Choices, out.Version = d.Event, d.Choices, d.Version
		out.Build, out.Engine = d.Build, int64(d.Engine)
		if d.Outcome != 0 {
			out.Outcome = d.Outcome.String()
		}
	}
	return out
}

// linesOf returns JSON values, one in a line, as a list.
func linesOf(lines []byte) Data {
	return Data("[" + strings.ReplaceAll(strings.TrimSpace(string(lines)), "\n", ",") + "]")
}

// actionOf returns the operator's action that an entry records.
func actionOf(e *journal.Entry) string {
	if a := journal.OriginOf(e.Detail).Action; a != "" {
		return string(a)
	}
	return string(e.Detail.Mode)
}

// A Message is a signal in the inbox of a run, or one that is unrouted.
type Message struct {
	Number int64     `json:"number"`
	Name   string    `json:"name"`
	ID     string    `json:"id,omitempty"` // the sender's ID of the message
	To     string    `json:"to,omitempty"` // the workflow ID of an unrouted signal
	Sent   time.Time `json:"sent"`
	Until  time.Time `json:"until,omitzero"` // when an unrouted signal expires
	Data   Data      `json:"data,omitzero"`
}

// A Delivery is the result of a signal: a run has it, it is unrouted, or it is not delivered.
type Delivery struct {
	RunID string `json:"run_id,omitempty"` // the run that has the signal
	// its number in the inbox, or among the unrouted signals
	Number    int64 `json:"number,omitempty"`
	Duplicate bool  `json:"duplicate,omitempty"`
	Unrouted  bool  `json:"unrouted,omitempty"`

	NotDelivered bool   `json:"not_delivered,omitempty"` // there is no such run, or it has ended
	Status       string `json:"status,omitempty"`        // the status of a run that has ended
}

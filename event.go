package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// An Event is a message for the outside. Its fields about the run are set when it is published.
type Event struct {
	ID         string // the same at each delivery of the event
	Type       string
	RunID      string
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	// The step that emitted it, without the scopes that the step is in; or the step that the
	// event is about.
	Step string
	At   time.Time
	Data []byte

	// Fields of events of declared patterns, and of other events that set them. Kind is set in
	// events that a declared pattern emits, such as STEP_FAILED: see package pattern.
	Kind   string
	Status RunStatus // of the run at that time
	Topic  string
	Key    string // by which a topic is partitioned
	Trace  string // the header traceparent of the run when it emitted the event; empty for none
}

func eventOf(e kernel.Event) Event {
	return Event{
		ID: e.ID, Type: e.Type, RunID: string(e.Head.ID), WorkflowID: e.Head.WorkflowID,
		Workflow: e.Head.Workflow, Pattern: e.Head.Pattern,
		Step: e.Step, At: e.At, Data: e.Data, Kind: e.Execution, Status: e.Status, Topic: e.Topic,
		Key: e.Key, Trace: e.Trace,
	}
}

// Emit records an event, which is then handed to Options.Publisher, in order and at least once.
// In the body of a step the event is recorded with the result, before the next step begins, and
// not if the attempt fails. In workflow code it is recorded in the commit of the turn.
func Emit[T any](ctx context.Context, kind string, v T) error {
	data, err := payload.Encode(v)
	if err != nil {
		return &Error{
			Code: journal.CodeEncode, Op: "emit " + kind, Message: "the event does not encode",
			Err: err,
		}
	}
	if !journal.ValidName(kind) {
		return failure.BadName("event type", kind)
	}
	return kernel.Emit(ctx, journal.Detail{EventDetail: journal.EventDetail{Event: kind}}, data)
}

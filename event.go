package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// An Event is something for the outside. What it says of its run is filled in when it
// is published.
type Event struct {
	ID         string // the same whenever the event is told
	Type       string
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	Step       string // that emitted it, without the scopes that it is in; or that it tells of
	At         time.Time
	Data       []byte

	// Of events of declared patterns, and of others that say so.
	// of one that a declared pattern emits, such as STEP_FAILED: see package pattern
	Kind   string
	Status RunStatus // of the run then
	Topic  string
	Key    string // by which a topic is divided
}

func eventOf(e kernel.Event) Event {
	return Event{
		ID: e.ID, Type: e.Type, RunID: e.Head.ID, WorkflowID: e.Head.WorkflowID,
		Workflow: e.Head.Workflow, Pattern: e.Head.Pattern,
		Step: e.Step, At: e.At, Data: e.Data, Kind: e.Execution, Status: e.Status, Topic: e.Topic,
		Key: e.Key,
	}
}

// Emit has an event recorded and handed from there to Options.Publisher, in order and at
// least once: in the body of a step with its result, before the next step begins, and
// not where the attempt fails; in workflow code in the commit of the turn.
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

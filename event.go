package perdure

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Publisher takes events to where others hear of them. It is called at least once for
// each, until it gives no error: whoever reads them knows the same one by its ID.
type Publisher interface {
	Publish(ctx context.Context, e Event) error
}

// PublisherFunc is a function as a [Publisher].
type PublisherFunc func(ctx context.Context, e Event) error

// Publish calls the function.
func (f PublisherFunc) Publish(ctx context.Context, e Event) error { return f(ctx, e) }

// Tells says what of a run an event tells that a declared pattern emits.
type Tells string

// What events tell.
const (
	ExecutionStarted   Tells = "EXECUTION_STARTED"
	ExecutionCompleted Tells = "EXECUTION_COMPLETED" // it has ended, as Status says
	StepCompleted      Tells = "STEP_COMPLETED"
	StepFailed         Tells = "STEP_FAILED" // for good
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
	Tells  Tells
	Status journal.Status // of the run then
	Topic  string
	Key    string // by which a topic is divided
}

func eventOf(e kernel.Event) Event {
	return Event{
		ID: e.ID, Type: e.Type, RunID: e.Head.ID, WorkflowID: e.Head.WorkflowID, Workflow: e.Head.Workflow, Pattern: e.Head.Pattern,
		Step: e.Step, At: e.At, Data: e.Data, Tells: Tells(e.Tells), Status: e.Status, Topic: e.Topic, Key: e.Key,
	}
}

// Emit has an event recorded and handed from there to Options.Publisher, in order and at
// least once: in the body of a step with its result, before the next step begins, and
// not where the attempt fails; in workflow code in the commit of the turn.
func Emit[T any](ctx context.Context, kind string, v T) error {
	data, err := encode(v)
	if err != nil {
		return &Error{Code: journal.CodeEncode, Op: "emit " + kind, Message: "the event does not encode", Err: err}
	}
	return EmitEvent(ctx, Event{Type: kind, Data: data})
}

// EmitEvent is [Emit] for all that an emitter says of an event: Type, Data, Tells,
// Status, Topic, Key, and in workflow code Step.
func EmitEvent(ctx context.Context, e Event) error {
	if !journal.ValidName(e.Type) {
		return badName("event type", e.Type)
	}
	return kernel.Emit(ctx, journal.Detail{
		Event: e.Type, Tells: string(e.Tells), Outcome: e.Status, Topic: e.Topic, Routing: e.Key, Reason: e.Step,
	}, e.Data)
}

// A StepEvent tells of each success of a step.
type StepEvent struct {
	Topic string
	Type  string // of the event; empty is STEP_COMPLETED
	Key   string // the field of the result that is the event's key; without one, or where it is not there, the workflow ID
}

// emit emits it in the body of the step.
func (s *StepEvent) emit(ctx context.Context, result json.RawMessage) error {
	info, err := InfoOf(ctx)
	if err != nil {
		return err
	}
	e := Event{Type: or(s.Type, string(StepCompleted)), Data: result, Tells: StepCompleted, Status: info.Status, Topic: s.Topic, Key: info.WorkflowID}
	if s.Key != "" {
		e.Key = or(fieldOf(result, s.Key), e.Key)
	}
	return EmitEvent(ctx, e)
}

// fieldOf gives a field of an object as text; empty where there is none.
func fieldOf(object json.RawMessage, field string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(fields[field], &text) == nil {
		return text
	}
	return string(fields[field])
}

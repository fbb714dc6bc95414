package pattern

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A StepEvent describes the event that is emitted at each success of a step.
type StepEvent struct {
	Topic string
	Type  string // the type of the event; empty means STEP_COMPLETED
	// Key names the field of the result that is the event's key. If it is empty, or the result has
	// no such field, the key is the workflow ID.
	Key string
}

// emit emits the event in the body of the step.
func (s *StepEvent) emit(ctx context.Context, result json.RawMessage) error {
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	e := perdure.Event{
		Type: cmp.Or(s.Type, EventStepCompleted), Data: result, Kind: EventStepCompleted,
		Status: info.Status, Topic: s.Topic, Key: info.WorkflowID,
	}
	if s.Key != "" {
		e.Key = cmp.Or(fieldOf(result, s.Key), e.Key)
	}
	return EmitEvent(ctx, e)
}

// fieldOf returns a field of an object as text; empty if there is no such field.
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

// ExecutionEvents selects whether a definition of a declared pattern emits events of its
// executions: the start, each success and failure of a step, and the end. The zero value emits no
// events except those that steps declare themselves.
type ExecutionEvents struct {
	On    bool
	Topic string
}

// Begin emits the event of the start of an execution. It also plans the event of the end, which has
// the status of the run at the end. It is called before any other durable operation of the run, as
// [CleansUp] demands. Clean-ups that are planned after it run before the event of the end is
// emitted.
func (e ExecutionEvents) Begin(ctx context.Context) error {
	if !e.On {
		return nil
	}
	if err := perdure.Finally(ctx, "perdure:events", e.end); err != nil {
		return err
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	return e.emit(ctx, perdure.Event{Kind: EventExecutionStarted, Data: info.Payload})
}

// end emits the event of the end of the execution.
func (e ExecutionEvents) end(ctx context.Context) error {
	status, err := EndingAs(ctx)
	if err != nil {
		return err
	}
	return e.emit(ctx, perdure.Event{
		Kind: EventExecutionCompleted, Status: status, Data: whyData(EndingBy(ctx)),
	})
}

// Step returns the event of a step's success: its own event, or a STEP_COMPLETED event if the step
// has none and events are on. Nil means no event.
func (e ExecutionEvents) Step(own *StepEvent) *StepEvent {
	if own == nil && e.On {
		return &StepEvent{Topic: e.Topic}
	}
	return own
}

// StepFailed emits the event of a step that has failed for good. It is called in workflow code.
func (e ExecutionEvents) StepFailed(ctx context.Context, step string, err error) error {
	if !e.On {
		return nil
	}
	return e.emit(ctx, perdure.Event{Kind: EventStepFailed, Data: whyData(err), Step: step})
}

func (e ExecutionEvents) emit(ctx context.Context, event perdure.Event) error {
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	event.Type, event.Topic, event.Key = string(event.Kind), e.Topic, info.WorkflowID
	event.Status = cmp.Or(event.Status, info.Status)
	return EmitEvent(ctx, event)
}

// whyData returns the data of an event about an error; null for no error.
func whyData(err error) json.RawMessage {
	if err == nil {
		return json.RawMessage("null")
	}
	data, _ := json.Marshal(map[string]string{"error": err.Error()})
	return data
}

// EndingAs returns, in a clean-up, the status that the run will end with. See [EndingBy].
func EndingAs(ctx context.Context) (perdure.RunStatus, error) { return kernel.EndingAs(ctx) }

// The kinds of events that declared patterns emit.
const (
	EventExecutionStarted   = "EXECUTION_STARTED"
	EventExecutionCompleted = "EXECUTION_COMPLETED" // the end; Status has the result
	EventStepCompleted      = "STEP_COMPLETED"
	EventStepFailed         = "STEP_FAILED" // for good
)

// EmitEvent is [perdure.Emit] with every field of an event that its emitter sets: Type, Data, Kind,
// Status, Topic, Key, and in workflow code Step.
func EmitEvent(ctx context.Context, e perdure.Event) error {
	if !journal.ValidName(e.Type) {
		return failure.BadName("event type", e.Type)
	}
	return kernel.Emit(ctx, journal.Detail{
		EventDetail: journal.EventDetail{
			Event: e.Type, Execution: string(e.Kind), Topic: e.Topic, Routing: e.Key,
		},
		Outcome: e.Status,
		Reason:  e.Step,
	}, e.Data)
}

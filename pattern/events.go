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

// A StepEvent tells of each success of a step.
type StepEvent struct {
	Topic string
	Type  string // of the event; empty is STEP_COMPLETED
	// the field of the result that is the event's key; without one, or where it is not there, the
	// workflow ID
	Key string
}

// emit emits it in the body of the step.
func (s *StepEvent) emit(ctx context.Context, result json.RawMessage) error {
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	e := perdure.Event{
		Type: cmp.Or(s.Type, string(StepCompleted)), Data: result, Kind: StepCompleted,
		Status: info.Status, Topic: s.Topic, Key: info.WorkflowID,
	}
	if s.Key != "" {
		e.Key = cmp.Or(fieldOf(result, s.Key), e.Key)
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

// ExecutionEvents say whether a definition of a declared pattern tells the publisher of
// its executions: that one has started, each success and failure of a step, and that it
// has ended. The zero value tells nothing but what steps ask for themselves.
type ExecutionEvents struct {
	On    bool
	Topic string
}

// Begin tells that an execution has started, and has it told how it ends, with its
// status then. It is called before any other durable operation of the run, as [CleansUp]
// demands; clean-ups that are planned after it run before the end is told.
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
	return e.emit(ctx, perdure.Event{Kind: ExecutionStarted, Data: info.Payload})
}

// end tells that the execution ends.
func (e ExecutionEvents) end(ctx context.Context) error {
	status, err := EndingAs(ctx)
	if err != nil {
		return err
	}
	return e.emit(ctx, perdure.Event{
		Kind: ExecutionCompleted, Status: status, Data: whyData(EndingBy(ctx)),
	})
}

// Step gives the event that a step has on success: its own, or one that says so. Nil is
// none.
func (e ExecutionEvents) Step(own *StepEvent) *StepEvent {
	if own == nil && e.On {
		return &StepEvent{Topic: e.Topic}
	}
	return own
}

// StepFailed tells that a step has failed for good. It is called in workflow code.
func (e ExecutionEvents) StepFailed(ctx context.Context, step string, err error) error {
	if !e.On {
		return nil
	}
	return e.emit(ctx, perdure.Event{Kind: StepFailed, Data: whyData(err), Step: step})
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

// whyData is what an event says of an error; null of none.
func whyData(err error) json.RawMessage {
	if err == nil {
		return json.RawMessage("null")
	}
	data, _ := json.Marshal(map[string]string{"error": err.Error()})
	return data
}

// EndingAs gives, in a clean-up, the status that the run will end with. See [EndingBy].
func EndingAs(ctx context.Context) (perdure.RunStatus, error) { return kernel.EndingAs(ctx) }

// The kinds of events that declared patterns emit.
const (
	ExecutionStarted   = "EXECUTION_STARTED"
	ExecutionCompleted = "EXECUTION_COMPLETED" // it has ended, as Status says
	StepCompleted      = "STEP_COMPLETED"
	StepFailed         = "STEP_FAILED" // for good
)

// EmitEvent is [perdure.Emit] for all that an emitter says of an event: Type, Data, Tells,
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

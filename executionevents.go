package perdure

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/kernel"
)

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
	if err := Finally(ctx, "perdure:events", e.end); err != nil {
		return err
	}
	info, err := InfoOf(ctx)
	if err != nil {
		return err
	}
	return e.emit(ctx, Event{Tells: ExecutionStarted, Data: info.Payload})
}

// end tells that the execution ends.
func (e ExecutionEvents) end(ctx context.Context) error {
	status, err := EndingAs(ctx)
	if err != nil {
		return err
	}
	return e.emit(ctx, Event{Tells: ExecutionCompleted, Status: status, Data: whyData(EndingBy(ctx))})
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
	return e.emit(ctx, Event{Tells: StepFailed, Data: whyData(err), Step: step})
}

func (e ExecutionEvents) emit(ctx context.Context, event Event) error {
	info, err := InfoOf(ctx)
	if err != nil {
		return err
	}
	event.Type, event.Topic, event.Key = string(event.Tells), e.Topic, info.WorkflowID
	event.Status = or(event.Status, info.Status)
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
func EndingAs(ctx context.Context) (RunStatus, error) { return kernel.EndingAs(ctx) }

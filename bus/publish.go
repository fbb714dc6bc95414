package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
)

// Publisher returns a publisher for the options of an engine. It sends what runs emit to a broker,
// at least once, and the events of one run in order. An event goes to its own topic, and to that
// topic if it has none. A slow or dead broker holds up no run: the store keeps the events.
func Publisher(b Broker, topic string) func(context.Context, perdure.Event) error {
	return func(ctx context.Context, e perdure.Event) error {
		return Relay(func(ctx context.Context, out event.Event) error {
			return b.Publish(ctx, or(e.Topic, topic), []event.Event{out})
		})(ctx, e)
	}
}

// Relay returns a publisher for the options of an engine that passes what runs emit to a handler in
// the same process, as [Publisher] sends it to a broker: at least once, and the events of one run
// in order. The store of the engine is then the bus.
func Relay(handle func(context.Context, event.Event) error) func(context.Context,
	perdure.Event) error {
	return func(ctx context.Context, e perdure.Event) error {
		out, err := FromRun(e)
		if err != nil {
			return err
		}
		return handle(ctx, out)
	}
}

// The extensions of an event that a run has emitted. Those without a value are left out.
const (
	ExtWorkflow = "workflow"
	ExtRun      = "runid"
	ExtPattern  = "pattern"
	ExtStep     = "step"
	ExtStatus   = "status"
	ExtKind     = "kind"         // such as STEP_COMPLETED: see package pattern
	ExtKey      = "partitionkey" // see the extension "partitioning" of CloudEvents
)

// FromRun returns the CloudEvent of what a run has emitted: its subject is the workflow ID. What an
// orchestrator has emitted is one already.
func FromRun(e perdure.Event) (event.Event, error) {
	if e.Kind == event.Kind {
		var out event.Event
		if err := json.Unmarshal(e.Data, &out); err != nil {
			return out, fmt.Errorf("bus: event %s: %w", e.ID, err)
		}
		return out, nil
	}
	out := event.Event{
		ID: e.ID, Source: "/perdure/" + e.Workflow, Type: e.Type, Subject: e.WorkflowID, Time: e.At,
		Data: e.Data, Extensions: map[string]string{},
	}
	if !json.Valid(e.Data) {
		out.ContentType = "application/octet-stream"
	}
	status := ""
	if e.Status != 0 {
		status = e.Status.String()
	}
	for name, value := range map[string]string{
		ExtWorkflow: e.Workflow, ExtRun: e.RunID, ExtPattern: e.Pattern.String(), ExtStep: e.Step,
		ExtStatus: status, ExtKind: e.Kind, ExtKey: e.Key,
	} {
		if value != "" {
			out.Extensions[name] = value
		}
	}
	return out, nil
}

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
)

// An Outbound sends what runs emit to a broker. Its method Publish is a publisher for the options
// of an engine: at least once, and the events of one run in order. A slow or dead broker holds up
// no run: the store keeps the events. An event that the broker never will take becomes a dead
// letter, and the events of its run after it follow.
type Outbound struct {
	To    Sender
	Topic string // of events that have none of their own
	// DeadLetter keeps an event that the broker never will take. It returns nil when that is
	// durable.
	DeadLetter func(ctx context.Context, l Letter) error
}

// Publish sends an event.
func (o Outbound) Publish(ctx context.Context, e perdure.Event) error {
	out, err := FromRun(e)
	topic := or(e.Topic, o.Topic)
	if err == nil {
		err = o.To.Publish(ctx, topic, []event.Event{out})
	}
	if o.DeadLetter == nil || !never(err) {
		return err
	}
	return o.DeadLetter(ctx, Letter{
		Topic: topic, Group: e.Workflow, Event: out, Tries: 1, Err: err,
	})
}

// never reports whether a broker never will take an event, by its error.
func never(err error) bool { return Rejects(err) || errors.Is(err, ErrTooLarge) }

// Relay returns a publisher for the options of an engine that passes what runs emit to a handler in
// the same process, as an [Outbound] sends it to a broker: at least once, and the events of one run
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
		ExtStatus: status, ExtKind: e.Kind, ExtKey: e.Key, event.ExtTrace: e.Trace,
	} {
		if value != "" {
			out.Extensions[name] = printable(value)
		}
	}
	return out, nil
}

// printable returns a text as an attribute can have it: what cannot be in one is escaped, as Go
// does in quotes.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = strconv.QuoteToASCII(s)
	}
	return s
}

package bus

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// RunEnded is the type of the event that [Lifecycle] publishes. Its data is an [End].
const RunEnded = "perdure.run.ended"

// An End describes a run that has ended, without its input and output.
type End struct {
	RunID      string    `json:"run_id"`
	FirstRunID string    `json:"first_run_id"` // of the chain of runs that continue as new
	WorkflowID string    `json:"workflow_id"`
	Name       string    `json:"name"` // of the workflow
	Pattern    string    `json:"pattern"`
	Status     string    `json:"status"`
	Success    bool      `json:"success"`
	EndedAt    time.Time `json:"ended_at"`
	Error      string    `json:"error,omitempty"`
}

// Lifecycle returns a listener that publishes one event at the end of each logical run: none where
// a run continues as new. The store keeps it until the broker has accepted it, or has refused it
// for good. Add it to an engine with [perdure.Engine.Listen] before its Run, or to a workflow as an
// option. An engine with Options.NoLifecycle does not call it.
func Lifecycle(s Sender, topic string) perdure.Listener {
	call := func(ctx context.Context, e perdure.Ended) error {
		out := []event.Event{ended(e)}
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			err := guard.Call(func() error { return s.Publish(ctx, topic, out) })
			if err == nil || never(err) || ctx.Err() != nil {
				return err // the next engine publishes what was cut off
			}
			rest(ctx, pause)
		}
	}
	return perdure.Listener{Call: call, Lifecycle: true}
}

// maxError is how much of an error an [End] has, in bytes.
const maxError = 4096

// ended returns the event of an end. Its ID is always the same.
func ended(e perdure.Ended) event.Event {
	end := End{
		RunID: e.RunID, FirstRunID: e.FirstRunID, WorkflowID: e.WorkflowID, Name: e.Workflow,
		Pattern: e.Pattern.String(), Status: e.Status.String(), Success: e.Err == nil,
		EndedAt: e.Ended,
	}
	if e.Err != nil {
		end.Error = guard.Text(e.Err)
		end.Error = strings.ToValidUTF8(end.Error[:min(len(end.Error), maxError)], "")
	}
	data, _ := json.Marshal(end) //nolint:errchkjson // texts and a time
	return event.Event{
		ID: e.RunID + ".ended", Source: "/perdure/" + e.Workflow, Type: RunEnded,
		Subject: e.WorkflowID, Time: e.Ended, Data: data,
	}
}

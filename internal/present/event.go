package present

import (
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/observe"
)

// Event returns the form of a notice about a run.
func Event(n observe.Notice) api.Event {
	return api.Event{
		Kind: string(n.Kind), At: utc(n.At), RunID: n.Run, WorkflowID: n.WorkflowID,
		Workflow: n.Workflow, Pattern: n.Pattern, Status: n.Status, Step: n.Step, Phase: n.Phase,
		Signal: n.Signal, Timer: n.Timer, Other: n.Other, Attempt: n.Attempt,
		TookMS: millis(n.Took), Due: utc(n.Due), Error: n.Err, Reason: n.Reason,
	}
}

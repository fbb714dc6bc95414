package admin

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Held is the work that an engine has in memory. See [Client.Held].
type Held struct {
	// Draining is set while the engine stops: it begins no step, and waits for those in flight, at
	// the latest until Until. The attempts that are left then are made again by the next engine.
	Draining bool
	Since    time.Time // when it began to drain
	Until    time.Time
	Runs     int // in memory; those without a step in flight are handed over at once
	Steps    int // in flight
	Calls    int // of listeners and of the publisher, in flight
	// InFlight are the oldest of the steps, at most 100.
	InFlight []StepInFlight
}

// A StepInFlight is an attempt whose body is executed.
type StepInFlight struct {
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Step       string // its path
	Attempt    int
	Since      time.Time // when the attempt began
}

const maxInFlight = 100

// Held returns the work that the engine of this process has in memory, and whether the engine
// drains. It does not ask the store. On a client without an engine, the error has the code misuse.
func (a *Client) Held() (Held, error) {
	if a.client.Live == nil {
		return Held{}, &perdure.Error{
			Code: journal.CodeMisuse, Op: "held", Message: "there is no engine in this process",
			Hint: "call it on the engine; workers list shows the engines of the store",
		}
	}
	h := a.client.Live.Held()
	out := Held{
		Draining: !h.Draining.IsZero(), Since: h.Draining, Until: h.Until, Runs: h.Runs,
		Steps: len(h.Steps), Calls: h.Calls,
	}
	for _, s := range h.Steps[:min(len(h.Steps), maxInFlight)] {
		out.InFlight = append(out.InFlight, StepInFlight{
			RunID: s.Run.ID, WorkflowID: s.Run.WorkflowID, Workflow: s.Run.Workflow,
			Step: s.Step, Attempt: s.Attempt, Since: s.Since,
		})
	}
	return out, nil
}

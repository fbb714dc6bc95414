package admin

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
)

// AllWorkflows is the name that pauses all workflows.
const AllWorkflows = ""

// A Pause is a workflow that an operator has paused.
type Pause struct {
	Workflow string // AllWorkflows for all
	Note     Note
	At       time.Time
}

// PauseWorkflow makes the runs of a workflow begin no steps, on all engines: steps in flight end,
// and their results are recorded. [AllWorkflows] pauses all of them. Runs may be started and
// signalled meanwhile, and their timers pass: all that has an effect when the pause is over. Orders
// to cancel, terminate, suspend and resume runs are carried out at once, but for the steps of
// clean-ups and compensations. Otherwise the status of the runs stays.
//
// It is durable on return. Engines obey it within the time that they need to hear of a message. It
// does not matter whether an engine or the database has the workflow.
func (a *Client) PauseWorkflow(ctx context.Context, workflow string, by Note) error {
	op := "pause " + shown(workflow)
	if err := checkPause(op, workflow, by); err != nil {
		return err
	}
	return a.set(ctx, op, rules.PauseSetting, workflow, []byte("{}"), by)
}

// ResumeWorkflow ends a pause. It does nothing if there is none. A workflow that is paused by its
// name, while all are paused, goes on when both pauses are over.
func (a *Client) ResumeWorkflow(ctx context.Context, workflow string, by Note) error {
	op := "resume " + shown(workflow)
	if err := checkPause(op, workflow, by); err != nil {
		return err
	}
	return a.set(ctx, op, rules.PauseSetting, workflow, nil, by)
}

func checkPause(op, workflow string, by Note) error {
	if rules.IsOwn(workflow) {
		return failure.Invalid(op, "the workflows of the engine are not paused")
	}
	return checkSetting(op, workflow, by)
}

// Pauses returns the workflows that are paused, by name.
func (a *Client) Pauses(ctx context.Context) ([]Pause, error) {
	set, err := kernel.Settings(ctx, a.client.FrontEnd, rules.PauseSetting)
	var out []Pause
	for _, s := range set {
		out = append(out, Pause{s.Name, Note{s.By, s.Reason}, s.At})
	}
	return out, err
}

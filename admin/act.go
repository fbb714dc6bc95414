package admin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// An Order is an action on a run, with the reason. The journal records By and Reason.
//
// Retry, skip, fork and compensate start a new run under the same workflow ID, which goes on from a
// run that has ended: [journal.Continued] describes what it keeps. They are refused while another
// run of the workflow ID is open, and if one has had the workflow ID since.
//
//   - [journal.ActionRetry] does the rest of a FAILED, CANCELLED or TIMED_OUT run: see
//     [perdure.Client.Retry].
//   - [journal.ActionSkip] does the same, but the failed step is not done: its output is Output.
//     The step is not undone later.
//   - [journal.ActionFork] does a step of a run again, and what came after it. The run is
//     COMPLETED, FAILED, CANCELLED, TIMED_OUT, COMPENSATED or CANCELED. Steps that run again have
//     new idempotency keys.
//   - [journal.ActionCompensate] undoes the steps of a COMPLETED graph or saga, or of a code
//     workflow whose steps have an Undo (package effect). The new run ends as COMPENSATED. If a
//     compensation fails, it waits as COMPENSATION_FAILED for an operator.
//   - [journal.ActionTerminate] ends an open run as CANCELLED at once: it neither cleans up nor
//     undoes anything. Children that are cancelled when the run ends are cancelled as usual. If no
//     engine has its workflow, another one ends it, and the listeners of the workflow do not hear
//     of it. A run that carries out the decision of a TCC is not terminated.
//   - [journal.ActionCancel] is [perdure.Client.Cancel]. With Compensate, a graph undoes the steps
//     that are done before it ends, and so do its children that are cancelled with it. Sagas and
//     TCCs undo in any case.
//   - [journal.ActionSuspend] is [perdure.Client.Suspend].
//   - [journal.ActionResume] is [perdure.Client.Resume]. In a run that is COMPENSATION_FAILED, the
//     compensations that have failed are tried again, and those that are undone stay so.
type Order struct {
	Action journal.Action `json:"action"`
	// Step is the path of the step to fork from, or of the failed step to skip, as a description of
	// the run shows it. A skip without it skips the one step by which the run has failed.
	Step   string          `json:"step,omitempty"`
	Output json.RawMessage `json:"output,omitempty"` // of the skipped step; nil means null
	// Input is the input of the new run: of a retry, skip or fork. Nil means that of the old run.
	// Results that are kept do not change.
	Input json.RawMessage `json:"input,omitempty"`
	// Compensate is set for a cancel with compensation.
	Compensate bool   `json:"compensate,omitempty"`
	By         string `json:"by,omitempty"` // the operator, at most 255 bytes
	Reason     string `json:"reason,omitempty"`
}

// An Acted is the result of an order.
type Acted struct {
	RunID      string // the new run, or else the run itself
	WorkflowID string
	New        bool // a run was started; false if an equal order had started it before
	// NotUndone are the steps of a terminated run whose effects are there and could have been
	// undone. If another process ends the run, steps may come to it until then.
	NotUndone []string
}

// Validate returns a [perdure.Error] of code invalid if a field is not valid, or does not go with
// the action.
func (d Order) Validate() error {
	const op = "act"
	all := journal.Actions()
	known := make([]string, len(all))
	for i, a := range all {
		known[i] = string(a)
	}
	switch {
	case !slices.Contains(all, d.Action):
		return failure.Invalid(op, "action %s is not valid: allowed are %s",
			failure.Quoted(string(d.Action)), strings.Join(known, ", "))
	case d.Step == "" && d.Action == journal.ActionFork:
		return failure.Invalid(op, "a fork needs a step")
	case d.Step != "" && d.Action != journal.ActionFork && d.Action != journal.ActionSkip:
		return failure.Invalid(op, "a step does not go with %s", d.Action)
	case d.Output != nil && d.Action != journal.ActionSkip:
		return failure.Invalid(op, "an output does not go with %s", d.Action)
	case d.Input != nil && (!d.Action.GoesOn() || d.Action == journal.ActionCompensate):
		return failure.Invalid(op, "an input does not go with %s", d.Action)
	case d.Compensate && d.Action != journal.ActionCancel:
		return failure.Invalid(op, "a compensation does not go with %s", d.Action)
	case d.Output != nil && !json.Valid(d.Output):
		return failure.Invalid(op, "the output is not JSON")
	case d.Input != nil && !json.Valid(d.Input):
		return failure.Invalid(op, "the input is not JSON")
	case len(d.By) > journal.MaxName || !utf8.ValidString(d.By):
		return failure.Invalid(op, "the name of the operator is not valid: allowed are at most "+
			"255 bytes of UTF-8")
	case !utf8.ValidString(d.Step):
		return failure.Invalid(op, "the step is not UTF-8")
	}
	return nil
}

// Act does something with a run, by run ID or workflow ID. It returns when that is durable; if
// another process executes the run, when the request is durable.
//
// An order that starts a run may, by run ID, be repeated after an error whose outcome is not
// known: it returns the run that was started then. The error is a [perdure.Error] of code
// wrong_state if the run's status does not allow the action, if another action has started a run
// from it, or if it has nothing to undo; of code not_found for a step that the run has not come to;
// of code conflict while a run of the workflow ID is open.
func (a *Client) Act(ctx context.Context, id string, do Order) (Acted, error) {
	if err := a.client.Outside(ctx, string(do.Action)+" "+id); err != nil {
		return Acted{}, err
	}
	if err := do.Validate(); err != nil {
		return Acted{}, err
	}
	h, err := a.client.FrontEnd.Find(ctx, id)
	if err != nil {
		return Acted{}, err
	}
	out := Acted{RunID: string(h.ID), WorkflowID: h.WorkflowID}
	why := kernel.Why{By: do.By, Reason: failure.Clip(do.Reason)}
	switch do.Action {
	case journal.ActionTerminate:
		why.Mode = journal.ActionTerminate
		if err := a.client.Runs.Cancel(ctx, id, why); err != nil {
			return out, err
		}
		state, err := a.state(ctx, h)
		out.NotUndone = state.Undoable()
		if failure.IsDamaged(err) {
			err = nil
		}
		return out, err
	case journal.ActionCancel:
		if do.Compensate {
			why.Mode = journal.ActionCompensate
		}
		return out, a.client.Runs.Cancel(ctx, id, why)
	case journal.ActionSuspend:
		return out, a.client.Runs.Suspend(ctx, id, why)
	case journal.ActionResume:
		return out, a.resume(ctx, h, why)
	}
	q, err := a.request(h, do)
	if err != nil {
		return out, err
	}
	s, err := a.client.FrontEnd.GoOn(ctx, string(h.ID), q)
	if err != nil {
		return out, err
	}
	out.RunID, out.New = string(s.Head.ID), s.New
	return out, nil
}

// request returns the kernel's form of an action that starts a run.
func (a *Client) request(h journal.Head, do Order) (kernel.Request, error) {
	q := kernel.Request{
		Continuation: journal.Continuation{
			Action: do.Action, Step: do.Step, Output: do.Output, By: do.By,
			Reason: failure.Clip(do.Reason),
		},
		NewInput: do.Input != nil, Input: do.Input,
	}
	if do.Action == journal.ActionSkip && do.Output == nil {
		q.Output = []byte("null")
	}
	if def := a.client.Known(h.Workflow); def != nil && q.NewInput {
		return q, def.Decodes(q.Input)
	}
	return q, nil
}

// resume lets a run go on: one that is parked, or a rollback that has come to a stop.
func (a *Client) resume(ctx context.Context, h journal.Head, why kernel.Why) error {
	if h.Status != journal.CompensationFailed {
		return a.client.Runs.Resume(ctx, string(h.ID), why)
	}
	decisions, err := a.decisions(ctx, h)
	if err != nil {
		return err
	}
	for _, d := range decisions {
		err := a.client.FrontEnd.Decide(ctx, string(h.ID), d.Path, kernel.Decided{
			Choice: "retry", By: why.By, Reason: why.Reason,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Preview returns the effects that an order would have that starts a run. It changes nothing. It
// fails as [Client.Act] would, and for an equal order that was carried out before.
func (a *Client) Preview(ctx context.Context, id string, do Order) (journal.Preview, error) {
	if err := do.Validate(); err != nil {
		return journal.Preview{}, err
	}
	if !do.Action.GoesOn() {
		return journal.Preview{}, failure.Invalid("preview", "%s has no preview: allowed are "+
			"retry, skip, fork and compensate", do.Action)
	}
	h, err := a.client.FrontEnd.Find(ctx, id)
	if err != nil {
		return journal.Preview{}, err
	}
	q, err := a.request(h, do)
	if err != nil {
		return journal.Preview{}, err
	}
	return a.client.FrontEnd.Preview(ctx, string(h.ID), q)
}

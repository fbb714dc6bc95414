package schedule

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Declare is an option of a workflow: an engine that has the workflow also has a schedule of that
// name, which starts the workflow. A workflow may declare several. An engine with such a workflow
// executes schedules; [Workflow] need not be registered.
//
// When the engine starts, the schedule is set if there is none, or if the declaration is another
// one than the last. What somebody else has changed stays: a schedule whose spec was [Set]
// keeps that spec, whatever the code declares, until it is set to the spec of the declaration, or
// deleted. Whether it is paused stays in any case. A deleted schedule comes back with the next
// engine that starts. A schedule that no code declares any more goes on until it is deleted.
func Declare(name string, spec Spec) perdure.WorkflowOption { return declared{name, spec} }

type declared struct {
	name string
	spec Spec
}

func (d declared) ApplyToWorkflow(w *sealed.Workflow) error {
	op := "declare schedule " + d.name
	if err := checkName(op, d.name); err != nil {
		return err
	}
	if d.spec.Workflow != "" && d.spec.Workflow != w.Name {
		return invalid(op, "leave it out", "workflow %s is not valid: the schedule is one of %s",
			d.spec.Workflow, w.Name)
	}
	d.spec.Workflow = w.Name
	spec, err := d.spec.complete(op)
	if err != nil {
		return err
	}
	w.Needs = append(w.Needs, ownWorkflow)
	w.Begins = append(w.Begins, func(ctx context.Context, c *sealed.Client) error {
		return declare(ctx, c, op, d.name, spec)
	})
	return nil
}

// declare sets a schedule as code declares it, unless the schedule knows that declaration.
func declare(ctx context.Context, c *sealed.Client, op, name string, spec Spec) error {
	if _, err := ready(c, op, spec); err != nil {
		return err
	}
	s, err := get(ctx, c, op, name)
	switch {
	case err != nil && journal.CodeOf(err) != journal.CodeNotFound:
		return err
	case err == nil && s.state.isOpen && s.state.Declared != nil && s.Status != Deleted &&
		s.state.Declared.equal(spec):
		return nil
	}
	return post(ctx, c, op, name, change{Declare: &spec})
}

// equal reports whether two complete specs are the same.
func (s Spec) equal(t Spec) bool {
	a, _ := json.Marshal(s) // specs that were checked encode
	b, _ := json.Marshal(t)
	return bytes.Equal(a, b)
}

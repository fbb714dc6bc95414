package bus

import (
	"fmt"

	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// Changes is an option of a workflow: the names of its runs' changes of state as events, and
// whether the publisher gets them. The name of an event is the prefix, the name of the workflow or
// step with its first letter in upper case, and the outcome: Started, Completed, Failed, TimedOut,
// Cancelled or Retrying. ShipOrderCancelled and OrderFulfilmentFailed are such names.
//
// Observers of the engine always see the names (observe.Notice.Change). With Publish, the changes
// also go to the publisher, in the order of the journal, at least once, and durably from the commit
// of the change on: as events of the kind [ChangeKind] whose data names the workflow, the run, the
// step, the outcome, and the reason. A step whose start the journal does not record has no Started
// there.
type Changes observe.Changes

// ChangeKind is the kind of the events about changes of state.
const ChangeKind = observe.ChangeKind

// ApplyToWorkflow sets the names of the workflow's changes.
func (c Changes) ApplyToWorkflow(w *sealed.Workflow) error {
	names := []string{c.Prefix + "x", c.Name + "x"}
	for _, name := range c.Steps {
		names = append(names, name)
	}
	for _, name := range names {
		if !journal.ValidName(name) {
			return fmt.Errorf("bus: changes of %s: name %.100q is not valid: allowed are 1 to 255 "+
				"of A-Z a-z 0-9 . _ : -", w.Name, name)
		}
	}
	w.Changes = (*observe.Changes)(&c)
	return nil
}

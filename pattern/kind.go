// Package pattern has the parts that authors of patterns need: the walk over a graph, tasks and the
// way their arguments are filled, callbacks, conditions, events of executions, and the facts that a
// pattern records. Packages dag, saga and tcc are made of it.
package pattern

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Declared is an option of a workflow that is made of a declaration. The function returns the
// outline of the declaration, and all its defects. It is called once, the first time that the
// workflow is registered, checked, or started with a [Mode]. For a field that the function leaves
// empty, the field of a [perdure.About] beside it counts. The graph and the contract are checked in
// any case.
type Declared func() (definition.Outline, []definition.Issue)

func (d Declared) ApplyToWorkflow(w *sealed.Workflow) error {
	if d == nil {
		return failure.Invalid("define "+w.Name, "a declaration needs a function")
	}
	w.Declared = d
	return nil
}

// Accepts is an option of a workflow. The function gets the encoded input of a start or of a child.
// If it returns an error, the start is refused with that error. A program that does not know the
// workflow does not call it.
type Accepts func(input json.RawMessage) error

func (a Accepts) ApplyToWorkflow(w *sealed.Workflow) error {
	if a == nil {
		return failure.Invalid("define "+w.Name, "a check of the input needs a function")
	}
	w.Accepts = func(input []byte) error { return a(input) }
	return nil
}

// A Kind is the way a workflow is declared. It is an option of a workflow, and its runs have it.
// The default is Workflow. See [journal.Pattern].
type Kind journal.Pattern

// The kinds.
const (
	Workflow     = Kind(journal.PatternWorkflow)
	Saga         = Kind(journal.PatternSaga)
	TCC          = Kind(journal.PatternTCC)
	Machine      = Kind(journal.PatternMachine)
	Orchestrator = Kind(journal.PatternOrchestrator)
)

// String returns the pattern's name.
func (k Kind) String() string { return journal.Pattern(k).String() }

func (k Kind) ApplyToWorkflow(w *sealed.Workflow) error {
	switch k {
	case Workflow, Saga, TCC, Machine, Orchestrator:
		w.Pattern = journal.Pattern(k)
		if k == TCC {
			w.First = journal.Trying
		}
		return nil
	}
	return failure.Invalid("define "+w.Name, "there is no pattern %v", k)
}

// UsualTimeout is an option of a workflow: the overall timeout that its pattern has if the author
// sets none. Definition.Defaults of an engine replace it.
type UsualTimeout time.Duration

func (t UsualTimeout) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Timeout = time.Duration(t)
	return nil
}

// CheckName returns an error if s is not valid as a name, or would not be with the prefix that the
// pattern writes before it. Allowed are 1 to 255 of A-Z a-z 0-9 . _ : -, with the prefix. The error
// begins with kind, a noun for the name such as "signal".
func CheckName(kind, s, prefix string) error {
	if s != "" && journal.ValidName(prefix+s) {
		return nil
	}
	why := "the prefix " + failure.Quoted(prefix) + " is too long"
	if most := journal.MaxName - len(prefix); most > 0 {
		why = fmt.Sprintf("allowed are 1 to %d of A-Z a-z 0-9 . _ : -", most)
	}
	return fmt.Errorf("%s %s is not valid: %s", kind, failure.Quoted(s), why)
}

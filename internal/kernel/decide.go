package kernel

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
)

// askedFor returns the decision that a run waits for at a path, or under a name, and that has the
// choice.
func askedFor(
	op string, h journal.Head, entries []journal.Entry, name string, by Decided,
) (journal.Op, error) {
	refused := func(code journal.Code, message, hint string) (journal.Op, error) {
		return journal.Op{}, &journal.Error{Code: code, Op: op, Message: message, Hint: hint}
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	made := false // as the last decision of that name
	for i := range entries {
		e := &entries[i]
		if err := a.Apply(*e); err != nil {
			return journal.Op{}, &journal.Error{Code: journal.CodeCorrupt, Op: op, Err: err}
		}
		if d := e.Detail; e.Kind == journal.SignalConsumed && d != nil && len(d.Choices) == 1 &&
			(e.Op.Name == name || a.Path(e.Op) == name) {
			made = d.Choices[0] == by.Choice && bytes.Equal(e.Data, by.Data)
		}
	}
	waits := slices.DeleteFunc(a.Snapshot().Waits, func(w journal.Wait) bool {
		return w.Kind != journal.WaitDecision
	})
	meant := slices.DeleteFunc(slices.Clone(waits), func(w journal.Wait) bool {
		return w.Path != name
	})
	if len(meant) == 0 {
		meant = slices.DeleteFunc(slices.Clone(waits), func(w journal.Wait) bool {
			return w.Op.Name != name
		})
	}
	switch {
	case len(meant) == 0 && made:
		return journal.Op{}, errDecided
	case h.Status.IsTerminal():
		return journal.Op{}, wrongState(op, h, "it asks for no decision any more")
	case len(waits) == 0:
		return refused(
			journal.CodeNotFound, "the run asks for no decision now",
			"its description shows what it waits for",
		)
	case len(meant) == 0:
		return refused(
			journal.CodeNotFound, "the run asks for no such decision",
			"it asks for "+pathsOf(waits),
		)
	case len(meant) > 1:
		return refused(
			journal.CodeConflict, "the run asks for several decisions of this name",
			"say which: "+pathsOf(meant),
		)
	case len(meant[0].Choices) > 0 && !slices.Contains(meant[0].Choices, by.Choice):
		return refused(
			journal.CodeInvalid, "there is no choice "+quote(by.Choice),
			"the choices are "+strings.Join(meant[0].Choices, ", "),
		)
	}
	return meant[0].Op, nil
}

// errDecided means that this very decision was made already, with that choice and data. Its caller
// did not hear of it, and makes it again.
var errDecided = errors.New("it is decided so")

// pathsOf lists the paths of waits.
func pathsOf(waits []journal.Wait) string {
	var out []string
	for _, w := range waits {
		out = append(out, w.Path)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

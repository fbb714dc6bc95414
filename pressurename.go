package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A PressureName is the name of a registered [Pressure]. As an option of a start it holds
// for that run, of a graph, a saga or a composition of TCCs, instead of the definition's;
// as an option of a saga's Inline it holds for that part. A start with it is refused where
// no pressure has the name, and where the workflow does nothing under a pressure.
//
// The name is kept with the run and those that it continues as, and every engine that
// takes the run up looks it up. One that does not know it parks the run.
type PressureName string

func (n PressureName) start(o *startOptions) error {
	if n == "" {
		return invalid("start", "an empty name of a pressure")
	}
	o.note(headerPressure, string(n))
	return nil
}

func (PressureName) branch(*stepOptions) error {
	return &Error{
		Code: journal.CodeInvalid, Message: "what runs here does nothing under a pressure",
		Hint: "a PressureName is an option of a start, or of a saga's Inline",
	}
}

// underPressure reports whether a workflow does things under a pressure.
func (w *workflow) underPressure() bool {
	if w == nil || w.declared == nil {
		return false
	}
	about, _ := w.examined()
	return about.Pressured
}

// checkPressureName refuses a name that no pressure has, and a pressure that would change
// nothing. An empty name is none.
func checkPressureName(workflow string, def *workflow, name string) error {
	if name == "" {
		return nil
	}
	if def.underPressure() {
		_, err := NamedPressure(name)
		return err
	}
	e := &Error{
		Code: journal.CodeInvalid, Op: "start " + workflow, Message: "the workflow does nothing under a pressure",
		Hint: "graphs, sagas and compositions of TCCs do; start it without PressureName",
	}
	if def == nil {
		e.Message = "this program does not know the workflow, nor whether it does anything under a pressure"
		e.Hint = "start it where it is registered, or pass its definition to NewClient"
	}
	return e
}

// pressureOf returns the pressure of a walk: the one that the start of the run has named,
// or else the one of the definition. What is in a scope has its own.
func pressureOf(ctx context.Context, own Pressure) (Pressure, error) {
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return nil, err
	}
	if name := i.Headers[headerPressure]; name != "" && i.Scope == "" {
		p, err := NamedPressure(name)
		return p, Parking(err)
	}
	if own == nil {
		return AtMost(0), nil
	}
	return own, nil
}

package pattern

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
)

// A Mode is the way runs of a definition are started. A graph declares it. [ModeSync] and
// [ModeAsync] are options of a start too, which then asks for that mode: if the definition is known
// and has the other mode, the start is refused with a [perdure.Error] of code invalid. A definition
// without a mode, such as a code workflow, a saga or a TCC, is started in either mode. Children
// need no mode.
type Mode string

// The modes.
const (
	ModeSync  Mode = sealed.ModeSync  // the caller waits for the end
	ModeAsync Mode = sealed.ModeAsync // the caller does not wait
	ModeBoth  Mode = sealed.ModeBoth  // the caller chooses
)

func (m Mode) ApplyToStart(o *sealed.Start) error {
	if m != ModeSync && m != ModeAsync {
		return failure.Invalid("start", "a start asks for SYNC or ASYNC, not for %q", string(m))
	}
	o.Mode = string(m)
	return nil
}

// DryRun starts a run of a graph that walks through its declaration and does nothing: every step is
// skipped. With DryRun a start of any other workflow is refused, and so is a start by a
// [perdure.Client] that does not know the workflow.
var DryRun perdure.StartOption = dryRun{}

type dryRun struct{}

func (dryRun) ApplyToStart(o *sealed.Start) error {
	o.Note(sealed.HeaderDryRun, "true")
	return nil
}

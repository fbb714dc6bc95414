package pattern

import (
	"cmp"
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Backward is how a pattern undoes what it has done.
type Backward struct {
	Policy  string // the name of the policy
	OnError string // the name of the handler of compensations that fail
	Handles bool   // the definition has a handler of its own, and so OnError is empty
}

// BeginUndo records that a rollback begins, and how. A name that own does not have is the default
// of the engine: see definition.Defaults. On replay it returns the recorded names: so a rollback
// ends as it has begun, whatever the definition and the engine have by then.
func BeginUndo(ctx context.Context, own Backward) (Backward, error) {
	d := &journal.Detail{Reason: own.Policy, Policy: own.OnError}
	d, err := record(ctx, kernel.Note{
		Kind: journal.CompensationStarted, Name: "compensation", Detail: d,
		Complete: func(usual *kernel.Config) {
			d.Reason = cmp.Or(d.Reason, usual.UndoPolicy)
			if !own.Handles {
				d.Policy = cmp.Or(d.Policy, usual.OnUndoError)
			}
		},
	})
	if err != nil {
		return Backward{}, err
	}
	return Backward{Policy: d.Reason, OnError: d.Policy, Handles: own.Handles}, nil
}

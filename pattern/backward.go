package pattern

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Backward is how a pattern undoes what it has done.
type Backward struct {
	Policy  string // the name of the policy
	OnError string // the name of the handler of compensations that fail; empty for none
}

// UsualUndo returns how the engine of ctx undoes if a definition does not say: see
// definition.Defaults.
func UsualUndo(ctx context.Context) (Backward, error) {
	usual, err := kernel.UndoOf(ctx)
	return Backward(usual), err
}

// BeginUndo records that a rollback begins, and how. On replay it returns what is recorded: so a
// rollback ends as it has begun, whatever the definition and the engine say by then.
func BeginUndo(ctx context.Context, b Backward) (Backward, error) {
	d, err := record(ctx, kernel.Note{
		Kind: journal.CompensationStarted, Name: "compensation",
		Detail: &journal.Detail{Reason: b.Policy, Policy: b.OnError},
	})
	if err != nil {
		return Backward{}, err
	}
	return Backward{Policy: d.Reason, OnError: d.Policy}, nil
}

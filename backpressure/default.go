package backpressure

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Default is the policy that the engine has: perdure.Options.Backpressure, which is adaptive unless
// it is set. Its numbers are recorded when it begins, so that a run ends with those that it has
// begun with.
var Default Policy = byEngine{}

type byEngine struct{}

// Begin implements [Policy]. Outside a run it is an [Adaptive].
func (byEngine) Begin() Limiter { return Adaptive{}.Begin() }

// Begin begins a policy in workflow code. Authors of patterns call it instead of the policy's own
// method, which knows no engine.
func Begin(ctx context.Context, p Policy) (Limiter, error) {
	if p != Default {
		return p.Begin(), nil
	}
	var usual []byte
	out, err := kernel.TakeNote(ctx, kernel.Note{
		Kind: journal.ValueRecorded, Name: sealed.BackpressureValue, Detail: &journal.Detail{},
		Complete: func(c *kernel.Config) { usual = c.Backpressure },
		Produce:  func() ([]byte, *journal.Failure) { return usual, nil },
	})
	if err != nil {
		return nil, err
	}
	var c Config
	if err := json.Unmarshal(out.Data, &c); err != nil {
		return nil, failure.Mark(journal.ClassPark, 0, err)
	}
	if p, err = c.Policy(); err != nil {
		return nil, failure.Mark(journal.ClassPark, 0, err)
	}
	return p.Begin(), nil
}

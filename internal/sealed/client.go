package sealed

import (
	"context"
	"slices"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client is what an engine, or a client of its own, gives packages of this module.
type Client struct {
	FrontEnd *kernel.FrontEnd
	Runs     Runs
	Live     *kernel.Engine              // nil where no engine is here
	Known    func(name string) *Workflow // returns nil for one that it does not know
}

// Runs is what an engine does at once and a client of its own asks for.
type Runs interface {
	Start(ctx context.Context, s kernel.Start) (kernel.Started, error)
	Wait(ctx context.Context, s kernel.Started) (journal.Head, kernel.Outcome, error)
	Cancel(ctx context.Context, id, reason string) error
	Suspend(ctx context.Context, id, reason string) error
	Resume(ctx context.Context, id string) error
}

// Living reports whether an engine has the store.
func Living(info store.Info) bool {
	return slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return !e.Expired })
}

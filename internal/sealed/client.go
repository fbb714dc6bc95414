package sealed

import (
	"context"
	"slices"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client is the access of packages of this module to an engine, or to a client without an
// engine.
type Client struct {
	FrontEnd *kernel.FrontEnd
	Runs     Runs
	Live     *kernel.Engine              // nil if there is no engine in this process
	Known    func(name string) *Workflow // returns nil for an unknown workflow
}

// Runs has the operations that an engine does at once. A client without an engine asks for them.
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

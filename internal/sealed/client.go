package sealed

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Client is the access of packages of this module to an engine, or to a client without an
// engine.
type Client struct {
	FrontEnd *kernel.FrontEnd
	Runs     Runs
	Live     *kernel.Engine              // nil if there is no engine in this process
	Known    func(name string) *Workflow // returns nil for an unknown workflow
	Joined   bool                        // it writes in a transaction of the application
}

// Outside refuses an operation that is allowed neither with the context of workflow code nor in a
// transaction of the application.
func (c *Client) Outside(ctx context.Context, op string) error {
	if !c.Joined {
		return kernel.Outside(ctx, op)
	}
	return &journal.Error{
		Code: journal.CodeMisuse, Op: op, Message: "a transaction takes starts and signals only",
		Hint: "call it on the engine or client itself, outside the transaction",
	}
}

// Runs has the operations that an engine does at once. A client without an engine asks for them.
type Runs interface {
	Start(ctx context.Context, s kernel.Start) (kernel.Started, error)
	StartAll(ctx context.Context, n int, spec func(i int) (kernel.Start, error),
		done func(i int, s kernel.Started, err error))
	Wait(ctx context.Context, s kernel.Started) (journal.Head, kernel.Outcome, error)
	AwaitReply(ctx context.Context, message string, h journal.Head,
		look func() (journal.Head, bool, error)) error
	Cancel(ctx context.Context, id string, why kernel.Why) error
	Suspend(ctx context.Context, id string, why kernel.Why) error
	Resume(ctx context.Context, id string, why kernel.Why) error
}

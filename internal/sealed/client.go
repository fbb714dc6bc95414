package sealed

import (
	"context"
	"reflect"
	"time"

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
	Dedup    time.Duration               // of starts that ask for no other window
}

// ClientOf returns the client of a caller, which is an Engine or a Client of package perdure. It
// refuses a nil one.
func ClientOf(op string, caller any) (*Client, error) {
	v := reflect.ValueOf(caller)
	if of, is := caller.(interface{ Sealed() *Client }); is && !v.IsNil() {
		if c := of.Sealed(); c != nil {
			return c, nil
		}
	}
	return nil, &journal.Error{
		Code: journal.CodeInvalid, Op: op, Message: "a nil caller is not valid",
		Hint: "pass an Engine or a Client",
	}
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
	AwaitNews(ctx context.Context, about string, h journal.Head,
		look func() (journal.Head, bool, error)) error
	Cancel(ctx context.Context, id string, why kernel.Why) error
	Suspend(ctx context.Context, id string, why kernel.Why) error
	Resume(ctx context.Context, id string, why kernel.Why) error
}

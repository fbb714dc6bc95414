package perdure

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// An Info is what a workflow can learn of its run.
type Info struct {
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Status     journal.Status
	Payload    []byte   // the input, as encoded
	Steps      []string // names of the steps that the code has run so far, in order
}

// InfoOf gives what the run of ctx is, in workflow code and in the body of a
// step. On replay it tells workflow code the same.
func InfoOf(ctx context.Context) (Info, error) {
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return Info{}, err
	}
	return Info{
		RunID: i.Run, WorkflowID: i.WorkflowID, Workflow: i.Workflow, Status: i.Status,
		Payload: i.Input, Steps: i.Steps,
	}, nil
}

// Payload gives the payload of the run of ctx.
func Payload[T any](ctx context.Context) (T, error) {
	var zero T
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return zero, err
	}
	v, err := decode[T](i.Input)
	if err != nil {
		return zero, decodeError("payload", zero, err)
	}
	return v, nil
}

// Fail ends the run as FAILED with err, from inside. It gives the termination
// error that every durable operation of the run gives from then on; what the
// function returns no longer counts.
func Fail(ctx context.Context, err error) error {
	if err == nil {
		return invalid("fail", "an error is needed")
	}
	return kernel.Fail(ctx, toFailure(err))
}

// Cancel ends the run as CANCELLED with a reason, from inside. See [Fail] for
// what follows.
func Cancel(ctx context.Context, reason string) error { return kernel.CancelRun(ctx, clip(reason)) }

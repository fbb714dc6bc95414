package perdure

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// SetVariable sets a variable of the run of ctx, in workflow code or in the body of a step. In
// workflow code the value is set at once. A value that a body sets is recorded with the step's
// result, and is visible to others from then on. A failed attempt sets nothing. If several steps
// set a variable, the value that is recorded last wins. [Client.Describe] shows variables
// outside.
func SetVariable(ctx context.Context, name string, v any) error {
	if !journal.ValidName(name) {
		return failure.BadName("variable", name)
	}
	data, err := payload.Encode(v)
	if err != nil {
		return &Error{
			Code: journal.CodeEncode, Op: "set " + name,
			Message: fmt.Sprintf("a value of type %T does not encode", v), Err: err,
		}
	}
	return kernel.SetVariable(ctx, name, data)
}

// RemoveVariable removes a variable, as [SetVariable] sets one. The variable need not exist.
func RemoveVariable(ctx context.Context, name string) error {
	if !journal.ValidName(name) {
		return failure.BadName("variable", name)
	}
	return kernel.SetVariable(ctx, name, nil)
}

// Variable returns a variable of the run of ctx, or false if there is none. On replay, workflow
// code gets the same value. A body sees the values that it has set itself.
func Variable[T any](ctx context.Context, name string) (v T, found bool, err error) {
	data, found, err := kernel.Variable(ctx, name)
	if err != nil || !found {
		return v, false, err
	}
	// T is not known to SetVariable, which encoded the value
	if err = payload.Unmarshal(data, &v); err != nil {
		return v, false, payload.DecodeError("variable "+name, v, err)
	}
	return v, true, nil
}

package perdure

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// SetVariable sets a variable of the run of ctx, in workflow code or in the body of a
// step. Workflow code has it from then on. What a body sets is recorded with its
// result, and counts from then on for others: a failed attempt sets nothing, and of
// several writers the one that is recorded later wins. [Client.Describe] shows
// variables outside.
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

// RemoveVariable removes a variable, as [SetVariable] sets one. It need not be there.
func RemoveVariable(ctx context.Context, name string) error {
	if !journal.ValidName(name) {
		return failure.BadName("variable", name)
	}
	return kernel.SetVariable(ctx, name, nil)
}

// Variable gives a variable of the run of ctx, and false where there is none. On replay
// it gives workflow code the same; a body sees what it has set itself.
func Variable[T any](ctx context.Context, name string) (v T, found bool, err error) {
	data, found, err := kernel.Variable(ctx, name)
	if err != nil || !found {
		return v, false, err
	}
	// as SetVariable, which does not know T, has encoded it
	if err = payload.Unmarshal(data, &v); err != nil {
		return v, false, payload.DecodeError("variable "+name, v, err)
	}
	return v, true, nil
}

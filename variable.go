package perdure

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// SetVariable sets a variable of the run of ctx, in workflow code or in the body of a
// step. Workflow code has it from then on. What a body sets is recorded with its
// result, and counts from then on for others: a failed attempt sets nothing, and of
// several writers the one that is recorded later wins. [Client.Describe] shows
// variables outside.
func SetVariable(ctx context.Context, name string, v any) error {
	if !journal.ValidName(name) {
		return badName("variable", name)
	}
	data, err := encode(v)
	if err != nil {
		return &Error{Code: journal.CodeEncode, Op: "set " + name, Message: fmt.Sprintf("a value of type %T does not encode", v), Err: err}
	}
	return kernel.SetVariable(ctx, name, data)
}

// RemoveVariable removes a variable, as [SetVariable] sets one. It need not be there.
func RemoveVariable(ctx context.Context, name string) error {
	if !journal.ValidName(name) {
		return badName("variable", name)
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
	if err = unmarshal(data, &v); err != nil { // as SetVariable, which does not know T, has encoded it
		return v, false, decodeError("variable "+name, v, err)
	}
	return v, true, nil
}

// Variables returns variables of the run of ctx, as encoded: those of the names that are
// there, or all of them where no name is given. See [Variable].
func Variables(ctx context.Context, names ...string) (map[string]json.RawMessage, error) {
	found, err := kernel.Variables(ctx, names...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(found))
	for name, data := range found {
		out[name] = data
	}
	return out, nil
}

// AddKey remembers that the run of ctx has used an idempotency key, and says whether it
// was new. A body's keys are recorded with its result, as variables are; where bodies
// that run at one time add the same key, it is new to one of them.
func AddKey(ctx context.Context, key string) (isNew bool, err error) {
	if key == "" {
		return false, invalid("add key", "an empty idempotency key")
	}
	return kernel.AddKey(ctx, key)
}

// HasKey says whether the run of ctx has used an idempotency key.
func HasKey(ctx context.Context, key string) (bool, error) { return kernel.HasKey(ctx, key) }

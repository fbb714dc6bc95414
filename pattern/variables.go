package pattern

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
)

// WithVariables starts a child with copies of the variables that its parent has at that time.
// Neither run sees what the other one sets later.
func WithVariables() perdure.ChildOption { return withVariables{} }

type withVariables struct{}

func (withVariables) ApplyToChild(o *sealed.Child) error {
	o.Variables = true
	return nil
}

// Variables returns variables of the run of ctx, encoded: the variables of these names that exist,
// or all variables if no name is given. See [perdure.Variable].
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

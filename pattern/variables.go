package pattern

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/kernel"
)

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

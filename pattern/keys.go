package pattern

import (
	"context"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
)

// AddKey records that the run of ctx has used an idempotency key, and reports whether it was new.
// The keys of a body are recorded with its result, as variables are. If bodies that run at the same
// time add the same key, it is new to one of them.
func AddKey(ctx context.Context, key string) (isNew bool, err error) {
	if key == "" {
		return false, failure.Invalid("add key", "an empty idempotency key")
	}
	return kernel.AddKey(ctx, key)
}

// HasKey reports whether the run of ctx has used an idempotency key.
func HasKey(ctx context.Context, key string) (bool, error) { return kernel.HasKey(ctx, key) }

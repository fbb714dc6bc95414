package auth

import "context"

type identityKey struct{}

// NewContext returns a context of a request with its sender.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext returns the sender of a request that a server has let through. Of other contexts it
// returns the zero Identity, which may do nothing.
func FromContext(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

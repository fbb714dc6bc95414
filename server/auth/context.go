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

type unattendedKey struct{}

// Unattended returns a context of a request that does not show that somebody is there, such as one
// for live events, which a page sends and repeats by itself. It keeps no session alive.
func Unattended(ctx context.Context) context.Context {
	return context.WithValue(ctx, unattendedKey{}, true)
}

// IsUnattended reports whether a context is of such a request.
func IsUnattended(ctx context.Context) bool { return ctx.Value(unattendedKey{}) != nil }

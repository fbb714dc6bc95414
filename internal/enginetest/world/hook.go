package world

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A Hook is a store whose calls a test takes part in. The functions may be nil.
type Hook struct {
	store.Store
	// OnCommit and OnClaim are called in place of the store, and call do for it.
	OnCommit func(g *store.Group, do func() error) error
	OnClaim  func(c store.Claim, do func() (store.Claimed, error)) (store.Claimed, error)
	// OnFind is called after the store has answered.
	OnFind func(store.Filter)
	// OnLoad is called before the store. If it returns an error, the store is not called.
	OnLoad func(journal.Number, store.Range) error
	// OnSpill is called before the store.
	OnSpill func()
}

// Commit implements [store.Store].
func (h *Hook) Commit(ctx context.Context, g *store.Group) error {
	do := func() error { return h.Store.Commit(ctx, g) }
	if h.OnCommit != nil {
		return h.OnCommit(g, do)
	}
	return do()
}

// Claim implements [store.Store].
func (h *Hook) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	do := func() (store.Claimed, error) { return h.Store.Claim(ctx, c) }
	if h.OnClaim != nil {
		return h.OnClaim(c, do)
	}
	return do()
}

// Find implements [store.Store].
func (h *Hook) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	a, b, c := h.Store.Find(ctx, f)
	if h.OnFind != nil {
		h.OnFind(f)
	}
	return a, b, c
}

// Load implements [store.Store].
func (h *Hook) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	if h.OnLoad != nil {
		if err := h.OnLoad(n, r); err != nil {
			return nil, err
		}
	}
	return h.Store.Load(ctx, n, r)
}

// Spill implements [store.Store].
func (h *Hook) Spill(
	ctx context.Context, e journal.EngineID, id journal.Number, data []byte,
) error {
	if h.OnSpill != nil {
		h.OnSpill()
	}
	return h.Store.Spill(ctx, e, id, data)
}

// Hooked returns a world with an engine of those options, whose store is below h.
func Hooked(t testing.TB, h *Hook, opts perdure.Options, wfs ...perdure.Definition) *World {
	w := &World{T: t, DB: memory.New(), Workflows: wfs, Options: opts}
	w.Options.Build = "test"
	w.Wrap = func(s store.Store) store.Store { c := *h; c.Store = s; return &c }
	w.Begin()
	return w
}

package memory

import (
	"context"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var _ store.Joiner = (*Store)(nil)

// Join takes any transaction. There is none in memory: what is written with it is
// there at once, and stays where the transaction is rolled back. That is for tests of
// workflows which have their transactions elsewhere, or imitate them.
func (s *Store) Join(any) (store.Transaction, error) { return joined{s}, nil }

// A joined is a part in a transaction that does not concern the store.
type joined struct{ store *Store }

// Commit is [store.Transaction].Commit.
func (j joined) Commit(ctx context.Context, g *store.Group) error { return j.store.Commit(ctx, g) }

// ReserveID is [store.Transaction].ReserveID.
func (j joined) ReserveID(ctx context.Context) (journal.EngineID, error) {
	c, err := j.store.Claim(ctx, store.ReserveID{})
	return c.Engine, err
}

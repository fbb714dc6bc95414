package memory

import (
	"context"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var _ store.Joiner = (*Store)(nil)

// Join accepts any transaction. Memory has no transactions: a write takes effect at once and stays
// even if the transaction is rolled back. This is for tests of workflows whose transactions are in
// another database or are imitated.
func (s *Store) Join(any) (store.Transaction, error) { return joined{s}, nil }

// A joined is a part in a transaction that has no effect on the store.
type joined struct{ store *Store }

// Commit implements [store.Transaction].
func (j joined) Commit(ctx context.Context, g *store.Group) error { return j.store.Commit(ctx, g) }

// ReserveID implements [store.Transaction].
func (j joined) ReserveID(ctx context.Context) (journal.EngineID, error) {
	c, err := j.store.Claim(ctx, store.ReserveID{})
	return c.Engine, err
}

package memory

import (
	"context"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var _ store.Transactor = (*Store)(nil)

// In accepts any transaction. Memory has no transactions: a write takes effect at once and stays
// even if the transaction is rolled back. This is for tests of workflows whose transactions are in
// another database or are imitated.
func (s *Store) In(any) (store.Transaction, error) { return part{s}, nil }

// A part is this store's part in a transaction that has no effect on the store.
type part struct{ store *Store }

// Commit implements [store.Transaction].
func (p part) Commit(ctx context.Context, g *store.Group) error { return p.store.Commit(ctx, g) }

// ReserveID implements [store.Transaction].
func (p part) ReserveID(ctx context.Context) (journal.EngineID, error) {
	c, err := p.store.Claim(ctx, store.ReserveID{})
	return c.Engine, err
}

package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/perdure/perdure/store"
)

// A Tx is a transaction of a user's on the database of a store.
type Tx struct {
	Handle           any // for [store.Transactor].In
	Commit, Rollback func() error
}

// Within returns a store that writes each group into a transaction of a user's, so that the
// contract can be tested with such transactions. Groups that are sent again, and all other
// calls, go to the store below.
func Within(below store.Store, begin func(context.Context) (Tx, error)) store.Store {
	return &within{Store: below, begin: begin}
}

type within struct {
	store.Store
	begin  func(context.Context) (Tx, error)
	ending sync.RWMutex // held for writing by Close
}

// raceTries limits how often a user repeats a transaction.
const raceTries = 20

// Commit is [store.Store.Commit].
func (w *within) Commit(ctx context.Context, g *store.Group) error {
	if g.Again {
		return w.Store.Commit(ctx, g)
	}
	ctx = context.WithoutCancel(ctx)
	for tries := 1; ; tries++ {
		err := w.try(ctx, g)
		var data *store.DataError
		if err == nil || tries == raceTries || errors.As(err, &data) ||
			errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrClosed) {
			return err
		}
	}
}

func (w *within) try(ctx context.Context, g *store.Group) error {
	w.ending.RLock()
	defer w.ending.RUnlock()
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	part, err := store.AbilitiesOf(w.Store).Transactor.In(tx.Handle)
	if err == nil {
		err = part.Commit(ctx, g)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close is [store.Store.Close].
func (w *within) Close() error {
	w.ending.Lock()
	defer w.ending.Unlock()
	return w.Store.Close()
}

// Slots is [store.SlotReader.Slots].
func (w *within) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return store.AbilitiesOf(w.Store).SlotReader.Slots(ctx, q)
}

package store

import (
	"context"

	"github.com/perdure/perdure/journal"
)

// A Joiner is a store that can take part in a transaction of the user's, on a
// connection of the user's to the same database.
type Joiner interface {
	// Join gives a part in a transaction of one of the types that the driver knows,
	// and a TransactionError for any other. It asks nothing of the database.
	Join(tx any) (Transaction, error)
}

// A Transaction is a part in a transaction of the user's, who alone ends it. It is
// used by one goroutine at a time, and after an error of it the user's transaction
// can only be rolled back.
type Transaction interface {
	// Commit writes a group into the transaction as [Store.Commit] does into one of
	// its own, with the same verdicts and refusals. The group exists, and its verdicts
	// hold, if the user's transaction is committed. Group.Again is not set.
	//
	// For an engine, the fence holds from here to the end of the transaction. What
	// became of one whose end has an unknown outcome is known after a group without
	// changes, with Again set, was committed: then it is over, and what it wrote is
	// there or never will be.
	Commit(ctx context.Context, g *Group) error

	// ReserveID returns an engine ID as the claim [ReserveID] does, but within the
	// transaction: if that is rolled back, the ID may be returned again. So the runs that it
	// numbers get random numbers, and it is used in this transaction only.
	ReserveID(ctx context.Context) (journal.EngineID, error)
}

// A TransactionError says that a transaction is none that the store can take part
// in: its type, where it is, or what it has done before.
type TransactionError struct {
	Driver string // of the store
	Got    string // what was given
	Want   string // what the driver takes
}

// Error says what the driver takes.
func (e *TransactionError) Error() string {
	return "store: " + e.Driver + " takes part in " + e.Want + ", and this is " + e.Got
}

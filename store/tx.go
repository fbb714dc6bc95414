package store

import (
	"context"

	"github.com/perdure/perdure/journal"
)

// A Transactor is a store that can take part in a transaction of the application, on a connection
// of the application to the same database.
type Transactor interface {
	// In returns the store's part in a transaction of a type that the driver knows. For any other
	// type it returns a TransactionError. It does not call the database.
	In(tx any) (Transaction, error)
}

// A Transaction is a store's part in a transaction of the application. Only the application ends
// that transaction. One goroutine at a time uses a Transaction. After an error of one, the
// application's transaction can only be rolled back.
type Transaction interface {
	// Commit writes a group into the transaction as [Store.Commit] does into one of its own,
	// with the same verdicts and refusals. The group exists, and its verdicts hold, once the
	// application's transaction is committed. Group.Again is not set.
	//
	// For an engine, the fence holds from here to the end of the transaction. If the outcome of
	// that end is unknown, the engine commits a group without changes, with Again set. After that
	// the transaction is over: its writes are there, or never will be.
	Commit(ctx context.Context, g *Group) error

	// ReserveID returns an engine ID as the claim [ReserveID] does, but within the transaction: if
	// the transaction is rolled back, the ID may be returned again. So the ID is used in this
	// transaction only, and the runs that it numbers get random numbers.
	ReserveID(ctx context.Context) (journal.EngineID, error)
}

// A TransactionError is returned for a transaction that the store cannot take part in, because
// of its type, its database, or what it has done before.
type TransactionError struct {
	Driver string // name of the store's driver
	Got    string // what was given
	Want   string // what the driver takes
	// Stale reports that the transaction has read data that others have changed since. Another
	// transaction of the same handle may be accepted. If Stale is not set, none is.
	Stale bool
}

// Error names the accepted types and the type that was given.
func (e *TransactionError) Error() string {
	return "store: " + e.Driver + " takes part in " + e.Want + ", and this is " + e.Got
}

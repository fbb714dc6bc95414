package store

import (
	"context"

	"github.com/perdure/perdure/journal"
)

// A Transactor is a store that can take part in a transaction of the application, on a connection
// of the application to the same database.
type Transactor interface {
	// In returns a part in a transaction of one of the types that the driver knows, and a
	// TransactionError for any other. It does not call the database.
	In(tx any) (Transaction, error)
}

// A Transaction is a part in a transaction of the application, which alone ends it. It is used
// by one goroutine at a time. After an error of it, the application's transaction can only be
// rolled back.
type Transaction interface {
	// Commit writes a group into the transaction as [Store.Commit] does into one of its own,
	// with the same verdicts and refusals. The group exists, and its verdicts hold, once the
	// application's transaction is committed. Group.Again is not set.
	//
	// For an engine, the fence holds from here to the end of the transaction. If that end has
	// an unknown outcome, the engine commits a group without changes, with Again set: then the
	// transaction is over, and what it wrote is there or never will be.
	Commit(ctx context.Context, g *Group) error

	// ReserveID returns an engine ID as the claim [ReserveID] does, but within the
	// transaction: if that is rolled back, the ID may be returned again. So the runs that it
	// numbers get random numbers, and it is used in this transaction only.
	ReserveID(ctx context.Context) (journal.EngineID, error)
}

// A TransactionError is returned for a transaction that the store cannot take part in, because
// of its type, its database, or what it has done before.
type TransactionError struct {
	Driver string // name of the store's driver
	Got    string // what was given
	Want   string // what the driver takes
	// Stale reports that the transaction has read data that others have changed since. Another
	// transaction may be taken; otherwise none of the same handle is.
	Stale bool
}

// Error names what the driver takes and what it got.
func (e *TransactionError) Error() string {
	return "store: " + e.Driver + " takes part in " + e.Want + ", and this is " + e.Got
}

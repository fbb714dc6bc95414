// Package barrier is for steps that write to the application's own database: the
// participants of a TCC, the steps of a saga and what undoes them, and plain steps.
// In runs a function in a transaction and, in the same one, writes down that it ran
// and what it gave. So the function takes effect once, however often, in whichever
// order and by however many processes at a time the step is executed:
//
//	try := func(ctx context.Context) (Hold, error) {
//		return barrier.In(ctx, db, func(ctx context.Context, tx *sql.Tx) (Hold, error) {
//			return hold(ctx, tx, account, cents)
//		})
//	}
//
// What a step is told apart by is its run, its path and its phase, so nothing else is to be said.
// In a run that retries another one a step that was not undone is still the step of that: it finds
// what it did there. The database is PostgreSQL or SQLite by database/sql, with any driver that
// takes $1 for the first argument, and has the table that [Create] makes.
//
// # What happens
//
// Here a try is a step in perdure.PhaseTry, and so on; a step has no phase. What is
// said of a try and its cancel holds for a step and its undo.
//
//	try      first                     runs
//	         again                      gives the result of the first
//	         after an empty cancel      ErrCancelled: it must do nothing (hanging)
//	confirm  after the try              runs
//	         again                      gives the result of the first
//	         without a try              ErrNotTried
//	         after the cancel           ErrCancelled
//	cancel   after the try              runs
//	         again                      gives the result of the first
//	         without a try              nothing: the zero value, and no error (empty)
//	         after the confirm          runs; Confirmed says so
//
// "After" is by the order of the commits: what was rolled back has not happened. Of
// two at a time the second waits for the transaction of the first, and then sees what
// that came to. The two errors are permanent: no further attempt changes anything.
// A try that hangs is an error, not a success without an effect: whoever cancelled does
// not want its result, and nobody else must believe that something is held.
//
// A TCC of which one participant cannot be confirmed cancels all, also those whose
// confirm came through before. Their cancel has to take back what the confirm did, and
// not only what the try held: [Confirmed] tells it which.
//
// # What the application must see to
//
//   - All phases of a participant use the barrier of the same database, or none does.
//     A cancel whose try did not use it looks like an empty one, and does nothing.
//   - A body uses it once for a database. A second call looks like a second execution:
//     its function does not run.
//   - What has phases, or is undone, has a name or perdure.Key of its own in its scope, for
//     as long as runs are open. Two of one name look like one that is executed twice.
//   - Rows are kept for as long as something may still be executed. See [Clean].
package barrier

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/perdure/perdure/pattern"
)

// In runs fn in a transaction of its own on db and commits it, or does what the
// comment of the package says instead. It is called in the body of a step with its
// context, or one that was made of it. When it returns without an error, what fn wrote
// and that it ran are durable as far as the database makes commits durable.
//
// It gives what fn gave as it decodes, as [pattern.Decode] does, from the row; so the
// first result and a later one are the same. A value that cannot be encoded or decoded
// is an error.
//
// After an error, or a panic of fn, everything is rolled back. An error of the commit
// is the exception: then both are there, or neither, and the next attempt finds out
// which. Errors of fn and of the database are as they were, and retried as the step's
// policy says: also that another transaction was in the way (SQLSTATE 40001 and 40P01,
// SQLITE_BUSY). Those of this package are of type [perdure.Error]: [ErrCancelled]
// and [ErrNotTried] with code wrong_state, and misuse and invalid
// where ctx is of no step, or db or fn is nil.
func In[T any](ctx context.Context, db *sql.DB, fn func(context.Context, *sql.Tx) (T, error)) (T,
	error) {
	var zero T
	if db == nil {
		return zero, invalid("a database is needed")
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return zero, fmt.Errorf("barrier: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	v, err := Do(ctx, tx, fn)
	if err != nil {
		return zero, err
	}
	if err := tx.Commit(); err != nil {
		return zero, fmt.Errorf("barrier: commit: %w", err)
	}
	return v, nil
}

// Do is [In] in a transaction that the caller begins, and commits or rolls back: with
// options of his own, or that of a [perdure.StepTx]. It comes first in the transaction,
// so that what waits for another execution waits here, with nothing locked.
//
// After an error, and after a panic of fn, the caller rolls the transaction back. Where
// he commits it after fn failed, every later call for the step, and for what ends it,
// fails with code misuse.
//
// On PostgreSQL, at REPEATABLE READ and SERIALIZABLE, it fails with SQLSTATE 40001 where
// the other execution commits. On SQLite it waits for as long as the connection's
// busy_timeout says, and then fails with SQLITE_BUSY; in a transaction that has read
// before, perhaps at once.
func Do[T any](ctx context.Context, tx *sql.Tx, fn func(context.Context, *sql.Tx) (T, error)) (T,
	error) {
	var zero T
	if tx == nil || fn == nil {
		return zero, invalid("a transaction and a function are needed")
	}
	d, err := deliveryOf(ctx)
	if err != nil {
		return zero, err
	}
	p, err := d.enter(ctx, tx)
	switch {
	case err != nil || p.empty:
		return zero, err
	case !p.mine:
		return pattern.Decode[T](p.result)
	}
	if p.confirmed {
		ctx = context.WithValue(ctx, confirmedKey{}, true)
	}
	v, err := fn(ctx, tx)
	if err != nil {
		return zero, err
	}
	data, err := pattern.Encode(v)
	if err != nil {
		return zero, err
	}
	if err := d.record(ctx, tx, p.slot, data); err != nil {
		return zero, err
	}
	return pattern.Decode[T](data)
}

type confirmedKey struct{}

// Confirmed says, in the function of a cancel, whether what it cancels has been
// confirmed: then it takes back what try and confirm did, and otherwise what the try
// alone did. ctx is that of the function, or made of it; with any other it says false.
func Confirmed(ctx context.Context) bool {
	yes, _ := ctx.Value(confirmedKey{}).(bool)
	return yes
}

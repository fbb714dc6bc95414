// Package barrier is for steps that write to the application's own database: the participants of a
// TCC, the steps of a saga and their undo functions, and plain steps. [In] runs a function in a
// transaction and records in the same transaction that it ran, with its result. So the function
// takes effect once, however often, in whichever order and by however many processes at a time the
// step is executed:
//
//	try := func(ctx context.Context) (Hold, error) {
//		return barrier.In(ctx, db, func(ctx context.Context, tx *sql.Tx) (Hold, error) {
//			return hold(ctx, tx, account, cents)
//		})
//	}
//
// A step is identified by its run, its path and its phase, so the caller passes nothing else. In a
// retry of a run, a step that was not undone is still the step of the retried run: it finds its
// effect there. The database is PostgreSQL or SQLite by database/sql, with any driver that takes $1
// for the first argument. It has the table that [Create] makes.
//
// # What happens
//
// A try is a step in perdure.PhaseTry, and so on; a plain step has no phase. The rules for a try
// and its cancel hold for a step and its undo, too.
//
//	try      first                     runs
//	         again                      returns the result of the first
//	         after an empty cancel      ErrCancelled: it must do nothing (hanging)
//	confirm  after the try              runs
//	         again                      returns the result of the first
//	         without a try              ErrNotTried
//	         after the cancel           ErrCancelled
//	cancel   after the try              runs
//	         again                      returns the result of the first
//	         without a try              nothing: the zero value, and no error (empty)
//	         after the confirm          runs; Confirmed returns true
//
// "After" means the order of the commits: a transaction that was rolled back has not happened. If
// two come at the same time, the second waits for the transaction of the first, and then sees its
// result. The two errors are permanent: no further attempt changes anything. A hanging try is an
// error, not a success without an effect: the run that cancelled does not want its result, and
// nobody else must believe that something is held.
//
// If one participant of a TCC cannot be confirmed, the TCC cancels all participants, also those
// that were confirmed before. Their cancel has to take back what the confirm did, and not only what
// the try held: [Confirmed] reports which of these it is.
//
// # What the application must ensure
//
//   - All phases of a participant use the barrier of the same database, or none does.
//     A cancel whose try did not use it looks like an empty one, and does nothing.
//   - A body uses the barrier once for each database. A second call looks like a second
//     execution: its function does not run.
//   - A step that has phases, or is undone, has a name or perdure.Key of its own in its scope,
//     as long as runs are open. Two steps of one name look like one that is executed twice.
//   - Rows are kept as long as a step may still be executed. See [Clean].
package barrier

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/perdure/perdure/pattern"
)

// In runs fn in a transaction of its own on db and commits it, or does what the table in the
// comment of the package states instead. It is called in the body of a step with the context of
// that body or one derived from it. When In returns without an error, the writes of fn and the
// record that it ran are as durable as the database makes commits.
//
// The result is that of fn, encoded and decoded again as [pattern.Decode] does; so the first result
// and later ones are the same. A value that does not encode or decode is an error.
//
// After an error, or a panic of fn, everything is rolled back. An error of the commit is the
// exception: then either both are there or neither, and the next attempt finds out which. Errors of
// fn and of the database are returned unchanged, and the step's retry policy applies to them. That
// includes conflicts with another transaction (SQLSTATE 40001 and 40P01, SQLITE_BUSY). Errors of
// this package are of type [perdure.Error]: [ErrCancelled] and [ErrNotTried] with code wrong_state,
// and misuse and invalid if ctx is not that of a step, or db or fn is nil.
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

// Do is [In] in a transaction that the caller begins, and commits or rolls back: one with other
// options, or that of a [perdure.StepTx]. It must be the first call in the transaction, so that a
// wait for another execution happens there, with nothing locked.
//
// After an error, and after a panic of fn, the caller rolls the transaction back. If the caller
// commits it after fn failed, every later call for the step, and for its undo, confirm or cancel,
// fails with code misuse.
//
// On PostgreSQL, at REPEATABLE READ and SERIALIZABLE, Do fails with SQLSTATE 40001 if the other
// execution commits. On SQLite it waits for the busy_timeout of the connection, and then fails with
// SQLITE_BUSY; in a transaction that has read before, it may fail at once.
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

// Confirmed reports, in the function of a cancel, whether a confirm has taken effect before. If so,
// the function takes back what try and confirm did, and otherwise what the try alone did. The
// context must be that of the function, or derived from it; with any other, Confirmed returns
// false.
func Confirmed(ctx context.Context) bool {
	yes, _ := ctx.Value(confirmedKey{}).(bool)
	return yes
}

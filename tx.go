package perdure

import (
	"context"
	"errors"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// In returns a client whose starts and signals are written in a transaction of the
// application's own on the store's database: they are there exactly if that is committed, and
// what a call returns holds if it is. A run that it started is not there for others, nor for
// [Run.Result], before that. What else would be written is refused with an [Error] of code
// misuse; reads see what is committed.
//
// For PostgreSQL the transaction is a pgx.Tx or a *sql.Tx, for SQLite a *sql.Tx on the same
// file; any other gives an [Error] of code invalid that says which it must be. After another
// error it can only be rolled back.
//
// Engines take the run up soon after the commit: on PostgreSQL they are notified by it, on
// SQLite they look every 50 ms, and else at the next sweep. Until the transaction ends, others
// wait: on SQLite all that write, on PostgreSQL those that use the same workflow ID, or one that
// shares its lock. So this comes late in a transaction, and nothing slow after it. On PostgreSQL
// a start with an [ID], and a signal to a workflow ID, need isolation READ COMMITTED; a signal
// to a run ID does not.
func (c *Client) In(tx any) *Client { return &Client{sealed: c.sealed, tx: &transaction{tx}} }

// A transaction is one of the application's own.
type transaction struct{ handle any }

// desk returns what writes starts and signals: in the transaction of the client, if it has one.
func (c *Client) desk(ctx context.Context, op string) (*kernel.FrontEnd, error) {
	if c.tx == nil {
		return c.sealed.FrontEnd, nil
	}
	return c.sealed.FrontEnd.In(ctx, op, c.tx.handle)
}

// outside refuses what is not written in a transaction of the application's own.
func (c *Client) outside(op string) error {
	if c.tx == nil {
		return nil
	}
	return &Error{
		Code: journal.CodeMisuse, Op: op, Message: "a transaction takes starts and signals only",
		Hint: "call it on the engine or client itself, outside the transaction",
	}
}

// signal sends a signal.
func (c *Client) signal(ctx context.Context, sig kernel.Signal) (Delivery, error) {
	if err := kernel.Outside(ctx, "signal "+sig.Name+" to "+sig.ID); err != nil {
		return Delivery{}, err
	}
	desk, err := c.desk(ctx, "signal "+sig.Name+" to "+sig.ID)
	if err != nil {
		return Delivery{}, err
	}
	d, err := desk.Signal(ctx, sig)
	return Delivery(d), err
}

// Transactions begin and end transactions of type Tx on the database of a store:
// postgres.Transactions, postgres.SQLTransactions and sqlite.Transactions are some.
// A transaction that Commit gives an error for may be committed or not.
type Transactions[Tx any] interface {
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context, tx Tx) error
	Rollback(ctx context.Context, tx Tx) error
}

// StepTx runs fn as a step of the workflow, in a transaction on the store's database
// in which its result is recorded too: after a crash both what fn wrote and the result
// are there, or neither, and then fn is called again. So what fn does to the database
// happens exactly once; what else it does, at least once, as in [Step].
//
// A failed attempt is rolled back, and tried again as the policy says: also one whose
// transaction could not be committed, because it was not serializable, say. fn neither
// commits nor rolls back. It may start runs and send signals with [Client.In] its
// transaction.
//
// While fn runs, nothing else of its run becomes durable, so that no step of another
// branch begins; and on SQLite nothing of any run, since the transaction has the
// database's only lock for writing from its beginning. So fn should be short, and must
// wait for nothing that a run does. It calls no [Once], and starts and signals nothing
// but in its transaction: an engine that is called with its context refuses, with an
// [Error] of code misuse. What it emits and sets is recorded with its result.
//
// A retry of the run keeps what has committed, also after a failure. Where several steps
// have one name, give each a [Key]: without, a run with one that committed after a failure
// is not retried. A StepTx that undoes another one by hand is not known as undoing, and
// stays too.
func StepTx[Tx, T any](ctx context.Context, name string, db Transactions[Tx],
	fn func(context.Context, Tx) (T, error), opts ...StepOption) (T, error) {
	var zero T
	if fn == nil || db == nil {
		return zero, failure.Invalid("step "+name,
			"a step in a transaction needs a function and transactions")
	}
	spec, err := sealed.Step(name, opts)
	if err != nil {
		return zero, err
	}
	spec.Tx = true
	spec.Body = func(ctx context.Context) ([]byte, *journal.Failure) {
		tx, err := begin(ctx, db)
		if err != nil {
			return nil, failure.Of(err)
		}
		return payload.Call(ctx, "step", name, func(ctx context.Context) (T, error) {
			return fn(ctx, tx)
		})
	}
	out, err := kernel.Do(ctx, spec)
	return result[T]("step", name, out, err)
}

// begin begins the transaction of an attempt.
func begin[Tx any](ctx context.Context, db Transactions[Tx]) (tx Tx, err error) {
	s, err := kernel.StepOf(ctx, "transaction")
	if err != nil {
		return tx, err
	}
	if tx, err = db.Begin(ctx); err != nil {
		return tx, err
	}
	err = s.Join(kernel.Tx{
		Handle:   tx,
		Commit:   func(ctx context.Context) error { return db.Commit(ctx, tx) },
		Rollback: func(ctx context.Context) error { return db.Rollback(ctx, tx) },
	})
	if err != nil {
		err = Permanent(errors.Join(err, db.Rollback(context.WithoutCancel(ctx), tx)))
	}
	return tx, err
}

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

// In returns a client that writes starts and signals in a transaction of the application on the
// store's database. The starts and signals exist only if the transaction is committed, and only
// then are the results of the calls valid. Before the commit, a run that the client started is not
// visible to others, nor to [Run.Result]. Other writes are refused with an [Error] of code misuse.
// Reads see only committed data.
//
// For PostgreSQL the transaction is a pgx.Tx or a *sql.Tx, for SQLite a *sql.Tx on the same file.
// For any other type, the calls return an [Error] of code invalid that names the accepted types.
// After any other error the transaction can only be rolled back.
//
// Engines load the run soon after the commit: on PostgreSQL the commit notifies them, on SQLite
// they look every 50 ms, and otherwise at the next sweep. Until the transaction ends, other
// writers wait: on SQLite all writers, on PostgreSQL those that use the same workflow ID, or an
// ID that shares its lock. So call this late in a transaction, and do nothing slow after it. On
// PostgreSQL a start with an [ID], and a signal to a workflow ID, need isolation READ COMMITTED;
// a signal to a run ID does not.
func (c *Client) In(tx any) *Client {
	in := &Client{sealed: c.sealed, tx: &transaction{tx}, newID: c.newID}
	in.sealed.Joined = true
	return in
}

// A transaction is the argument of [Client.In].
type transaction struct{ handle any }

// frontEnd returns the front end that writes starts and signals, in the client's transaction if
// there is one.
func (c *Client) frontEnd(ctx context.Context, op string) (*kernel.FrontEnd, error) {
	if c.tx == nil {
		return c.sealed.FrontEnd, nil
	}
	return c.sealed.FrontEnd.In(ctx, op, c.tx.handle)
}

// outside refuses an operation that is allowed neither with the context of workflow code nor in a
// transaction of the application.
func (c *Client) outside(ctx context.Context, op string) error { return c.sealed.Outside(ctx, op) }

// signal sends a signal.
func (c *Client) signal(ctx context.Context, sig kernel.Signal) (Delivery, error) {
	if err := kernel.Outside(ctx, "signal "+sig.Name+" to "+sig.ID); err != nil {
		return Delivery{}, err
	}
	frontEnd, err := c.frontEnd(ctx, "signal "+sig.Name+" to "+sig.ID)
	if err != nil {
		return Delivery{}, err
	}
	d, err := frontEnd.Signal(ctx, sig)
	return Delivery(d), err
}

// Transactions begins and ends transactions of type Tx on the database of a store.
// Implementations are postgres.Transactions, postgres.SQLTransactions and sqlite.Transactions. If
// Commit returns an error, the transaction may be committed or not.
type Transactions[Tx any] interface {
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context, tx Tx) error
	Rollback(ctx context.Context, tx Tx) error
}

// StepTx runs fn as a step of the workflow, in a transaction on the store's database. The result
// is recorded in the same transaction. So after a crash, either both the writes of fn and the
// result exist, or neither, and then fn is called again. Writes of fn to the database happen
// exactly once; its other effects happen at least once, as in [Step].
//
// A failed attempt is rolled back and retried according to the policy. That includes an attempt
// whose transaction could not be committed, for example because it was not serializable. A
// transaction on another database than the store's is not retried. fn neither commits nor rolls
// back. It may start runs and send signals with [Client.In] and its transaction.
//
// While fn runs, nothing else of its run becomes durable, so no step of another branch begins. On
// SQLite nothing of any run becomes durable, since the transaction has the database's only write
// lock from its beginning. So fn should be short, and must not wait for anything that a run does.
// It must not call [Once]. It starts runs and sends signals only in its transaction: an engine that
// is called with fn's context refuses, with an [Error] of code misuse. Events that fn emits and
// variables that it sets are recorded with its result.
//
// A retry of the run keeps committed steps, also those after a failure. If several steps have one
// name, give each a [Key]: without it, a run in which one of them committed after a failure is not
// retried. A retry also keeps a StepTx that you wrote to undo another one.
func StepTx[Tx, T any](ctx context.Context, name string, db Transactions[Tx],
	fn func(context.Context, Tx) (T, error), opts ...StepOption) (T, error) {
	var zero T
	if fn == nil || db == nil {
		return zero, failure.Invalid("step "+name,
			"a step in a transaction needs a function and transactions")
	}
	spec, err := sealed.Step(name, opts)
	if err == nil {
		err = fits[T](spec)
	}
	if err != nil {
		return zero, err
	}
	if spec.AtMostOnce {
		return zero, &Error{
			Code: journal.CodeInvalid, Op: "step " + name,
			Message: "a step in a transaction cannot have effect.AtMostOnce",
			Hint:    "leave it out: what the step writes in its transaction happens exactly once",
		}
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
	return resultOf[T](spec, out, err)
}

// begin begins the transaction of an attempt.
func begin[Tx any](ctx context.Context, db Transactions[Tx]) (tx Tx, err error) {
	s, err := kernel.StepOf(ctx, "transaction")
	if err != nil {
		return tx, err
	}
	if tx, err = db.Begin(ctx); err != nil {
		if kernel.Elsewhere(err) {
			err = Permanent(err)
		}
		return tx, err
	}
	err = s.UseTx(kernel.Tx{
		Handle:   tx,
		Commit:   func(ctx context.Context) error { return db.Commit(ctx, tx) },
		Rollback: func(ctx context.Context) error { return db.Rollback(ctx, tx) },
	})
	if err != nil {
		err = Permanent(errors.Join(err, db.Rollback(context.WithoutCancel(ctx), tx)))
	}
	return tx, err
}

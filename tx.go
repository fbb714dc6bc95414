package perdure

import (
	"context"
	"errors"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// StartTx is [Workflow.Start] in a transaction. A run that it started is not there
// for others, nor for [Run.Result], before that is committed. See [Client.StartTx].
func (w *Workflow[I, O]) StartTx(ctx context.Context, c Caller, tx any, in I, opts ...StartOption) (*Run[O], error) {
	data, err := w.input(c, in)
	if err != nil {
		return nil, err
	}
	s, err := c.client().startTx(ctx, tx, w.def.Name, &w.def, data, opts)
	if err != nil {
		return nil, err
	}
	return &Run[O]{c.client(), s}, nil
}

// StartTx is [Client.Start] in a transaction of the application's own on the
// store's database: the run exists exactly if that is committed, and what is returned
// holds if it is. For PostgreSQL the transaction is a pgx.Tx or a *sql.Tx, for
// SQLite a *sql.Tx on the same file; any other gives an [Error] of code invalid that
// says which it must be. After another error it can only be rolled back.
//
// Engines take the run up soon after the commit: on PostgreSQL they are notified by
// it, on SQLite they look every 50 ms, and else at the next sweep. Until the
// transaction ends, others wait: on SQLite all that write, on PostgreSQL who uses the
// same workflow ID, or one that shares its lock. So this comes late in a transaction,
// and nothing slow after it. On PostgreSQL a start with an [ID] needs isolation READ
// COMMITTED.
func (c *Client) StartTx(ctx context.Context, tx any, workflow string, input []byte, opts ...StartOption) (*RawRun, error) {
	if !journal.ValidName(workflow) {
		return nil, badName("workflow", workflow)
	}
	s, err := c.startTx(ctx, tx, workflow, c.known(workflow), append([]byte{}, input...), unwaited(opts))
	if err != nil {
		return nil, err
	}
	return &RawRun{c, s}, nil
}

func (c *Client) startTx(ctx context.Context, tx any, workflow string, def *workflow, input []byte, opts []StartOption) (kernel.Started, error) {
	o, err := startOptionsOf(workflow, def, opts)
	if err != nil {
		return kernel.Started{}, err
	}
	desk, err := c.desk.In(ctx, "start "+workflow, tx)
	if err != nil {
		return kernel.Started{}, err
	}
	return desk.Begin(ctx, o.spec(workflow, def, input))
}

// SendTx is [Signal.Send] in a transaction: the message is there exactly if that is
// committed. See [Client.StartTx] for what the transaction is and who waits for it. On
// PostgreSQL a signal to a workflow ID needs isolation READ COMMITTED; one to a run
// ID does not.
func (s Signal[T]) SendTx(ctx context.Context, c Caller, tx any, id string, v T, opts ...SendOption) (Delivery, error) {
	sig, err := s.message(id, v, opts)
	if err != nil {
		return Delivery{}, err
	}
	return c.client().sendTx(ctx, tx, sig)
}

// SendTx is [Client.Send] in a transaction. See [Signal.SendTx].
func (c *Client) SendTx(ctx context.Context, tx any, id, name string, payload []byte, opts ...SendOption) (Delivery, error) {
	sig, err := rawSignal(id, name, payload, opts)
	if err != nil {
		return Delivery{}, err
	}
	return c.sendTx(ctx, tx, sig)
}

func (c *Client) sendTx(ctx context.Context, tx any, sig kernel.Signal) (Delivery, error) {
	desk, err := c.desk.In(ctx, "signal "+sig.Name+" to "+sig.ID, tx)
	if err != nil {
		return Delivery{}, err
	}
	d, err := desk.Signal(ctx, sig)
	return Delivery(d), err
}

// SendWithStartTx is [SendWithStart] in a transaction. See [Client.StartTx].
func SendWithStartTx[T, I, O any](ctx context.Context, c Caller, tx any, s Signal[T], v T, w *Workflow[I, O], in I, opts ...StartOption) (Delivery, error) {
	sig, spec, err := withStart(c, s, v, w, in, opts)
	if err != nil {
		return Delivery{}, err
	}
	desk, err := c.client().desk.In(ctx, "signal "+sig.Name+" with start of "+spec.ID, tx)
	if err != nil {
		return Delivery{}, err
	}
	d, err := desk.SignalWithStart(ctx, sig, spec)
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
// commits nor rolls back. It may use [Workflow.StartTx] and [Signal.SendTx] with its
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
func StepTx[Tx, T any](ctx context.Context, name string, db Transactions[Tx], fn func(context.Context, Tx) (T, error), opts ...StepOption) (T, error) {
	var zero T
	if fn == nil || db == nil {
		return zero, invalid("step "+name, "a step in a transaction needs a function and transactions")
	}
	spec, err := bareStep(name, opts)
	if err != nil {
		return zero, err
	}
	spec.Tx = true
	spec.Body = func(ctx context.Context) ([]byte, *journal.Failure) {
		tx, err := begin(ctx, db)
		if err != nil {
			return nil, toFailure(err)
		}
		return call(ctx, "step", name, func(ctx context.Context) (T, error) { return fn(ctx, tx) })
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

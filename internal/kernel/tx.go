package kernel

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// partIn returns the part of the store in a transaction of the user's.
func partIn(s store.Store, op string, tx any) (store.Transaction, error) {
	j := store.AbilitiesOf(s).Transactor
	if j == nil {
		return nil, &journal.Error{
			Code: journal.CodeInvalid, Op: op,
			Message: "this store takes part in no transaction: it is in memory, or at a server, " +
				"and the transaction is on a database",
			Hint: "open the database itself, PostgreSQL or SQLite, as the store of this client",
		}
	}
	part, err := j.In(tx)
	if err != nil {
		return nil, notTaken(op, err)
	}
	return part, nil
}

// In returns a front end whose messages and starts are part of a transaction of the user's: they
// exist, and its answers are valid, only if the transaction is committed. The front end reads
// outside of the transaction.
func (d *FrontEnd) In(ctx context.Context, op string, tx any) (*FrontEnd, error) {
	part, err := partIn(d.store, op, tx)
	if err != nil {
		return nil, err
	}
	db := d.database()
	if db == "" {
		info, err := d.Info(ctx)
		if err != nil {
			return nil, err
		}
		db = info.Database
	}
	in := &FrontEnd{
		store: d.store, build: d.build, keep: d.keep, maxPayload: d.maxPayload,
		spillOver: d.spillOver, trace: d.trace, clock: d.clock,
	}
	in.writers = &txWriter{FrontEnd: d, ctx: ctx, tx: part}
	in.db.Store(&db)
	return in, nil
}

// A txWriter is the writer of one call in a transaction.
type txWriter struct {
	*FrontEnd
	ctx      context.Context
	tx       store.Transaction
	reserved journal.EngineID // the ID of its numbers while the front end has none
	count    int64
}

// open implements writers.
func (w *txWriter) open(context.Context, string) (writer, error) { return w, nil }

// number implements writer. If the front end has no numbers, it asks for some beside the
// transaction, and takes the numbers of this call within the transaction, because that may have the
// database's only lock.
func (w *txWriter) number() (journal.Number, error) {
	if w.reserved == 0 {
		if n, err := w.numbers.have(); n != 0 || err != nil {
			return n, err
		}
		w.numbers.invite()
		var err error
		if w.reserved, err = w.tx.ReserveID(w.ctx); err != nil {
			return 0, notTaken("", err)
		}
		w.count = rand.Int64N(1 << 36) // an ID that was rolled back may be reserved again
	}
	w.count++
	return journal.MakeNumber(w.reserved, w.count)
}

// spill implements writer.
func (w *txWriter) spill(what string, data *[]byte) (journal.Number, *journal.Failure) {
	return w.bring(what, *data, w.number)
}

// submit implements writer.
func (w *txWriter) submit(ctx context.Context, op string, cs []store.Change) ([]store.Change,
	error) {
	g := &store.Group{Now: w.Now(), Changes: cs}
	if err := w.tx.Commit(ctx, g); err != nil {
		return nil, notTaken(op, err)
	}
	return g.Changes, nil
}

// notTaken returns the error for a change that a transaction of the user's does not take.
func notTaken(op string, err error) error {
	e := &journal.Error{
		Code: journal.CodeUnavailable, Op: op, Message: "the transaction does not take it",
		Err: err, Hint: "roll it back, and begin again",
	}
	var other *store.TransactionError
	switch {
	case refusal(err):
		e.Code, e.Message, e.Hint = journal.CodeInvalid, "the store refuses it", ""
	case errors.As(err, &other):
		e.Code, e.Message, e.Hint = journal.CodeInvalid, "not a transaction for this store", ""
	case errors.Is(err, store.ErrClosed):
		e.Code, e.Message, e.Hint = journal.CodeStopped, "the store is closed", ""
	}
	return e
}

// Elsewhere reports whether the error refuses every transaction of the same handle, because it is
// not on the database of the store.
func Elsewhere(err error) bool {
	var other *store.TransactionError
	return errors.As(err, &other) && !other.Stale
}

// bring assigns a number to a payload that is too large for its row. The payload goes with the row
// that names it: a payload that was there before could be swept.
func (d *FrontEnd) bring(
	what string, data []byte, number func() (journal.Number, error),
) (journal.Number, *journal.Failure) {
	if f := tooLarge(what, data, d.maxPayload); f != nil {
		return 0, f
	}
	if len(data) <= d.spillOver {
		return 0, nil
	}
	n, err := number()
	if err != nil {
		return 0, &journal.Failure{
			Code: journal.CodeUnavailable, Message: what + " could not be stored: " + err.Error(),
		}
	}
	return n, nil
}

// Begin makes a run for an engine to claim, or finds the run that its ID stands for.
func (d *FrontEnd) Begin(ctx context.Context, s Start) (out Started, err error) {
	op, s := "start "+s.Workflow, d.trace.start(ctx, s)
	err = d.write(ctx, op, func(o writer) error {
		c, err := d.start(o, op, s)
		if err != nil {
			return err
		}
		cs, err := o.submit(ctx, op, []store.Change{*c})
		if err != nil {
			return err
		}
		out, err = startedBy(&cs[0])
		return err
	})
	return out, err
}

// startedBy returns the result of a start by the verdict on its change.
func startedBy(c *store.Change) (Started, error) {
	switch c.Verdict {
	case store.Taken:
		return Started{}, taken("start "+c.Head.Workflow, c.Head.WorkflowID, c.Found)
	case store.Exists:
		return Started{Head: c.Found}, nil
	}
	return Started{Head: *c.Head, New: true}, nil
}

// A clientNumbers has the numbers of runs and payloads that are written without an engine.
type clientNumbers struct {
	store  store.Store
	asking lock.Lock // held by the goroutine that asks the store

	mu     sync.Mutex
	engine journal.EngineID // whose numbers they are; 0 before the first
	count  int64
}

func newClientNumbers(s store.Store) *clientNumbers {
	return &clientNumbers{store: s, asking: lock.New()}
}

// number returns a number that no run or payload has.
func (v *clientNumbers) number() (journal.Number, error) {
	if n, err := v.have(); n != 0 || err != nil {
		return n, err
	}
	v.asking.Lock()
	if err := v.ask(); err != nil {
		return 0, unavailable("", err)
	}
	return v.have()
}

// have returns a number without asking the store; 0 if there is none.
func (v *clientNumbers) have() (journal.Number, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.engine == 0 {
		return 0, nil
	}
	v.count++
	return journal.MakeNumber(v.engine, v.count)
}

// invite makes a goroutine ask the store for numbers, and does not wait for it.
func (v *clientNumbers) invite() {
	if v.asking.TryLock() {
		go func() { _ = v.ask() }() // the next caller that needs numbers asks again
	}
}

// ask asks the store for numbers, unless another goroutine has done so. Its caller holds asking.
func (v *clientNumbers) ask() error {
	defer v.asking.Unlock()
	v.mu.Lock()
	known := v.engine != 0
	v.mu.Unlock()
	if known {
		return nil
	}
	claimed, err := v.store.Claim(context.Background(), store.ReserveID{})
	if err == nil {
		v.mu.Lock()
		v.engine = claimed.Engine
		v.mu.Unlock()
	}
	return err
}

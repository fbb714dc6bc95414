package kernel

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// join gives the store's part in a transaction of the user's.
func join(s store.Store, op string, tx any) (store.Transaction, error) {
	j, ok := s.(store.Joiner)
	if !ok {
		return nil, &journal.Error{Code: journal.CodeInvalid, Op: op, Message: "this store takes part in no transaction"}
	}
	part, err := j.Join(tx)
	if err != nil {
		return nil, notTaken(op, err)
	}
	return part, nil
}

// In returns a front end whose messages and starts are part of a transaction of the user's:
// they exist, and what it says of them holds, if that is committed. It reads outside
// of it.
func (d *FrontEnd) In(ctx context.Context, op string, tx any) (*FrontEnd, error) {
	part, err := join(d.store, op, tx)
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
	in := &FrontEnd{store: d.store, build: d.build, keep: d.keep, maxPayload: d.maxPayload, spillOver: d.spillOver}
	in.writers = &joined{FrontEnd: d, ctx: ctx, tx: part}
	in.db.Store(&db)
	return in, nil
}

// A joined is the writer of one call in a transaction.
type joined struct {
	*FrontEnd
	ctx   context.Context
	tx    store.Transaction
	guest journal.EngineID // whose numbers it gives out where the front end has none yet
	count int64
}

// open implements writers.
func (j *joined) open(context.Context, string) (writer, error) { return j, nil }

// number implements writer. Where the front end has no numbers, it gets some beside the
// transaction, which may have the database's only lock, and this call takes some
// within it.
func (j *joined) number() (journal.Number, error) {
	if j.guest == 0 {
		if n, err := j.numbers.have(); n != 0 || err != nil {
			return n, err
		}
		j.numbers.invite()
		var err error
		if j.guest, err = j.tx.Visit(j.ctx); err != nil {
			return 0, notTaken("", err)
		}
		j.count = rand.Int64N(1 << 36) // a rolled back guest leaves its ID to another one
	}
	j.count++
	return journal.MakeNumber(j.guest, j.count)
}

// spill implements writer.
func (j *joined) spill(what string, data *[]byte) (journal.Number, *journal.Failure) {
	return j.bring(what, *data, j.number)
}

// submit implements writer.
func (j *joined) submit(ctx context.Context, op string, cs []store.Change) ([]store.Change, error) {
	g := &store.Group{Now: time.Now(), Changes: cs}
	if err := j.tx.Commit(ctx, g); err != nil {
		return nil, notTaken(op, err)
	}
	return g.Changes, nil
}

// notTaken says why a transaction of the user's does not take what is to be part of it.
func notTaken(op string, err error) error {
	e := &journal.Error{Code: journal.CodeUnavailable, Op: op, Message: "the transaction does not take it", Err: err, Hint: "roll it back, and begin again"}
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

// bring gives a number to a payload that is too large for its row. It goes with what
// names it: one that was there before could be swept.
func (d *FrontEnd) bring(what string, data []byte, number func() (journal.Number, error)) (journal.Number, *journal.Failure) {
	if f := tooLarge(what, data, d.maxPayload); f != nil {
		return 0, f
	}
	if len(data) <= d.spillOver {
		return 0, nil
	}
	n, err := number()
	if err != nil {
		return 0, &journal.Failure{Code: journal.CodeUnavailable, Message: what + " could not be stored: " + err.Error()}
	}
	return n, nil
}

// Begin makes a run that an engine takes up, or finds the one that its ID stands for.
func (d *FrontEnd) Begin(ctx context.Context, s Start) (out Started, err error) {
	op := "start " + s.Workflow
	err = d.write(ctx, op, func(o writer) error {
		c, err := d.start(o, op, s)
		if err != nil {
			return err
		}
		cs, err := o.submit(ctx, op, []store.Change{*c})
		if err != nil {
			return err
		}
		switch cs[0].Verdict {
		case store.Taken:
			return taken(op, s.ID, cs[0].Found)
		case store.Exists:
			out = Started{Head: cs[0].Found}
		default:
			out = Started{Head: *c.Head, New: true}
		}
		return nil
	})
	return out, err
}

// clientNumbers are for what is written without an engine.
type clientNumbers struct {
	store  store.Store
	asking lock.Lock // held by who asks the store

	mu     sync.Mutex
	engine journal.EngineID // whose numbers they are; 0 before the first
	count  int64
}

func newClientNumbers(s store.Store) *clientNumbers {
	return &clientNumbers{store: s, asking: lock.New()}
}

// number gives a number that nobody has.
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

// have gives a number without asking the store; 0 where there is none.
func (v *clientNumbers) have() (journal.Number, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.engine == 0 {
		return 0, nil
	}
	v.count++
	return journal.MakeNumber(v.engine, v.count)
}

// invite has the store asked for numbers, which nobody waits for.
func (v *clientNumbers) invite() {
	if v.asking.TryLock() {
		go func() { _ = v.ask() }() // the next one who needs some asks again
	}
}

// ask asks the store for numbers, unless somebody has. Who calls it holds asking.
func (v *clientNumbers) ask() error {
	defer v.asking.Unlock()
	v.mu.Lock()
	known := v.engine != 0
	v.mu.Unlock()
	if known {
		return nil
	}
	claimed, err := v.store.Claim(context.Background(), store.Claim{Visit: true, Now: time.Now()})
	if err == nil {
		v.mu.Lock()
		v.engine = claimed.Engine
		v.mu.Unlock()
	}
	return err
}

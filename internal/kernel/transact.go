package kernel

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A step may write in a transaction of the user's on the store's database, and its result may be
// recorded in the same transaction. After a crash, either both are there or neither is.
//
// While such a body runs, its attempt has the run's log: the pipeline takes nothing of the run.
// There are two reasons. The transaction may have a lock that the pipeline needs, which on SQLite
// is the only one. And in the journal the result must follow the entries that the run has appended
// before it. Other branches go on. Their entries become durable with the result, or when the body
// has failed. An attempt that is given up has the log no longer, and its context ends at once: the
// transaction is rolled back, so that nobody has to wait for a record.
//
// The entries of the body go with its transaction, and payloads of any size too: a payload that is
// made durable beside it may wait for the lock that the transaction has. Workflow code may wait for
// that lock, with the turn, while it makes a payload durable. The entries that its turn has
// appended by then are sealed, and go with the transaction.
//
// When the body returns, its result is appended and not yet a fact: it is tentative. Facts wait, so
// that they are delivered in the order of their entries. With all sealed entries the result goes
// into the transaction, which is committed. When the outcome of the commit is known, the result
// becomes a fact, or the failure of the attempt takes its place in the log. Nobody is notified
// before that. An operation whose result is tentative counts as settled, so that nothing else ends
// it.

// A Tx is a transaction of the user's that the body of a step works in.
type Tx struct {
	Handle           any // in the form that the store takes
	Commit, Rollback func(context.Context) error
}

// A userTx is a Tx with the store's part in it.
type userTx struct {
	Tx
	part store.Transaction
}

// commit commits the transaction. A panic of the user's is an error of unknown outcome.
func (t *userTx) commit(ctx context.Context) error {
	return guard.Call(func() error { return t.Commit(context.WithoutCancel(ctx)) })
}

// rollback rolls the transaction back. If that fails, the transaction is not committed either.
func (t *userTx) rollback(ctx context.Context) {
	_ = guard.Call(func() error { return t.Rollback(context.WithoutCancel(ctx)) })
}

// UseTx makes the transaction that of the attempt, which ends it. The body calls UseTx once, before
// its work. It fails if the store cannot take part; then the transaction stays the caller's.
func (s StepInfo) UseTx(tx Tx) error {
	part, err := partIn(s.a.op.run.k.store, "step "+s.a.op.path(), tx.Handle)
	if err == nil {
		s.a.tx = &userTx{tx, part}
	}
	return err
}

// transact makes an attempt in a transaction, and repeats it if it came to nothing because the
// store did not answer.
func (o *operation) transact(a *attempt) {
	defer a.giveBack()
	a.tellBegun()
	for a.reserve() {
		if !o.tryTx(a) {
			return
		}
	}
	a.returned(nil, &journal.Failure{
		Code:    journal.CodeCancelled,
		Message: "step " + o.path() + " was given up before its transaction began",
	})
}

// tryTx calls the body and ends its transaction. It reports whether to try again. A panic, or
// runtime.Goexit, in the body is a failed attempt.
func (o *operation) tryTx(a *attempt) (again bool) {
	o.run.mu.Lock()
	a.events, a.writes = nil, nil
	o.run.mu.Unlock()
	o.body(a, func(data []byte, failure *journal.Failure) { again = a.endTx(data, failure) })
	return again
}

// endTx commits or rolls back, and settles the attempt by the result.
func (a *attempt) endTx(data []byte, failure *journal.Failure) (again bool) {
	tx := a.tx
	a.tx = nil
	if context.Cause(a.ctx) == errStepTimedOut {
		failure = a.timeoutFailure()
	}
	if tx == nil {
		if failure == nil {
			failure = &journal.Failure{
				Code:    journal.CodeMisuse,
				Message: "step " + a.op.path() + " has returned without a transaction",
			}
		}
		return a.failed(failure, failure.ClassOf() == nil)
	}
	if failure == nil {
		var done bool
		if failure, again, done = a.commitTx(tx, data); done || again {
			return again
		}
		return a.failed(failure, false)
	}
	tx.rollback(a.ctx)
	return a.failed(failure, false)
}

// failed records that the attempt has failed. If doubtful is set and the store has not answered at
// once, which may be the reason, it records nothing and returns true: the attempt is made again.
func (a *attempt) failed(failure *journal.Failure, doubtful bool) (again bool) {
	if doubtful && failure != nil {
		if tries, err := a.op.run.k.settleTx(); err == nil && tries > 1 {
			return true
		}
	}
	a.returned(nil, failure)
	return false
}

// commitTx records the result in the transaction, and commits the transaction. If it returns done,
// the attempt is settled. Otherwise the attempt has failed, or is to be made again, and the entries
// that were appended for it are dropped.
func (a *attempt) commitTx(tx *userTx, data []byte) (failure *journal.Failure, again, done bool) {
	o := a.op
	r := o.run
	k := r.k
	spill, failure := a.spillOver("the result of step "+o.path(), data)
	if failure != nil {
		tx.rollback(a.ctx)
		return failure, false, false
	}
	w := a.propose(data, spill)
	if w == nil {
		tx.rollback(a.ctx)
		return nil, false, false
	}
	var err error
	if !k.holds() {
		err = store.ErrFenced
	} else {
		err = tx.part.Commit(a.ctx, &store.Group{
			Engine: k.engine, Now: k.Now(), Changes: w.changes,
		})
	}
	sent := err == nil
	if sent {
		err = tx.commit(a.ctx)
	}
	if err == nil {
		a.accept(w)
		return nil, false, true
	}
	tx.rollback(a.ctx) // that changes nothing if the transaction has ended
	tries, happened, lost := k.resolve(r.number(), w.seq, sent, err)
	switch {
	case lost != nil: // the next engine finds out
		r.mu.Lock()
		r.leave()
		r.mu.Unlock()
		a.returned(nil, nil)
		return nil, false, true
	case happened:
		a.accept(w)
		return nil, false, true
	}
	if context.Cause(a.ctx) == errStepTimedOut {
		failure = a.timeoutFailure()
	} else {
		failure = k.cfg.Failure(err)
		if Elsewhere(err) {
			failure.Class = journal.ClassPermanent
		}
	}
	again = tries > 1
	if done = a.withdraw(w, failure, again, o.next(a.n, failure)); done {
		again = false
	} else if o.ctx.Err() != nil { // nobody heard that it had ended while the result was tentative
		o.contextEnded(o.ctx)
	}
	return failure, again, done
}

// propose appends the result, and takes the sealed entries once the result is sealed. It returns
// nil if the attempt was given up.
func (a *attempt) propose(data []byte, spill journal.Number) *proposal {
	o := a.op
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.attempt != a || r.gone() {
		return nil
	}
	a.closeLog()
	w := &proposal{first: r.last() + 1, data: data}
	o.emit(a)
	e := journal.Entry{
		Kind: journal.StepCompleted, Op: o.id, Data: data, Spill: spill, Took: time.Since(a.began),
	}
	d := &journal.Detail{StepDetail: journal.StepDetail{Tx: true}}
	if a.n > 1 {
		d.Attempt = a.n
	}
	e.Detail = o.mark(d)
	if r.follows() { // before the result, which has to be the last entry
		r.outside(changeOf(r, &e, observe.Completed))
	}
	r.alone(e)
	o.outcome.At = r.lastTime()
	o.settled = true
	if free := r.tentatively(w); free || r.holder() == nil {
		r.seal()
	}
	// workflow code has the turn, and has appended an entry
	for !r.isSealed(w.seq) && !r.hasLeft() {
		if r.mayBreak() { // it may wait for this transaction
			r.seal()
			break
		}
		r.k.lends.contend(r)
		if !a.await(r.done) {
			break
		}
	}
	if !r.propose(w, &e) {
		r.leave() // the turn was dropped with the result
		return nil
	}
	return w
}

// accept makes the result a fact: it is durable.
func (a *attempt) accept(w *proposal) {
	o := a.op
	r := o.run
	r.mu.Lock()
	o.outcome.Data = w.data
	o.close()
	r.mu.Unlock()
	r.committed(w.changes, false) // sent once, and before any entry that was appended after it
	r.mu.Lock()
	r.certain()
	if !r.gone() {
		r.push(w.seq, o)
		r.dispatch()
	}
	r.mu.Unlock()
	a.landed()
}

// landed counts an attempt that is over, given up or not.
func (a *attempt) landed() {
	a.op.run.k.returned(a)
	a.cancel(errStepReturned)
}

// withdraw withdraws a proposal. If an entry was appended after the result, the failure takes the
// place of the result, and withdraw returns true because the failure is settled. Otherwise nothing
// is left of the result.
func (a *attempt) withdraw(
	w *proposal, failure *journal.Failure, again bool, next upshot,
) (done bool) {
	o := a.op
	r := o.run
	r.mu.Lock()
	defer func() {
		r.mu.Unlock()
		if done {
			a.landed()
		}
	}()
	o.settled, a.won, o.writes = false, false, nil
	if r.withdraw(w) {
		r.dispatch()
		return false
	}
	switch over := r.gone() || o.scope.cancelled() != nil || o.ctx.Err() != nil; {
	case !over && again, r.hasLeft() && r.ended() == nil:
		// the attempt is made again, here or after the next claim
		r.replace(w.seq, journal.Entry{Kind: journal.StatusChanged})
		r.dispatch()
		return false
	case !over:
		r.putAt(w.seq) // for the entry about the failure
		o.failed(a, failure, next)
	case r.gone(): // the end of the run counts the operation as settled
		r.replace(w.seq, journal.Entry{
			Kind: journal.StepFailed, Op: o.id, Took: time.Since(a.began),
			Detail: o.mark(&journal.Detail{Attempt: a.n, Failure: failure}),
		})
		o.close()
		o.settled = true
	default:
		r.putAt(w.seq)
		o.settle(journal.Entry{
			Kind: journal.StepFailed, Took: time.Since(a.began),
			Detail: &journal.Detail{Attempt: a.n, Failure: failure},
		})
	}
	return true
}

// reserve makes the run's log go with the attempt's transaction, until giveBack. It waits until the
// pipeline has nothing of the log and no other attempt has it. It returns false if the attempt is
// given up before.
func (a *attempt) reserve() bool {
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	for a.op.attempt == a && !r.gone() {
		if r.reserve(a) {
			return true
		}
		if !a.await(a.ctx.Done()) {
			break
		}
	}
	return false
}

// giveBack ends the reservation that reserve has begun.
func (a *attempt) giveBack() {
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.giveBack(a) {
		r.enlist()
	}
}

// await waits without the run's lock until the log has changed. It returns false when over is
// closed, or the engine is dead.
func (a *attempt) await(over <-chan struct{}) bool {
	r := a.op.run
	stirred := r.changes()
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-stirred:
		return true
	case <-over:
	case <-r.k.dead:
	}
	return false
}

package kernel

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// If several engines have one store, each has a lease that it must renew. An engine that does not
// renew it is dead to the others, and they take its runs over. The store's fence makes sure that an
// engine which was taken over writes nothing any more. The engine itself has to stop what it
// executes, and early enough: by its own clock, counted from when it asked for the lease, its lease
// is over a little before it is over for the others.
//
// A timer checks that, and so do every group and step before they begin: a process that was stopped
// for a while finds the timer late.

// A lease is the right of a kernel to write.
type lease struct {
	born   time.Time     // the time that until counts from
	period time.Duration // 0 if the store has no leases
	until  atomic.Int64
	over   *time.Timer // calls when the lease has passed

	mu     sync.Mutex    // held while the length of the lease is recorded
	owns   time.Time     // when a claim was answered that may have made the lease short
	idle   atomic.Bool   // the lease is long
	renews lock.Lock     // held by the goroutine that renews the lease
	nudge  chan struct{} // has a value when the lease is to be renewed now
}

// margin is the part of a lease that its engine leaves unused.
const margin = 10

// lapsed is the time between the end of another engine's lease and this engine's look at it.
const lapsed = 5 * time.Millisecond

// errLost means that the engine has lost its lease. The next kernel of the engine gets the request,
// unless it turns out to be done.
var errLost = errors.New("kernel: the lease is lost")

// extend records the lease that was asked for at the time sent. If a claim was answered since, the
// claim may have come to the store after the request, and have made the lease short.
func (l *lease) extend(sent time.Time, c *store.Claimed, over func()) {
	if c.Lease <= 0 {
		return
	}
	length := c.Lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.period > 0 && !l.owns.Before(sent) {
		length = min(length, l.period)
	}
	end := sent.Add(length - length/margin)
	l.until.Store(int64(end.Sub(l.born)))
	if l.over == nil {
		l.period, l.nudge = c.Lease, make(chan struct{}, 1)
		l.over = time.AfterFunc(time.Until(end), over)
		return
	}
	l.idle.Store(length > l.period)
	l.over.Reset(time.Until(end))
}

// An engine that owns no run has a long lease and renews it seldom, because the others would have
// nothing to take over. With its first run it has a short lease again: a claim ends the long lease
// in the store, and a start asks for a short one before it makes the run.

// isIdle reports whether a long lease is enough: no run is here, and no run is due before the next
// sweep of other engines, which may not know of the run yet.
func (k *Kernel) isIdle() bool {
	known := k.cfg.Sweep
	if known <= 0 {
		known = store.IdleLeases * k.lease.period
	}
	return k.activity.isIdle(k.Now().Add(known))
}

// shortened records that a claim asked for at the time sent has made the engine an owner, and has
// the lease renewed.
func (l *lease) shortened(sent time.Time, c *store.Claimed) {
	if c.Lease <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owns = time.Now()
	if !l.idle.CompareAndSwap(true, false) {
		return
	}
	end := sent.Add(c.Lease - c.Lease/margin)
	l.until.Store(min(l.until.Load(), int64(end.Sub(l.born))))
	l.over.Reset(time.Until(end))
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// awake gets the engine a short lease before it makes a run. If the store does not answer, the run
// has to wait for the store as well.
func (k *Kernel) awake(ctx context.Context) {
	l := &k.lease
	if !l.idle.Load() || !l.renews.LockOr(ctx.Done(), k.dead) {
		return
	}
	var c store.Claimed
	if l.idle.Load() {
		c, _ = k.renew(ctx, l.period/3, false)
		select {
		case l.nudge <- struct{}{}: // the next renewal is due sooner
		default:
		}
	}
	l.renews.Unlock()
	k.succeed(&c)
}

// holds reports whether the engine may go on by its own clock. If it may not, it has lost its
// lease.
func (k *Kernel) holds() bool {
	l := &k.lease
	if l.period == 0 || time.Since(l.born) < time.Duration(l.until.Load()) {
		return true
	}
	k.lose(errors.New("it was not renewed in time"))
	return false
}

// lives reports whether the user's code may be called. It is called just before that code, since
// much may happen between the begin of an attempt and its body: the process may have been stopped,
// or an observer may have taken its time.
func (k *Kernel) lives() bool {
	if !k.holds() {
		return false
	}
	select {
	case <-k.dead:
		return false
	default:
		return true
	}
}

// fenced ends the use of the lease because the store refuses the writes of this engine.
func (k *Kernel) fenced(op string, err error) {
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrDamaged) {
		k.die(unavailable(op, err))
		return
	}
	if k.lease.period > 0 && !errors.Is(err, store.ErrClosed) {
		k.lose(err)
		return
	}
	k.die(&journal.Error{
		Code: journal.CodeStopped, Op: op, Message: "the engine must not go on", Err: err,
	})
}

// lose ends the use of a lease: the engine writes and begins nothing more, and the contexts of what
// it executes end.
func (k *Kernel) lose(why error) {
	if !k.die(&journal.Error{
		Code: journal.CodeUnavailable, Op: "run", Message: "the engine has lost its lease",
		Err: errors.Join(errLost, why),
	}) {
		return
	}
	go func() { // the caller may have locked a run
		k.observe(observe.Notice{Kind: observe.LeaseLost, Err: why.Error()})
		k.leaveAll()
	}()
}

// lost reports whether the engine has come to its end by losing its lease.
func (k *Kernel) lost() bool {
	return errors.Is(k.cause(), errLost)
}

// If the store has no leases, renewals tell other processes that the engine goes on, for the first
// time soon after it has joined.
const (
	tellFirst = time.Second
	tellEvery = time.Minute
)

// keepLease renews the lease until ctx ends or the engine is dead. When the lease of another engine
// passes before the next renewal, it renews just then.
func (k *Kernel) keepLease(ctx context.Context) {
	every := k.lease.period / 3
	wait, tries := every, 1
	if k.lease.period > 0 {
		defer k.lease.over.Stop()
	} else {
		every, wait = tellEvery, tellFirst
	}
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-k.lease.nudge:
		case <-k.dead:
		case <-ctx.Done():
		}
		t.Stop()
		select {
		case <-k.dead:
			return
		case <-ctx.Done():
			return
		default:
		}
		k.loops.renewal.turn()
		idle, lapse, err := k.renewOnTime(ctx, every)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.recovered(tries)
			wait, tries = every, 1
			switch {
			case idle && !k.isIdle():
				wait = 0 // runs that have come meanwhile need a short lease
			case k.lease.idle.Load():
				wait *= store.IdleLeases
			}
			if lapse > 0 {
				wait = min(wait, lapse+lapsed)
			}
		case final(err):
			k.fenced("renew", err)
			return
		default:
			k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
			wait, tries = jitter(tries), tries+1
		}
	}
}

// renewOnTime renews the lease, and asks for a long one if that is enough. It and awake, which ends
// a long lease, wait for each other: otherwise it might make a lease long again that awake has just
// ended. It stops waiting when ctx ends or the engine is dead.
func (k *Kernel) renewOnTime(
	ctx context.Context, timeout time.Duration,
) (idle bool, lapse time.Duration, err error) {
	if !k.lease.renews.LockOr(ctx.Done(), k.dead) {
		return false, 0, cmp.Or(ctx.Err(), store.ErrFenced)
	}
	idle = k.lease.period > 0 && k.isIdle()
	c, err := k.renew(ctx, timeout, idle)
	k.lease.renews.Unlock()
	k.succeed(&c)
	return idle, c.Lapse, err
}

// renew begins the lease anew, says which workflows the engine has, when its loops had their latest
// turns and what it still holds if it drains, and takes over engines that have died. The answer has
// the number of those engines, and in how long the next lease of another engine passes.
func (k *Kernel) renew(
	ctx context.Context, timeout time.Duration, idle bool,
) (store.Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var drain store.Drain
	if _, draining := k.state(); draining {
		h := k.held()
		drain = store.Drain{Until: h.Until, Runs: h.Runs, Steps: len(h.Steps)}
	}
	names := k.roster.untold()
	sent := time.Now()
	c, err := k.store.Claim(ctx, store.Renew{
		Engine: k.engine, Idle: idle, Now: k.Now(), Drain: drain, Loops: k.loops.running(),
		Workflows: names,
	})
	if err != nil {
		return store.Claimed{}, err
	}
	if names != nil {
		k.roster.told.Store(int64(len(names)))
	}
	if !k.holds() { // it was asked for too late
		return store.Claimed{}, store.ErrFenced
	}
	k.lease.extend(sent, &c, func() { k.holds() })
	return c, nil
}

// succeed takes over after a renewal that has found engines dead. An observer of that may start a
// run, which may renew the lease, so the caller does not hold renews.
func (k *Kernel) succeed(c *store.Claimed) {
	if c.Expired > 0 {
		k.observe(observe.Notice{Kind: observe.EngineExpired, Rows: int(c.Freed)})
		k.look()
		k.inherit()
	}
}

// jitter returns how long to wait before the store is tried again: longer each time, at most 1 s,
// and never as long as other engines wait.
func jitter(tries int) time.Duration {
	longest := min(10*time.Millisecond<<min(tries, 7), time.Second)
	return longest/2 + rand.N(longest/2)
}

// stopped returns the error for a request during which the engine has come to its end.
func (k *Kernel) stopped(op, what, hint string) error {
	why := k.cause()
	e := &journal.Error{
		Code: journal.CodeStopped, Op: op, Message: "the engine has stopped: " + what, Hint: hint,
	}
	if errors.Is(why, errLost) { // as a cause, errLost would mean that nothing was done
		e.Code, e.Message = journal.CodeUnavailable, "the engine has lost its lease: "+what
		return e
	}
	e.Err = why
	return e
}

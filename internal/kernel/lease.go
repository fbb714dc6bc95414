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

// Where several engines have one store, each has a lease that it must renew: whoever
// does not is dead to the others, and they take its runs over. The store's fence sees
// to it that an engine which was taken over writes nothing any more. What it executes
// it has to stop by itself, and early enough: its lease is over for it a little before
// it is for the others, by its own clock, counted from when it asked for the lease.
//
// That is looked at by a timer, and before every group and step: a process that was
// stopped for a while finds the timer late.

// A lease is the right of a kernel to write.
type lease struct {
	born   time.Time     // what until counts from
	period time.Duration // 0 where the store has no leases
	until  atomic.Int64
	over   *time.Timer // calls when it has passed

	mu     sync.Mutex    // held while its length is noted
	owns   time.Time     // when a claim was answered that may have made it a short one
	idle   atomic.Bool   // it is a long one
	renews lock.Lock     // held by who renews it
	nudge  chan struct{} // has a value when it is to be renewed now
}

// margin is the part of a lease that its engine leaves unused.
const margin = 10

// lapsed is how long after the lease of another engine has passed that is looked at.
const lapsed = 5 * time.Millisecond

// errLost says that the engine has lost its lease. What was asked of it is asked of its
// next kernel, unless it shows to be done.
var errLost = errors.New("kernel: the lease is lost")

// extend notes the lease that was asked for at a time. Where a claim was answered since,
// that may have come after it in the store, and have made it a short one.
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

// An engine that owns no run holds a long lease and asks seldom: nobody would have to
// take anything over. With its first run it holds a short one again: a claim ends the
// long one in the store, and a start asks for a short one before it makes the run.

// isIdle reports whether a long lease would do: nothing is here, and nothing is due before
// others sweep, who may not know of it yet.
func (k *Kernel) isIdle() bool {
	known := k.cfg.Sweep
	if known <= 0 {
		known = store.IdleLeases * k.lease.period
	}
	return k.activity.isIdle(known)
}

// shortened notes that a claim asked for at a time has made the engine an owner, and
// has the lease renewed.
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

// awake has the engine hold a short lease before it makes a run. Where the store does
// not answer, the run waits for it as well.
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

// holds says whether the engine may go on by its own clock. If it may not, it has
// lost its lease.
func (k *Kernel) holds() bool {
	l := &k.lease
	if l.period == 0 || time.Since(l.born) < time.Duration(l.until.Load()) {
		return true
	}
	k.lose(errors.New("it was not renewed in time"))
	return false
}

// lives reports whether the user's code may be called. It is asked just before, since
// anything may come between the begin of an attempt and its body: the process may have
// been stopped, or an observer may have taken its time.
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

// fenced says that the store refuses what this engine writes.
func (k *Kernel) fenced(op string, err error) {
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrDamaged) {
		k.die(unavailable(op, err))
		return
	}
	if k.lease.period > 0 && !errors.Is(err, store.ErrClosed) {
		k.lose(err)
		return
	}
	k.die(&journal.Error{Code: journal.CodeStopped, Op: op, Message: "the engine must not go on", Err: err})
}

// lose ends the use of a lease: nothing more is written or begun, and the contexts of
// what is executed end.
func (k *Kernel) lose(why error) {
	if !k.die(&journal.Error{
		Code: journal.CodeUnavailable, Op: "run", Message: "the engine has lost its lease", Err: errors.Join(errLost, why),
	}) {
		return
	}
	go func() { // whoever has found it may have locked a run
		k.observe(observe.Notice{Kind: observe.LeaseLost, At: time.Now(), Err: why.Error()})
		k.leaveAll()
	}()
}

// lost says whether the engine has come to its end by losing its lease.
func (k *Kernel) lost() bool {
	return errors.Is(k.cause(), errLost)
}

// keepLease renews the lease until ctx ends or the engine is dead. When that of
// another engine passes before, it looks just then.
func (k *Kernel) keepLease(ctx context.Context) {
	defer k.lease.over.Stop()
	every := k.lease.period / 3
	wait, tries := every, 1
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
		idle, lapse, err := k.renewOnTime(ctx, every)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.recovered(tries)
			wait, tries = every, 1
			switch {
			case idle && !k.isIdle():
				wait = 0 // what has come meanwhile wants a short one
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
			k.observe(observe.Notice{Kind: observe.StoreFailed, At: time.Now(), Attempt: tries, Err: err.Error()})
			wait, tries = jitter(tries), tries+1
		}
	}
}

// renewOnTime renews the lease, as a long one where that would do. It waits for who ends
// a long one, and that one for it: else it might make one long again that was just ended.
// The wait is over where ctx ends or the engine is dead.
func (k *Kernel) renewOnTime(ctx context.Context, timeout time.Duration) (idle bool, lapse time.Duration, err error) {
	if !k.lease.renews.LockOr(ctx.Done(), k.dead) {
		return false, 0, cmp.Or(ctx.Err(), store.ErrFenced)
	}
	idle = k.isIdle()
	c, err := k.renew(ctx, timeout, idle)
	k.lease.renews.Unlock()
	k.succeed(&c)
	return idle, c.Lapse, err
}

// renew begins the lease anew, and takes over engines that have died. The answer tells
// how many, and in how long the next lease of another one passes.
func (k *Kernel) renew(ctx context.Context, timeout time.Duration, idle bool) (store.Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := time.Now()
	c, err := k.store.Claim(ctx, store.Claim{Engine: k.engine, Renew: true, Idle: idle, Now: sent})
	if err != nil {
		return store.Claimed{}, err
	}
	if !k.holds() { // it was asked for too late
		return store.Claimed{}, store.ErrFenced
	}
	k.lease.extend(sent, &c, func() { k.holds() })
	return c, nil
}

// succeed does what follows where a renewal has taken over engines that have died. An
// observer of it may start a run, which may renew the lease: nobody is to hold it.
func (k *Kernel) succeed(c *store.Claimed) {
	if c.Expired > 0 {
		k.observe(observe.Notice{Kind: observe.EngineExpired, At: time.Now(), Rows: int(c.Freed)})
		k.look()
		k.inherit()
	}
}

// jitter is how long to wait before the store is tried again: longer each time, at
// most a second, and never as long as others wait.
func jitter(tries int) time.Duration {
	longest := min(10*time.Millisecond<<min(tries, 7), time.Second)
	return longest/2 + rand.N(longest/2)
}

// stopped says that the engine has come to its end while something was asked of it.
func (k *Kernel) stopped(op, what, hint string) error {
	why := k.cause()
	e := &journal.Error{Code: journal.CodeStopped, Op: op, Message: "the engine has stopped: " + what, Hint: hint}
	if errors.Is(why, errLost) { // as its cause it would say that nothing is done
		e.Code, e.Message = journal.CodeUnavailable, "the engine has lost its lease: "+what
		return e
	}
	e.Err = why
	return e
}

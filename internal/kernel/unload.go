package kernel

import (
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A run that only waits need not be in memory. Its journal records everything up to the wait, its
// head has the time when it goes on by itself, and a message wakes it. So it is unloaded: one
// commit removes its owner and sets the time of its next timer. It is unloaded only if it has seen
// every message that was ever posted to it. The store compares the numbers in that commit, after
// every post in it. Two things follow. A message that is posted before is seen by this activation.
// A message that is posted after finds a run without an owner and makes it due.
//
// While the commit is on its way, no entry may be appended: everything that happens meanwhile waits
// for the verdict. See unloading and unloaded.
//
// A parked run leaves memory in the same way, since a message may wake it too: a command. Its
// activation is over whatever the verdict. So a parked run with a message that it has not seen gets
// another activation, which looks at the message.

// mayUnload reports whether the run waits only for events that the store and the clock know: no
// goroutine of it can go on, no step is in flight, no payload is being read, and no context of the
// author's can end a wait.
func (r *run) mayUnload() bool {
	if r.gone() || r.holder() != nil || r.isTentative() || r.canGoOn() ||
		!r.operations.mayLeave() || r.inbox.isHeld() || r.isReading() || !r.waits.any() {
		return false
	}
	return r.allWaiting()
}

// considerUnload unloads the run if it may be unloaded: at once if it will wait long, else after
// the idle timeout.
func (r *run) considerUnload() {
	if !r.mayUnload() {
		return
	}
	idle, due := r.k.cfg.IdleTimeout, earlier(r.due(), r.waits.next())
	switch {
	case r.operations.anyPaused():
		r.unload()
	case !due.IsZero() && r.k.until(due) <= 0: // the run goes on now
	case idle <= 0, r.waits.anyDecision(), r.k.isFull():
		r.unload()
	case !r.waits.anyForMessage() && r.k.until(due) > idle:
		r.unload()
	default:
		r.k.idle.add(r, time.Now().Add(idle))
	}
}

// unload asks the store to let the run leave memory.
func (r *run) unload() {
	r.startUnload()
	r.operations.stopTimers()
	r.deadline.stop()
	wake := earlier(r.due(), r.waits.next())
	if r.operations.anyPaused() {
		wake = r.k.Now().Round(0)
	}
	r.leaveHead(r.status(), r.head().Cause, wake)
	r.unloadHead(r.inbox.known())
	r.enlist()
}

// unloaded takes the store's verdict on an unload. It is called with the lock.
func (r *run) unloaded(c *store.Change) {
	refused := c.Verdict == store.Mail
	stays, taken := r.activation.unloaded(refused, r.k.lease.period > 0)
	if taken {
		r.whenDurable(effect{do: func() { go r.k.takeAfter(r) }})
	}
	if wake := r.head().Wake; !refused && !wake.IsZero() {
		r.k.wakeBy(wake)
	}
	if !stays {
		return
	}
	r.own(r.k.engine)
	r.operations.startTimers()
	if r.overdue() {
		return
	}
	r.commands()
	r.learn(c.Found.Mail)
	if !r.gone() {
		r.inbox.offerAll(r.operations.forMessage())
		r.dispatch()
	}
}

// release returns the run to the store as it was claimed. If the engine knows its workflow, a
// parked run is due again only for its overall timeout. Else its wake time stays as it was.
func (r *run) release() {
	wake := r.head().Wake
	if parked(r.head()) && r.def != nil {
		wake = r.due()
	}
	r.leaveHead(r.status(), r.head().Cause, wake)
	r.append(journal.Entry{Kind: journal.StatusChanged})
	r.unloadHead(r.inbox.known())
	r.yield()
}

// yield ends the activation with the present head.
func (r *run) yield() {
	r.writeHead()
	r.leave()
	r.seal()
	r.whenDurable(effect{do: r.k.look})
}

// An idleRuns has the runs that are unloaded when their idle timeout has passed. One timer serves
// all of them.
type idleRuns struct {
	mu    sync.Mutex
	queue []idleRun // by time
	timer *time.Timer
}

type idleRun struct {
	run *run
	at  time.Time
}

// add makes the timer look at a run. A run that is in the queue already is looked at then. It is
// called with the run's lock.
func (l *idleRuns) add(r *run, at time.Time) {
	if !r.awaitIdle(at) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, idleRun{r, at})
	if len(l.queue) > 1 {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.look)
	} else {
		l.timer.Reset(time.Until(at))
	}
}

// look unloads the runs whose time has come.
func (l *idleRuns) look() { l.unloadUntil(time.Now()) }

// unloadUntil unloads the runs whose idle timeout passes by t.
func (l *idleRuns) unloadUntil(t time.Time) {
	l.mu.Lock()
	n := 0
	for n < len(l.queue) && !l.queue[n].at.After(t) {
		n++
	}
	due := append([]idleRun(nil), l.queue[:n]...)
	l.queue = l.queue[:copy(l.queue, l.queue[n:])]
	if len(l.queue) > 0 {
		l.timer.Reset(max(time.Until(l.queue[0].at), time.Microsecond))
	}
	l.mu.Unlock()
	for _, d := range due {
		d.run.mu.Lock()
		until := d.run.endIdle()
		switch {
		case !d.run.mayUnload():
		case until.After(t):
			l.add(d.run, until)
		default:
			d.run.unload()
		}
		d.run.mu.Unlock()
	}
}

package kernel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A claims takes up runs that no engine has. Only it takes up a run that crashed, a run that
// another engine left, and a run that is due or has got a message.
//
// Invariants: claiming is held from a claim until its runs are loaded, so its holder knows whether
// a run is here. It is taken before any run's lock. unsure is set while the store may have assigned
// runs to this engine that the engine has not received: no claim is made before they are found.
type claims struct {
	k     *Kernel
	nudge chan struct{} // asks the loop to look now

	askers askOrder // the runs that are claimed

	claiming  lock.Lock
	unsure    bool
	asked     atomic.Int64 // calls of collect
	collected int64        // the number of calls that are served
}

func newClaims(k *Kernel) claims {
	return claims{k: k, nudge: make(chan struct{}, 1), claiming: lock.New()}
}

// claimed calls f when the runs of a claim in progress are loaded.
func (q *claims) claimed(f func()) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	f()
}

// How many runs one claim takes at most: few if other engines may have room too, so that they share
// the due runs.
const (
	claimBatch  = 1000
	sharedBatch = 100
)

func (q *claims) batch() int {
	k := q.k
	if k.lease.period > 0 {
		return sharedBatch
	}
	return claimBatch
}

// claimLoop takes up runs that are due, until ctx ends or the engine is dead. It asks the store
// when it has a reason to: at the start, when a run is due, when a slot is free that a run waits
// for, and when another process may have written. It also sweeps: once in a while it asks without a
// reason.
func (q *claims) claimLoop(ctx context.Context) {
	k := q.k
	wait, tries := 10*time.Millisecond, 1
	for {
		k.loops.claims.turn()
		again, err := k.claimDue()
		if err != nil {
			if final(err) {
				k.fenced("claim", err)
				return
			}
			k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
			tries++
			if ctx.Err() != nil || !k.pause(&wait) {
				return
			}
			continue
		}
		k.recovered(tries)
		wait, tries = 10*time.Millisecond, 1
		if again {
			continue
		}
		if !q.reason(ctx) {
			return
		}
	}
}

// reason waits for a reason to claim. It returns false if there will be none.
func (q *claims) reason(ctx context.Context) bool {
	k := q.k
	wake := k.dueAt()
	left := k.cfg.Sweep
	if !wake.IsZero() && !k.cfg.SweepOnly {
		until := k.until(wake)
		if until <= 0 {
			return true
		}
		if left <= 0 || until < left {
			left = until
		}
	}
	var due <-chan time.Time
	if left > 0 {
		t := time.NewTimer(left)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-q.nudge:
	case <-ctx.Done():
		return false
	case <-k.dead:
		return false
	}
	return true
}

// look asks the claim loop to look for due runs now.
func (q *claims) look() {
	select {
	case q.nudge <- struct{}{}:
	default:
	}
}

// wakeBy makes the claim loop look at that time at the latest.
func (q *claims) wakeBy(t time.Time) {
	k := q.k
	if k.isDueBy(t) {
		k.look()
	}
}

// claimDue takes up at most as many due runs as there is room for. It reports whether there are
// more at once.
func (q *claims) claimDue() (again bool, err error) {
	k := q.k
	names, paused := k.runnable()
	most := k.batch()
	if k.isHeavy(k.cfg.MaxLoaded) {
		most = 0
	}
	room := k.reserve(most)
	defer k.unreserve()
	if room == 0 {
		// every run that may be unloaded: others need the places
		k.idle.unloadUntil(time.Now().Add(k.cfg.IdleTimeout))
	}
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := k.reclaim(); err != nil {
		return false, err
	}
	claimed, err := k.claim(store.TakeDue{
		Engine: k.engine, Workflows: names, Paused: paused, Max: room, Now: k.Now(),
	})
	if err != nil {
		return false, err
	}
	err = k.relearn(claimed.Settings)
	for i := range claimed.Runs {
		k.adopt(&claimed.Runs[i], false)
	}
	k.handOver(claimed.Mail)
	k.isDueBy(claimed.Next)
	return claimed.More && room > 0, err
}

// handOver delivers messages that others have posted to runs of this engine.
func (q *claims) handOver(mail []store.Run) {
	k := q.k
	for i := range mail {
		if r := k.loadedRun(mail[i].Head.Number); r != nil {
			r.mu.Lock()
			r.receive(mail[i].Inbox...)
			r.learn(mail[i].Head.Mail)
			r.mu.Unlock()
		}
	}
}

// collect asks the store for messages that others have posted to the runs of this engine, and hands
// them over. Callers that come while a request is in progress share the next one.
func (q *claims) collect() error {
	k := q.k
	mine := q.asked.Add(1)
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if q.collected >= mine {
		return nil
	}
	upTo := q.asked.Load()
	if err := k.reclaim(); err != nil {
		return err
	}
	claimed, err := k.claim(store.TakeDue{Engine: k.engine, Now: k.Now()})
	if err == nil {
		k.handOver(claimed.Mail)
		q.collected = upTo
		k.wakeBy(claimed.Next)
	}
	return err
}

// sent delivers the messages of a group to runs of this engine, and looks for runs that the group
// has made or woken. If the group was sent more than once, the runs read their messages: what
// counts as delivered may be a message of another sender, or of an earlier run of the chain.
func (q *claims) sent(cs []store.Change, resent bool) {
	k := q.k
	look := false
	var unread map[journal.Number]int64 // by run: how many messages it has
	if resent {
		unread = map[journal.Number]int64{}
	}
	for i := range cs {
		c := &cs[i]
		look = look || i > 0 && c.Create && c.Verdict == store.Written
		posts := c.Posts
		if c.Verdict == store.Taken || c.Verdict == store.Exists {
			posts = append(posts[:len(posts):len(posts)], c.Else...)
		}
		for j := range posts {
			p := &posts[j]
			switch {
			case p.Verdict != store.Delivered:
			case p.To.Owner == 0, p.Unrouted != 0: // a message that was moved has to be asked for
				look = true
			case p.To.Owner != k.engine:
			case resent:
				unread[p.To.Number] = max(unread[p.To.Number], p.To.Mail)
			default:
				m := p.Message
				m.Seq = p.Number
				q.tell(p.To.Number, func(r *run) { r.receive(m) })
			}
		}
	}
	for n, mail := range unread {
		q.tell(n, func(r *run) { r.learn(mail) })
	}
	if look {
		k.look()
	}
}

// granted looks for runs that a group has given slots to: they are due, or have a message.
func (q *claims) granted(g *store.Group) {
	if g.Grants > 0 {
		q.look()
	}
}

// tell calls f with a run that this engine has, with its lock. If the run is being claimed just
// now, f is called when it is loaded.
func (q *claims) tell(n journal.Number, f func(*run)) {
	locked := func(r *run) {
		r.mu.Lock()
		defer r.mu.Unlock()
		f(r)
	}
	if r := q.k.loadedRun(n); r != nil {
		locked(r)
		return
	}
	go func() {
		var r *run
		q.claimed(func() { r = q.k.loadedRun(n) })
		if r != nil {
			locked(r)
		}
	}()
}

// claim asks the store for runs. If it fails, the store may have assigned runs to this engine all
// the same, and messages to runs that are here.
func (q *claims) claim(c store.Claim) (store.Claimed, error) {
	k := q.k
	if !k.holds() {
		return store.Claimed{}, store.ErrFenced
	}
	sent := time.Now()
	claimed, err := k.store.Claim(context.Background(), c)
	if err != nil {
		q.unsure = true
	}
	for i := range claimed.Runs {
		claimed.Runs[i].CutOff() // a driver may have overlooked that an entry is missing
	}
	if err == nil {
		k.lease.shortened(sent, &claimed)
	}
	return claimed, err
}

// reclaim finds the runs that a claim of unknown outcome may have assigned, and begins their
// activations. Runs that are here learn of their messages.
func (q *claims) reclaim() error {
	k := q.k
	if !q.unsure {
		return nil
	}
	f := store.Filter{Owner: k.engine, Limit: store.MaxLimit}
	for {
		heads, next, err := k.store.Find(context.Background(), f)
		if err != nil {
			return err
		}
		for _, h := range heads {
			if r := k.loadedRun(h.Number); r != nil {
				r.mu.Lock()
				r.learn(h.Mail)
				if !r.awaits() && r.over() {
					go k.takeAfter(r)
				}
				r.mu.Unlock()
				continue
			}
			claimed, err := k.claim(store.TakeRun{Engine: k.engine, Run: h.Number})
			if err != nil {
				return err
			}
			for i := range claimed.Runs {
				k.adopt(&claimed.Runs[i], false)
			}
		}
		if next.IsZero() {
			q.unsure = false
			return nil
		}
		f.After = next
	}
}

// activation returns the activation of a run for a command. It is the activation that the run has,
// or one that is made to write an entry; nil if neither is possible now. The function open reports,
// by the head of the claimed run, whether there is still something to do. If there is not, or if a
// message has come first that ends the run at once, the run goes on like any claimed run. If the
// command ends the run (runs is set), a run that cleans up before it ends has to go on, too; by is
// the mode of the command.
func (q *claims) activation(
	ctx context.Context, n journal.Number, open func(journal.Head) bool, runs bool,
	by journal.Action,
) (*run, error) {
	k := q.k
	if r := k.loadedRun(n); r != nil {
		return r, nil // it waits for no claim: a claim may wait for a lock that the run holds
	}
	if !q.claiming.LockOr(ctx.Done(), nil) {
		return nil, unavailable("claim", context.Cause(ctx))
	}
	defer q.claiming.Unlock()
	if r := k.loadedRun(n); r != nil {
		return r, nil
	}
	claimed, err := k.claim(store.TakeRun{Engine: k.engine, Run: n})
	if err != nil {
		if over(err) && !errors.Is(err, store.ErrClosed) {
			k.fenced("claim", err)
			return nil, k.cause()
		}
		k.look()
		return nil, unavailable("claim", err)
	}
	if len(claimed.Runs) == 0 {
		return nil, nil
	}
	c := &claimed.Runs[0]
	def := k.Lookup(c.Head.Workflow)
	r, _ := k.activationOf(c, def)
	todo := orderToEnd(r) == nil && open(c.Head) && (r.values.decided() == 0 || open(r.asked(runs)))
	if !todo || runs && def != nil && cleansUp(r, by) {
		k.weigh(-r.bytes)
		k.adopt(c, todo && open(r.asked(runs)))
		return k.loadedRun(n), nil
	}
	if !k.admit(r) {
		r.stop(ErrUnloaded)
		return nil, k.running(context.Background(), "claim")
	}
	close(r.begun)
	return r, nil
}

// takeAfter begins the next activation of a run when the one before is over. By then a command may
// have begun it, and that one may be over too, so the state of the store counts.
func (q *claims) takeAfter(r *run) {
	k := q.k
	<-r.done
	k.takeAgain(r.number())
}

// takeAgain begins another activation of a run that the store has left to this engine although the
// run was given back.
func (q *claims) takeAgain(n journal.Number) {
	k := q.k
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if k.stops() || k.loadedRun(n) != nil {
		return
	}
	claimed, err := k.claim(store.TakeRun{Engine: k.engine, Run: n})
	if err != nil {
		k.look() // the run is found then
		return
	}
	for i := range claimed.Runs {
		k.adopt(&claimed.Runs[i], false)
	}
}

// forget removes r from memory, wakes the callers that wait for its end elsewhere, and claims a run
// that waits for the slot.
func (q *claims) forget(r *run) {
	k := q.k
	k.weigh(-r.bytes)
	queued := k.dismiss(r)
	if _, _, ended := r.howEnded(); ended {
		k.hasEnded(r.number())
	}
	if queued {
		k.look()
	}
}

// The keys of claimed runs are computed at the same time. An askOrder makes the runs ask in the
// order in which they were claimed all the same, limit by limit: who was started first is first in
// line, and who was started last has the last input.
type askOrder struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by limit: closed when the run that was claimed last has asked
}

// longestTurn is how long a run waits for its turn to ask: code that computes a key and does not
// return holds up the runs after it for so long, once.
const longestTurn = 5 * time.Second

// A turnToAsk is the place of a run among those that ask for a limit.
type turnToAsk struct {
	order  *askOrder
	limit  string
	before chan struct{} // closed when the run before it has asked; nil if there is none
	asked  chan struct{}
}

// nextToAsk returns the turn of a run that was claimed just now. Each turn has to be passed on.
func (q *claims) nextToAsk(limit string) turnToAsk { return q.askers.next(limit) }

func (q *askOrder) next(limit string) turnToAsk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		q.last = map[string]chan struct{}{}
	}
	t := turnToAsk{q, limit, q.last[limit], make(chan struct{})}
	q.last[limit] = t.asked
	return t
}

// await waits for the turn, or for the end of the engine.
func (t turnToAsk) await(dead <-chan struct{}) {
	if t.before == nil {
		return
	}
	late := time.NewTimer(longestTurn)
	defer late.Stop()
	select {
	case <-t.before:
	case <-late.C:
	case <-dead:
	}
}

// pass makes it the turn of the next run.
func (t turnToAsk) pass() {
	close(t.asked)
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	if t.order.last[t.limit] == t.asked {
		delete(t.order.last, t.limit)
	}
}

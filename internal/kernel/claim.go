package kernel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// How many runs one claim takes at most: few where other engines may have room too,
// so that they share what is due.
const (
	claimBatch  = 1000
	sharedBatch = 100
)

func (k *Kernel) batch() int {
	if k.lease.period > 0 {
		return sharedBatch
	}
	return claimBatch
}

// claimLoop takes up runs that are due, until ctx ends or the engine is dead.
// It is the one door for a run that crashed, one that another engine left, and
// one whose time has come or that has got a message. It asks the store when it
// has a reason to: at the start, when a run is due, when a slot is free that a run
// waits for, when another process may have written. Beside that it sweeps: once
// in a while it asks without a reason.
func (k *Kernel) claimLoop(ctx context.Context) {
	wait, tries := 10*time.Millisecond, 1
	for {
		again, err := k.claimDue()
		if err != nil {
			if final(err) {
				k.fenced("claim", err)
				return
			}
			k.observe(observe.Notice{Kind: observe.StoreFailed, At: time.Now(), Attempt: tries, Err: err.Error()})
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
		if !k.rest(ctx) {
			return
		}
	}
}

// rest waits for a reason to claim.
func (k *Kernel) rest(ctx context.Context) bool {
	k.mu.Lock()
	wake := k.wakeAt
	k.mu.Unlock()
	left := k.cfg.Sweep
	if !wake.IsZero() && !k.cfg.SweepOnly {
		until := time.Until(wake)
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
	case <-k.nudge:
	case <-ctx.Done():
		return false
	case <-k.dead:
		return false
	}
	return true
}

// wakeBy makes sure that the claim loop looks at that time at the latest.
func (k *Kernel) wakeBy(t time.Time) {
	k.mu.Lock()
	before := k.wakeAt
	k.wakeAt = earlier(before, t)
	sooner := k.wakeAt != before
	k.mu.Unlock()
	if sooner {
		k.look()
	}
}

// claimDue takes up at most as many due runs as there is room for. It says
// whether there are more at once.
func (k *Kernel) claimDue() (again bool, err error) {
	names := k.names()
	k.mu.Lock()
	room := max(min(k.cfg.Capacity-len(k.resident), k.batch()), 0)
	if k.memos.Load() > int64(k.cfg.MaxResident) {
		room = 0
	}
	if k.err != nil || k.draining || len(names) == 0 {
		room = 0
	}
	k.queued, k.wakeAt, k.reserved = room == 0, time.Time{}, room
	k.mu.Unlock()
	defer k.unreserve()
	if room == 0 {
		k.evict()
	}
	k.claiming.Lock()
	defer k.claiming.Unlock()
	if err := k.reclaim(); err != nil {
		return false, err
	}
	claimed, err := k.claim(store.Claim{Workflows: names, Max: room})
	if err != nil {
		return false, err
	}
	for i := range claimed.Runs {
		k.adopt(&claimed.Runs[i], false)
	}
	k.handOver(claimed.Mail)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wakeAt = earlier(k.wakeAt, claimed.Next)
	return claimed.More && room > 0, nil
}

// unreserve gives back the slots that a claim has not filled.
func (k *Kernel) unreserve() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reserved = 0
}

// handOver gives runs the messages that others have posted to them.
func (k *Kernel) handOver(mail []store.Run) {
	for i := range mail {
		if r := k.residentRun(mail[i].Head.Number); r != nil {
			r.mu.Lock()
			r.given(&mail[i])
			r.mu.Unlock()
		}
	}
}

// collect asks the store for messages that others have posted to the runs of
// this engine, and hands them over. Those who ask while one question is on its way
// share the next.
func (k *Kernel) collect() error {
	mine := k.asked.Add(1)
	k.claiming.Lock()
	defer k.claiming.Unlock()
	if k.collected >= mine {
		return nil
	}
	upTo := k.asked.Load()
	if err := k.reclaim(); err != nil {
		return err
	}
	claimed, err := k.claim(store.Claim{})
	if err == nil {
		k.handOver(claimed.Mail)
		k.collected = upTo
		k.wakeBy(claimed.Next)
	}
	return err
}

// sent tells runs of this engine what a group has posted to them, and looks for
// runs that it has made or woken.
func (k *Kernel) sent(cs []store.Change) {
	look := false
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
			case p.To.Owner == 0, p.Unrouted != 0: // what was moved has to be asked for
				look = true
			case p.To.Owner == k.engine:
				k.bring(p)
			}
		}
	}
	if look {
		k.look()
	}
}

// bring hands a message to the run of this engine that it is for. Where that is
// being claimed just now, it waits until it is resident.
func (k *Kernel) bring(p *store.Post) {
	m := p.Message
	m.Seq = p.Number
	if r := k.residentRun(p.To.Number); r != nil {
		r.mu.Lock()
		r.receive(m)
		r.mu.Unlock()
		return
	}
	go func() {
		k.claiming.Lock()
		r := k.residentRun(p.To.Number)
		k.claiming.Unlock()
		if r != nil {
			r.mu.Lock()
			r.receive(m)
			r.mu.Unlock()
		}
	}()
}

// claim asks the store for runs. Where it fails, the store may have given them
// all the same, and messages of runs that are here.
func (k *Kernel) claim(c store.Claim) (store.Claimed, error) {
	if !k.holds() {
		return store.Claimed{}, store.ErrFenced
	}
	c.Engine, c.Now = k.engine, time.Now()
	claimed, err := k.store.Claim(context.Background(), c)
	if err != nil {
		k.unsure = true
	}
	for i := range claimed.Runs {
		claimed.Runs[i].CutOff() // what a driver has overlooked is not run past either
	}
	if err == nil {
		k.shortened(c.Now, &claimed)
	}
	return claimed, err
}

// reclaim finds the runs that a claim of unknown outcome may have given, and
// begins their residence. Those that are here learn what they were sent.
func (k *Kernel) reclaim() error {
	if !k.unsure {
		return nil
	}
	f := store.Filter{Owner: k.engine, Limit: store.MaxLimit}
	for {
		heads, next, err := k.store.Find(context.Background(), f)
		if err != nil {
			return err
		}
		for _, h := range heads {
			if r := k.residentRun(h.Number); r != nil {
				r.mu.Lock()
				r.learn(h.Mail)
				if !r.awaits() && r.over() {
					go k.takeAfter(r)
				}
				r.mu.Unlock()
				continue
			}
			claimed, err := k.claim(store.Claim{Run: h.Number})
			if err != nil {
				return err
			}
			for i := range claimed.Runs {
				k.adopt(&claimed.Runs[i], false)
			}
		}
		if next == 0 {
			k.unsure = false
			return nil
		}
		f.After = next
	}
}

// earlier gives the earlier one of two times; the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// adopt begins the residence of a claimed run: its journal is replayed, unless
// it has to be parked or is parked already. Forced, its code runs all the same.
func (k *Kernel) adopt(c *store.Run, forced bool) {
	if r := k.residentRun(c.Head.Number); r != nil {
		r.mu.Lock()
		waits := r.awaits()
		r.mu.Unlock()
		if waits {
			return
		}
	}
	def := k.Lookup(c.Head.Workflow)
	if c.Head.Retain == "" { // who started it did not know the workflow
		c.Head.Retain = k.retention(c.Head.Workflow)
	}
	if def != nil && c.Head.Status == journal.Pending && c.Head.Pattern == journal.PatternWorkflow { // likewise
		c.Head.Pattern = def.Pattern
	}
	r := k.residentOf(c, def)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !k.admit(r) {
		r.stop(ErrUnloaded)
		return
	}
	close(r.begun)
	switch {
	case def == nil: // claimed for a command that never came
		r.release()
		return
	case r.broken != nil:
		r.leaveBroken()
		return
	}
	if e := r.memo.ends; e != nil && !isOwn(e) {
		r.resumeClosing(e)
	} else if r.overdue() && !r.ending.cleansUp() {
		return
	}
	if parked(c.Head) && !forced && !r.goesOn() {
		if !r.gone() {
			r.release()
		}
		return
	}
	trials, suspect := k.tried(c)
	if r.last() > c.Last { // it is resumed
		trials, suspect = 0, false
	}
	retrying := r.status() == journal.Waiting && r.head().Cause != "" // its code failed last
	r.because("")
	record := r.status() == journal.Pending || retrying || r.memo.build != k.cfg.Build
	if record {
		r.ending.imply(r.def.CleansUp && r.status() == journal.Pending)
	}
	r.begin(trials, suspect, record)
}

// leaveBroken gives back a run whose journal cannot be read, parked. It does what its
// messages ask for: a cancel ends it without cleaning up, for its code cannot be
// replayed; and a resume parks it again, now that its journal was tried once more.
func (r *run) leaveBroken() {
	d := &journal.Detail{Reason: r.broken.Message, Failure: r.broken}
	if r.overdue() {
		return
	}
	if !parked(r.head()) {
		r.suspend(d)
		return
	}
	for !r.gone() {
		r.takeSuspends()
		e := r.inbox.find(unparks)
		switch {
		case e == nil:
			r.release()
		case e.Kind == journal.ResumeAsked:
			d.Mail = e.Seq
			r.inbox.remove(e.Seq, r.last()+1)
			r.suspend(d)
		default:
			own := *e
			r.command(&own)
		}
	}
}

// residentOf gives the residence of a claimed run.
func (k *Kernel) residentOf(c *store.Run, def *Workflow) *run {
	m := newMemo(c.Entries, k.cfg.Build)
	m.last = c.Last
	r := k.newRun(c.Head, def, m)
	r.ending.imply(m.planned[journal.ImpliedCleanup])
	r.inbox.begin(c.Head.Mail, c.Inbox, c.More)
	if c.More || c.Err != nil && c.Head.Mail > 0 { // of a damaged run no messages come with it
		commands, err := k.loadMessages(c.Head.Number, store.Range{Name: controlName})
		if c.Err = cmp.Or(c.Err, err); err == nil {
			r.inbox.merge(commands)
		}
	}
	if r.broken = broken(c); r.broken != nil {
		r.ending = newEnding(m)
		m.planned, m.ends = nil, nil
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		r.bytes += int64(e.Size())
		if e.Kind == journal.DeadLettered {
			r.letters.note(e)
		}
	}
	k.memos.Add(r.bytes)
	begun := func(e journal.Entry) bool { return e.Status != journal.Pending && e.Status != 0 }
	if c.Head.Status == journal.Pending && c.Head.Number.Engine() != k.engine && !slices.ContainsFunc(c.Entries, begun) {
		r.observed.isNews()
	}
	if len(c.Entries) > 0 {
		first := &c.Entries[0]
		r.start = first.Detail
		attributes := map[string]string(nil)
		if r.start != nil {
			attributes = r.start.Attributes
		}
		r.values.begin(first.Data, storedAt(first), attributes)
	}
	return r
}

// broken says why the journal of a run cannot be replayed; nil where it can.
func broken(c *store.Run) *journal.Failure {
	switch {
	case c.Err != nil:
		return &journal.Failure{Code: journal.CodeCorrupt, Message: c.Err.Error()}
	case len(c.Entries) == 0 || c.Entries[0].Kind != journal.RunStarted:
		return &journal.Failure{Code: journal.CodeCorrupt, Message: "its journal does not begin with its start"}
	}
	return nil
}

// parked says whether a run waits to be resumed. One that waits for a decision is
// SUSPENDED too, but without a cause: its code goes on by itself.
func parked(h journal.Head) bool { return h.Status == journal.Suspended && h.Cause != "" }

// goesOn says whether a run that is parked goes on, by what is in its inbox or
// because it is about to end.
func (r *run) goesOn() bool {
	if r.ending.closing() != nil && (r.memo.ends == nil || r.memo.ends.Seq > r.memo.suspended) {
		return true
	}
	for !r.gone() {
		r.takeSuspends()
		e := r.inbox.find(unparks)
		switch {
		case e == nil:
			return false
		case e.Kind == journal.ResumeAsked:
			number := e.Seq
			r.inbox.remove(number, r.last()+1)
			r.append(journal.Entry{Kind: journal.RunResumed, Status: r.values.active(), Detail: &journal.Detail{Mail: number}})
			return true
		case r.ending.as() == 0 && r.values.decided() == 0 && r.ending.cleansUp():
			return true
		}
		own := *e
		r.command(&own) // it ends the run, or changes nothing
	}
	return false
}

// unparks says whether a message lets a parked run go on.
func unparks(e *journal.Entry) bool {
	return e.Kind == journal.CancelAsked || e.Kind == journal.ResumeAsked
}

// release gives the run back as it was claimed. One that is parked is due again
// only for its overall timeout.
func (r *run) release() {
	wake := r.head().Wake
	if parked(r.head()) {
		wake = r.due()
	}
	r.leaveHead(r.status(), r.head().Cause, wake)
	r.append(journal.Entry{Kind: journal.StatusChanged})
	r.restHead(r.inbox.known())
	r.yield()
}

// yield ends the residence with the head that it has now.
func (r *run) yield() {
	r.writeHead()
	r.leave()
	r.seal()
	r.whenDurable(effect{do: r.k.look})
}

// overdue ends a run whose overall timeout has passed, or sets the timer that
// will.
func (r *run) overdue() bool {
	deadline := r.due()
	if deadline.IsZero() {
		return false
	}
	if time.Until(deadline) <= 0 {
		r.finish(timedOut(), true)
		return true
	}
	r.deadline.set(r.k.until(deadline), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone() && !r.overdue() {
			return
		}
	})
	return false
}

// due is when the overall timeout passes; zero without one, or where something is
// decided that it would undo.
func (r *run) due() time.Time {
	if r.def == nil || r.def.Timeout <= 0 || r.ending.as() != 0 || r.values.decided() != 0 {
		return time.Time{}
	}
	return r.created().Add(r.def.Timeout)
}

// admit makes r resident. It gives false where the engine has stopped meanwhile.
func (k *Kernel) admit(r *run) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.err != nil {
		return false
	}
	k.resident[r.number()] = r
	k.reserved = max(k.reserved-1, 0)
	return true
}

// forget takes r out of memory, wakes those who wait for its end elsewhere, and
// claims a run that waits for the slot.
func (k *Kernel) forget(r *run) {
	k.memos.Add(-r.bytes)
	k.mu.Lock()
	if k.resident[r.number()] == r {
		delete(k.resident, r.number())
	}
	queued := k.queued
	k.mu.Unlock()
	if _, _, ended := r.howEnded(); ended {
		k.hasEnded(r.number())
	}
	if queued {
		k.look()
	}
}

// residence gives the residence of a run for a command: the one that it has, or
// one made to write a mark; nil where neither can be had now. open says of the
// run as it was claimed whether there is still something to do; where there is
// not, it goes on as any claimed run. One that cleans up before it ends has to go
// on too where the command ends it (runs).
func (k *Kernel) residence(ctx context.Context, n journal.Number, open func(journal.Head) bool, runs bool) (*run, error) {
	if r := k.residentRun(n); r != nil {
		return r, nil // which waits for no claim: that may wait for what the run holds
	}
	if !k.claiming.LockOr(ctx.Done(), nil) {
		return nil, unavailable("claim", context.Cause(ctx))
	}
	defer k.claiming.Unlock()
	if r := k.residentRun(n); r != nil {
		return r, nil
	}
	claimed, err := k.claim(store.Claim{Run: n})
	if err != nil {
		if over(err) && !errors.Is(err, store.ErrClosed) {
			k.fenced("claim", err)
			return nil, k.err
		}
		k.look()
		return nil, unavailable("claim", err)
	}
	if len(claimed.Runs) == 0 {
		return nil, nil
	}
	c := &claimed.Runs[0]
	def := k.Lookup(c.Head.Workflow)
	r := k.residentOf(c, def)
	todo := open(c.Head) && (r.values.decided() == 0 || open(r.asked(runs)))
	if !todo || runs && def != nil && r.ending.cleansUp() {
		k.memos.Add(-r.bytes)
		k.adopt(c, todo && open(r.asked(runs)))
		return k.residentRun(n), nil
	}
	if !k.admit(r) {
		r.stop(ErrUnloaded)
		return nil, k.running(context.Background(), "claim")
	}
	close(r.begun)
	return r, nil
}

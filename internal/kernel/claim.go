package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// claimBatch bounds how many runs one claim takes.
const claimBatch = 1000

// claimLoop takes up runs that are due, until ctx ends or the engine is dead.
// It is the one door for a run that crashed, one that another engine left, and
// one whose time has come. It asks the store when it has a reason to: at the
// start, when a run is due, when a slot is free that a run waits for.
func (k *Kernel) claimLoop(ctx context.Context) {
	wait, tries := 10*time.Millisecond, 1
	for {
		again, err := k.claimDue()
		if err != nil {
			if final(err) {
				k.die(&journal.Error{Code: journal.CodeStopped, Op: "claim", Message: "the engine must not go on", Err: err})
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
	var due <-chan time.Time
	if !wake.IsZero() {
		left := time.Until(wake)
		if left <= 0 {
			return true
		}
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
	k.mu.Lock()
	room := min(k.cfg.Capacity-len(k.resident), claimBatch)
	names := make([]string, 0, len(k.workflows))
	for name := range k.workflows {
		names = append(names, name)
	}
	if k.err != nil || k.draining || len(names) == 0 || room <= 0 {
		k.queued = true
		k.wakeAt = time.Time{}
		k.mu.Unlock()
		return false, nil
	}
	k.queued, k.wakeAt = false, time.Time{}
	k.mu.Unlock()
	k.claiming.Lock()
	defer k.claiming.Unlock()
	if err := k.reclaim(); err != nil {
		return false, err
	}
	claimed, err := k.claim(store.Claim{Workflows: names, Max: room})
	if err != nil {
		return false, err
	}
	for _, c := range claimed.Runs {
		k.adopt(c)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wakeAt = earlier(k.wakeAt, claimed.Next)
	return claimed.More, nil
}

// claim asks the store for runs. Where it fails, the store may have given them
// all the same.
func (k *Kernel) claim(c store.Claim) (store.Claimed, error) {
	c.Engine, c.Now = k.engine, time.Now()
	claimed, err := k.store.Claim(context.Background(), c)
	if err != nil {
		k.unsure = true
	}
	return claimed, err
}

// reclaim finds the runs that a claim of unknown outcome may have given, and
// begins their residence.
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
			if k.residentRun(h.Number) != nil {
				continue
			}
			claimed, err := k.claim(store.Claim{Run: h.Number})
			if err != nil {
				return err
			}
			for _, c := range claimed.Runs {
				k.adopt(c)
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

// adopt begins the residence of a claimed run: its journal is replayed.
func (k *Kernel) adopt(c store.Run) {
	def := k.Lookup(c.Head.Workflow)
	m := newMemo(c.Entries, k.cfg.Build)
	m.last = c.Last
	r := k.newRun(c.Head, def, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	k.admit(r)
	close(r.begun)
	switch {
	case def == nil || c.Head.Status == journal.Suspended: // claimed for a command that never came
		r.release()
		return
	case c.Err != nil:
		r.suspend(c.Err.Error(), &journal.Failure{Code: journal.CodeCorrupt, Message: c.Err.Error()})
		return
	case len(c.Entries) == 0 || c.Entries[0].Kind != journal.RunStarted:
		r.suspend("its journal does not begin with its start", &journal.Failure{Code: journal.CodeCorrupt, Message: "no start"})
		return
	case c.Head.Crashes >= k.cfg.MaxCrashes && c.Entries[len(c.Entries)-1].Kind != journal.RunResumed:
		r.suspend(fmt.Sprintf("%d engines in a row died while executing it", c.Head.Crashes), nil)
		return
	}
	r.input, r.stored = c.Entries[0].Data, storedAt(&c.Entries[0]) != 0
	if r.overdue() {
		return
	}
	retrying := r.head.Status == journal.Waiting && r.head.Cause != "" // its code failed last
	r.head.Cause = ""
	if r.head.Status == journal.Pending || retrying || m.build != k.cfg.Build {
		r.append(journal.Entry{
			Kind: journal.RunClaimed, Status: journal.Running,
			Detail: &journal.Detail{Build: k.cfg.Build, Engine: k.engine},
		})
	}
	r.entered = r.seq
	r.hold(r.root)
}

// release gives the run back as it was claimed.
func (r *run) release() {
	r.leaveHead(r.head.Status, r.head.Cause, r.head.Wake)
	r.append(journal.Entry{Kind: journal.StatusChanged, Status: r.head.Status})
	r.leave()
	r.seal(r.seq)
	r.whenDurable(effect{do: r.k.look})
}

// overdue ends a run whose overall timeout has passed, or sets the timer that
// will.
func (r *run) overdue() bool {
	deadline := r.deadline()
	if deadline.IsZero() {
		return false
	}
	left := time.Until(deadline)
	if left <= 0 {
		r.timeOut()
		return true
	}
	r.timeout = time.AfterFunc(left, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone() {
			r.timeOut()
		}
	})
	return false
}

// deadline is when the overall timeout passes; zero without one.
func (r *run) deadline() time.Time {
	if r.def == nil || r.def.Timeout <= 0 {
		return time.Time{}
	}
	return r.head.Created.Add(r.def.Timeout)
}

// admit makes r resident.
func (k *Kernel) admit(r *run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resident[r.head.Number] = r
}

// forget takes r out of memory, wakes those who wait for its end elsewhere, and
// claims a run that waits for the slot.
func (k *Kernel) forget(r *run) {
	k.mu.Lock()
	if k.resident[r.head.Number] == r {
		delete(k.resident, r.head.Number)
	}
	if e := k.ends[r.head.Number]; e != nil && r.end != nil {
		close(e.ended)
		delete(k.ends, r.head.Number)
	}
	queued := k.queued
	k.mu.Unlock()
	if queued {
		k.look()
	}
}

// residence gives the residence of a run for a command: the one that it has, or
// one made to write a mark; nil where neither can be had now. judge says of the
// run as it was claimed whether there is still something to do; where there is
// not, it goes on as any claimed run.
func (k *Kernel) residence(n journal.Number, judge func(journal.Head) error) (*run, error) {
	k.claiming.Lock()
	defer k.claiming.Unlock()
	if r := k.residentRun(n); r != nil {
		return r, nil
	}
	claimed, err := k.claim(store.Claim{Run: n})
	if err != nil {
		k.look()
		return nil, k.unavailable("claim", err)
	}
	if len(claimed.Runs) == 0 {
		return nil, nil
	}
	c := claimed.Runs[0]
	if !errors.Is(judge(c.Head), errOpen) {
		k.adopt(c)
		return nil, nil
	}
	m := newMemo(c.Entries, k.cfg.Build)
	m.last = c.Last
	r := k.newRun(c.Head, k.Lookup(c.Head.Workflow), m)
	close(r.begun)
	k.admit(r)
	return r, nil
}

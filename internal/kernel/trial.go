package kernel

import (
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A run may kill its engines, for example because it takes all memory. For each run, the store
// counts how many engines in a row have died with it while it recorded nothing. But it cannot know
// which run was at fault. A run that had begun nothing is counted too, and so is every run that is
// in a step when the process is killed from outside.
//
// So that count only makes a run a suspect. A suspect is tried: its code is called while no other
// suspect's is, and a record of the trial comes before it begins. Whatever the run records next
// acquits it. If the engine dies first, that record is the last of the journal, and the next trial
// has the next number. After enough trials in a row the run is parked.
//
// Runs that are no suspects go on meanwhile. A trial that lasts long must not hold up the other
// suspects for ever: after a while the run is acquitted by a record of its own.

const (
	// a run is a suspect after MaxCrashes/suspectShare deaths; the other deaths have to come on
	// trial
	suspectShare = 4
	trialLimit   = 10 * time.Minute // the longest duration of a trial
)

// A trialState is the state of a run that may be a suspect.
type trialState uint8

const (
	noTrial  trialState = iota
	awaiting            // a suspect whose code is not called yet
	onTrial
)

// A trial has the trial state of a run, and where its code began.
//
// Invariants: a run that is awaiting is in line, and its code is not called. A run that is on trial
// has the record of the trial in record, which was durable before its code was called. The mu of
// the run guards the trial, but for before, which never changes while the run is in line.
type trial struct {
	state   trialState
	before  int   // the number of earlier trials
	record  int64 // the entry that records the trial
	limit   alarm
	entered int64 // the last entry when the code began here
}

// isAwaiting reports whether the run is in line.
func (t *trial) isAwaiting() bool { return t.state == awaiting }

// isOn reports whether the trial goes on.
func (t *trial) isOn() bool { return t.state == onTrial }

// comesAfter sets the number of earlier trials.
func (t *trial) comesAfter(trials int) { t.before = trials }

// await puts the run in line.
func (t *trial) await() { t.state = awaiting }

// recordAs sets the entry that records the trial.
func (t *trial) recordAs(seq int64) { t.record = seq }

// start begins the trial, and makes f be called when the trial has lasted long.
func (t *trial) start(f func()) {
	t.state = onTrial
	t.limit.set(trialLimit, f)
}

// end ends the trial if the run has left memory, or an entry after its record is durable. It
// reports whether it has ended the trial.
func (t *trial) end(left bool, durable int64) bool {
	if t.state == noTrial || !left && (t.state == awaiting || durable <= t.record) {
		return false
	}
	t.state = noTrial
	t.limit.stop()
	return true
}

// mayAcquit reports whether the run has recorded nothing since its trial has begun.
func (t *trial) mayAcquit(last int64) bool { return t.state == onTrial && last == t.record }

// enter records where the code begins.
func (t *trial) enter(last int64) { t.entered = last }

// isIdle reports whether the code has recorded nothing since it began.
func (t *trial) isIdle(last int64) bool { return last == t.entered }

// A trials has the suspects of an engine. Its lock is taken after a run's.
type trials struct {
	mu      sync.Mutex
	on      *run // the run on trial; nil for none
	waiting []*run
}

// suspects returns the number of deaths after which a run is a suspect.
func (c *Config) suspects() int { return max(c.MaxCrashes/suspectShare, 1) }

// tried returns the number of trials in a row of a claimed run, and reports whether it is a
// suspect.
func (c *Config) tried(claimed *store.Run) (trials int, suspect bool) {
	last := &claimed.Entries[len(claimed.Entries)-1]
	for i := len(claimed.Entries) - 2; i >= 0 && last.Kind.IsOutput(); i-- {
		last = &claimed.Entries[i]
	}
	if last.Kind == journal.RunClaimed && last.Detail != nil && last.Detail.Attempt > 0 {
		return last.Detail.Attempt, true
	}
	return 0, claimed.Head.Crashes >= c.suspects() && last.Kind != journal.RunResumed
}

// add puts a suspect in line: the run with the fewest trials is first. It returns false if too many
// wait already, because they take slots from others. It is called while runs are claimed, and the
// next trial begins when they are.
func (t *trials) add(r *run) bool {
	k := r.k
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > k.cfg.Capacity/2 {
		return false
	}
	at := slices.IndexFunc(t.waiting, func(w *run) bool { return w.trial.before > r.trial.before })
	if at < 0 {
		at = len(t.waiting)
	}
	t.waiting = slices.Insert(t.waiting, at, r)
	go k.claimed(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.on == nil {
			t.next()
		}
	})
	return true
}

// next begins the trial of the first in line.
func (t *trials) next() {
	t.on = nil
	if len(t.waiting) > 0 {
		t.on = t.waiting[0]
		t.waiting = slices.Delete(t.waiting, 0, 1)
		go t.try(t.on)
	}
}

// over removes a run that is acquitted or has left memory.
func (t *trials) over(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(w *run) bool { return w == r })
	if t.on == r {
		t.next()
	}
}

// acquit records that the run has not killed this engine: its code has come to a wait, its trial
// has lasted long, or the engine stops.
func (r *run) acquit() {
	if r.trial.mayAcquit(r.lastProgress()) && !r.gone() {
		r.outside(journal.Entry{Kind: journal.StatusChanged, Status: r.status()})
		r.flush()
	}
}

// try records the trial of a suspect, and then calls its code.
func (t *trials) try(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone() || !r.trial.isAwaiting() {
		return // the run calls over when it departs
	}
	r.trial.recordAs(r.append(r.claim(r.trial.before + 1)))
	r.admission.handOver()
	r.seal()
	r.whenDurable(effect{do: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone() {
			return
		}
		r.trial.start(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acquit()
		})
		r.root.call()
	}})
}

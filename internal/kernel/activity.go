package kernel

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
)

// An activity has the runs and step bodies that a kernel executes, and whether the kernel may go
// on.
//
// Invariants: err is set once, and nothing begins after it, nor while the kernel is draining. No
// activation begins once the activity has ended. Activations and the slots reserved for a claim
// together are at most capacity, except for single runs that were claimed for a command. flying
// counts the step bodies and the calls of listeners that are executed and not given up. landed is
// closed when the kernel is draining and flying is 0. wakeAt is the first time at which a run is
// due, as far as is known.
//
// mu is the kernel's lock: it is taken after every run's.
type activity struct {
	capacity int
	over     chan struct{} // closed when err is set
	memos    atomic.Int64  // bytes of journals of loaded runs

	mu        sync.Mutex
	err       error
	draining  bool
	since     time.Time // when it began to drain
	ended     bool
	flying    int
	landed    chan struct{}
	loaded    map[journal.Number]*run
	abandoned map[*attempt]struct{} // attempts given up that are still executed
	reserved  int                   // slots for the runs of a claim in progress
	queued    bool                  // runs wait for a slot
	wakeAt    time.Time
}

func newActivity(capacity int, dead chan struct{}) activity {
	return activity{
		capacity: capacity, over: dead, landed: make(chan struct{}),
		loaded: map[journal.Number]*run{}, abandoned: map[*attempt]struct{}{},
	}
}

// die records the reason why nothing may be written or begun any more. Only the first cause counts.
// It reports whether this is the first.
func (a *activity) die(err error) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first = a.err == nil; first {
		a.err = err
		close(a.over)
	}
	return first
}

// cause returns the reason why nothing may be written or begun any more; nil if there is none.
func (a *activity) cause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// state returns the reason why the kernel takes no request any more, if there is one, and reports
// whether it is draining.
func (a *activity) state() (err error, draining bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err, a.draining
}

// stops reports whether no activation may begin any more.
func (a *activity) stops() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining || a.err != nil
}

// drains lets nothing begin any more. It returns a channel that is closed when nothing is executed.
func (a *activity) drains() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining, a.since = true, time.Now()
	if a.flying == 0 {
		close(a.landed)
	}
	return a.landed
}

// A Held has the work of an engine: the runs in memory, and the calls in flight.
type Held struct {
	Draining time.Time // since when it drains; zero: it does not
	Until    time.Time // when it waits no longer for the steps
	Runs     int       // in memory
	Calls    int       // of listeners and of the publisher
	Steps    []HeldStep
}

// A HeldStep is an attempt whose body is executed.
type HeldStep struct {
	Run     journal.Head // only what never changes
	Step    string       // its path
	Attempt int
	Since   time.Time
}

// held returns the work of the kernel, the oldest attempt first.
func (k *Kernel) held() Held {
	runs := k.loadedRuns()
	out := Held{Runs: len(runs)}
	for _, r := range runs {
		r.mu.Lock()
		for o := range r.operations.all() {
			if a := o.attempt; a != nil && !a.began.IsZero() {
				out.Steps = append(out.Steps, HeldStep{
					Run: r.identity(), Step: o.path(), Attempt: a.n, Since: a.began,
				})
			}
		}
		r.mu.Unlock()
	}
	slices.SortStableFunc(out.Steps, func(a, b HeldStep) int { return a.Since.Compare(b.Since) })
	k.activity.mu.Lock()
	defer k.activity.mu.Unlock()
	out.Calls = max(k.flying-len(out.Steps), 0)
	if out.Draining = k.since; k.draining {
		out.Until = k.since.Add(k.cfg.Drain)
	}
	return out
}

// Show returns the held work as one line. It names at most so many steps.
func (h Held) Show(most int) string {
	text := fmt.Sprintf("%d runs in memory, %d steps in flight", h.Runs, len(h.Steps))
	if h.Calls > 0 {
		text += fmt.Sprintf(", %d calls of listeners", h.Calls)
	}
	for i, s := range h.Steps {
		if i == most {
			return text + fmt.Sprintf("; and %d more", len(h.Steps)-most)
		}
		text += fmt.Sprintf("; %s of %s (%s) for %v", s.Step, s.Run.WorkflowID, s.Run.Workflow,
			time.Since(s.Since).Round(time.Millisecond))
	}
	return text
}

// end lets no further activation begin.
func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

// takeOff counts a step body that begins. It returns false if no body may begin.
func (a *activity) takeOff() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining || a.err != nil {
		return false
	}
	a.flying++
	return true
}

// land counts a step body that has returned or was given up.
func (a *activity) land() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flying--
	if a.draining && a.flying == 0 {
		close(a.landed)
	}
}

// giveUp counts an attempt as landed although its goroutine goes on.
func (a *activity) giveUp(t *attempt) {
	a.mu.Lock()
	a.abandoned[t] = struct{}{}
	a.mu.Unlock()
	a.land()
}

// returned counts an attempt as landed when its goroutine returns, unless it was given up.
func (a *activity) returned(t *attempt) {
	a.mu.Lock()
	_, known := a.abandoned[t]
	delete(a.abandoned, t)
	a.mu.Unlock()
	if !known {
		a.land()
	}
}

// isGivenUp reports whether an attempt was given up and its goroutine goes on. An engine that has
// stopped notifies nobody, so the answer is no.
func (a *activity) isGivenUp(t *attempt) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, is := a.abandoned[t]
	return is && a.err == nil
}

// givenUp returns the paths of the attempts of a run that were given up and go on.
func (a *activity) givenUp(n journal.Number) (paths []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t := range a.abandoned {
		if t.op.run.number() == n {
			paths = append(paths, t.op.path())
		}
	}
	return paths
}

// loadedRuns returns the runs that are in memory.
func (a *activity) loadedRuns() []*run {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*run, 0, len(a.loaded))
	for _, r := range a.loaded {
		all = append(all, r)
	}
	return all
}

// perPattern returns how many runs of each pattern are in memory, without the engine's own.
func (a *activity) perPattern() map[string]int {
	n := map[string]int{}
	for _, r := range a.loadedRuns() {
		if h := r.identity(); !rules.IsOwn(h.Workflow) {
			n[h.Pattern.String()]++
		}
	}
	return n
}

// loadedRun returns the activation of a run, or nil.
func (a *activity) loadedRun(n journal.Number) *run {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loaded[n]
}

// admit adds a claimed run to the loaded runs. It returns false if the engine has stopped
// meanwhile.
func (a *activity) admit(r *run) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return false
	}
	a.loaded[r.number()] = r
	a.reserved = max(a.reserved-1, 0)
	return true
}

// takeSlot adds a new run to the loaded runs and returns true if there is a slot for it.
func (a *activity) takeSlot(r *run) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.loaded)+a.reserved >= a.capacity {
		a.queued = true
		return false
	}
	a.loaded[r.number()] = r
	return true
}

// dismiss removes a run from the loaded runs. It reports whether others wait for its slot.
func (a *activity) dismiss(r *run) (queued bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded[r.number()] == r {
		delete(a.loaded, r.number())
	}
	return a.queued
}

// reserve reserves up to most slots for a claim. It also forgets the time when a run is due,
// because the claim returns that time.
func (a *activity) reserve(most int) (slots int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil && !a.draining {
		slots = max(min(a.capacity-len(a.loaded), most), 0)
	}
	a.queued, a.wakeAt, a.reserved = slots == 0, time.Time{}, slots
	return slots
}

// unreserve frees the slots that a claim has not filled.
func (a *activity) unreserve() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved = 0
}

// isFull reports whether runs wait for a slot.
func (a *activity) isFull() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queued
}

// isIdle reports whether no run is loaded, and none is known to be due by then.
func (a *activity) isIdle(by time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.loaded) == 0 && a.reserved == 0 &&
		(a.wakeAt.IsZero() || a.wakeAt.After(by))
}

// dueAt returns when a run is due, as far as is known; zero means never.
func (a *activity) dueAt() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wakeAt
}

// isDueBy records that a run is due at that time. It reports whether that is sooner than was known.
func (a *activity) isDueBy(t time.Time) (sooner bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.wakeAt
	a.wakeAt = earlier(before, t)
	return a.wakeAt != before
}

// weigh adds to the bytes of journals in memory; bytes is below 0 when a run leaves.
func (a *activity) weigh(bytes int64) { a.memos.Add(bytes) }

// isHeavy reports whether more than so many bytes of journals are in memory.
func (a *activity) isHeavy(most int) bool { return a.memos.Load() > int64(most) }

// Package kernel executes runs.
//
// A run is ordinary code that is run again from the top after every crash.
// The journal makes that safe: each durable operation is looked up
// there before it is performed, and recorded there before anything outside the
// run depends on it. The package has four parts:
//
//   - memo, a pure function of the journal: what has already happened;
//   - pipeline, the only writer: makes what happens next durable;
//   - run, the execution between the two: one lock around value types, each of which has a
//     file with its promises (log, turns, operations, waits, inbox, values, ending,
//     activation and a few more);
//   - Kernel, which starts runs, takes over those that others left, and stops.
//
// An Engine is around them: if a kernel loses its right to write, the engine continues with another
// kernel.
//
// DESIGN.md beside this file argues the hard parts, lists the value types, and has the order in
// which to read the files.
package kernel

import (
	"cmp"
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

// A Config has the settings of a kernel. The caller sets every field.
type Config struct {
	// the name of the program's build; journals of another build are replayed by name
	Build      string
	Self       store.Engine     // as other engines see this one
	Observers  *observe.Set     // may be nil
	Clock      func() time.Time // nil for the clock of the machine; see clock
	Trace      observe.Trace
	Capacity   int           // runs in memory at a time; further runs wait as PENDING
	Drain      time.Duration // how long Run waits for steps in flight when ctx ends
	MaxPayload int           // bytes of one input, result or output
	MaxStreams int           // bytes that the steps of a run put into streams
	SpillOver  int           // a payload above this many bytes is kept in rows of its own
	MaxPending int           // bytes not yet durable; above it no step begins and Start waits
	MaxCrashes int           // engines that die in a row while executing a run before it is parked

	// how long a run that waits stays in memory; at most 0: it leaves at once
	IdleTimeout time.Duration
	// bytes of journals in memory; above it nothing is claimed, and waiting runs leave
	MaxLoaded int
	// how often the store is asked for due runs without a reason; below 0 never
	Sweep     time.Duration
	SweepOnly bool          // due runs are found by sweeps only
	KeepPosts time.Duration // how long an unrouted signal is kept
	// Around is the interceptor: it is called around the body of every step; nil for none.
	Around func(
		ctx context.Context, step StepInfo, body func(context.Context) *journal.Failure,
	) *journal.Failure
	// Retain is how long runs are kept after their end, if their workflow has no retention of its
	// own.
	Retain journal.Retention
	// how often runs and messages are removed that are kept no longer; 0 for never
	CleanUp time.Duration
	// KeepDeadLettered is how long a run with a dead letter is kept after its end.
	KeepDeadLettered time.Duration
	// Timeouts are the overall timeouts of workflows whose authors have set none, by pattern; at
	// most 0 for none. A pattern without an entry has that of its package.
	Timeouts map[journal.Pattern]time.Duration
	// UndoPolicy and OnUndoError are the names of how patterns undo whose definitions do not say.
	UndoPolicy, OnUndoError string
	Backpressure            []byte // the encoded policy of definitions that leave it to the engine
	// NoLifecycle leaves out the listeners that publish lifecycle events.
	NoLifecycle bool
	// Failure returns the recorded form of an error of a transaction of the user's.
	Failure func(error) *journal.Failure
}

// A Workflow is a definition as a kernel knows it.
type Workflow struct {
	Name    string
	Pattern journal.Pattern
	First   journal.Status // the status of its runs until their code sets another; zero for RUNNING
	// CleansUp is set if the code plans a clean-up before anything else. That clean-up is not
	// recorded.
	CleansUp bool
	// ByName lets operations go on that are new in another build, whatever lies ahead.
	ByName  bool
	Timeout time.Duration     // of the whole run; 0 for none
	Timed   bool              // Timeout is the author's
	Layers  [][]string        // the steps that it declares, layer by layer; nil for none
	Retain  journal.Retention // empty for the engine's retention
	// Limits returns what a run with that input has to get before its code is called: slots and
	// tokens of limits, numbered from -1 downwards. It may be nil, and may call the author's code.
	Limits func(input []byte) ([]store.Ask, *journal.Failure)
	// Limit is the name of that limit; empty for none. Bounds are the numbers that it has.
	Limit  string
	Bounds []store.Adjust
	// Singleton is the way in which a run meets the run that has the slot rules.OneSlot.
	Singleton Singleton
	// Gather is set if a run that has that slot gathers starts before it begins.
	Gather *Gather
	// Listeners are told when a run has ended.
	Listeners []*Listener
	Changes   *observe.Changes // the names of its runs' changes of state; nil for the usual ones
	// Next is the retry policy of steps that have none. See Work.
	Next func(n int, f *journal.Failure) (time.Duration, bool)
	// Keep is the rule for the log lines of steps that have none. See Work.
	Keep func(level int) (attempt, run int)
	// Panics returns how long after the n-th panic in a row of the run's code the code is replayed;
	// false parks the run.
	Panics func(n int) (time.Duration, bool)
	// Body is the user's code. It is called on a goroutine of the run, with the
	// turn.
	Body func(ctx context.Context, input []byte) ([]byte, *journal.Failure)
}

// A Kernel executes runs as one engine of a store: from its join until it leaves or must not write
// any more. Many goroutines may call its methods.
type Kernel struct {
	FrontEnd
	*shared
	activity  // the runs that it has in memory and executes
	claims    // how it takes up runs
	obedience // to the settings of operators
	retrier   // asks the store until it answers
	observers // hear of durable entries
	prompt    // wakes the dispatcher

	cfg     Config
	again   bool             // the engine had another kernel before
	ready   chan struct{}    // closed when the engine has joined, or never will
	dead    chan struct{}    // closed when the engine must not go on; the cause is the reason
	engine  journal.EngineID // set before ready
	counter atomic.Int64     // the count of numbers that this engine has used

	lease   lease
	roster  roster
	loops   loops
	lanes   lanes
	gate    gate
	buffers buffers
	late    lateness
	lends   lending
	idle    idleRuns
	trials  trials
}

// newKernel returns a kernel that executes nothing before it has joined.
func newKernel(s store.Store, cfg Config, all *shared) *Kernel {
	k := &Kernel{
		cfg: cfg, shared: all, lease: lease{born: time.Now(), renews: lock.New()},
		ready: make(chan struct{}), dead: make(chan struct{}),
	}
	k.FrontEnd = newFrontEnd(s, &cfg)
	k.writers = k
	k.claims, k.retrier = newClaims(k), retrier{k}
	k.obedience = obedience{k: k, adjusting: lock.New()}
	k.loops.k, k.roster.k = k, k
	k.loops.watch.again = make(chan struct{}, 1)
	k.loops.retention.again = make(chan struct{}, 1)
	k.prompt, k.observers = newPrompt(), observers{cfg.Observers, k.clock}
	k.activity = newActivity(cfg.Capacity, k.dead)
	k.gate.limit = int64(cfg.MaxPending)
	for range lanesOf(s) {
		k.lanes.add(newPipeline(k.commit, k.observe))
	}
	return k
}

// serve executes runs until ctx ends or the engine must not write any more, and then stops.
// Stopping, it waits at most the drain time for steps in flight, makes the recorded entries
// durable, for which a store that does not answer has as much time again, and hands the runs over.
// It is called once, after the kernel has joined.
func (k *Kernel) serve(ctx context.Context) error {
	var loops sync.WaitGroup
	k.lanes.run(&loops)
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	var others sync.WaitGroup
	if w := store.AbilitiesOf(k.store).Watcher; w != nil {
		// when another process has written
		others.Go(func() {
			k.loops.keep(beside, &k.loops.watch, func() {
				w.Watch(beside, func() { k.loops.watch.turn(); k.look(); k.recheck() })
			})
		})
	}
	keep, letGo := context.WithCancel(context.WithoutCancel(ctx))
	defer letGo()
	var keeping sync.WaitGroup
	if k.lease.period > 0 || k.cfg.Sweep > 0 { // without both, nothing else uses the store
		keeping.Go(func() { k.keepLease(keep) })
	}
	calls, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	others.Go(newDispatcher(k, beside, calls).run)
	if k.cfg.CleanUp > 0 {
		others.Go(func() {
			k.loops.keep(beside, &k.loops.retention, func() { k.cleanUp(beside) })
		})
	}
	k.claimLoop(ctx)
	cancel()
	others.Wait()
	k.drain()
	hangUp()
	k.leaveAll()
	k.lanes.stop()
	given := time.AfterFunc(max(k.cfg.Drain, time.Second), func() {
		k.die(&journal.Error{
			Code: journal.CodeUnavailable, Op: "run",
			Message: "the engine had to stop while the store did not answer",
			Hint: "nothing that was acknowledged is lost: the next engine goes on from what is " +
				"durable",
		})
	})
	loops.Wait()
	given.Stop()
	k.end()
	k.leaveAll()
	for _, r := range k.loadedRuns() {
		r.depart()
	}
	letGo()
	keeping.Wait()
	return k.leave()
}

// join makes this an engine of the store. On an error it reports whether to try again: not if the
// store is for one engine and may have it by now, and not if no answer will come.
func (k *Kernel) join(ctx context.Context) (again bool, err error) {
	info, err := brief(ctx, k.store)
	if err != nil {
		return !final(err) && !errors.Is(err, store.ErrEncoded), unavailable("run", err)
	}
	sent := time.Now()
	self := k.cfg.Self
	self.Workflows = k.names()
	claimed, err := k.store.Claim(ctx, store.Join{Self: self, Now: k.Now()})
	if err != nil {
		if errors.Is(err, store.ErrLocked) {
			return false, &journal.Error{
				Code: journal.CodeConflict, Op: "run", Err: err,
				Hint: "one engine at a time has this store: stop the other one first",
			}
		}
		return !final(err) && !info.Now.IsZero(), unavailable("run", err)
	}
	k.engine = claimed.Engine
	k.db.Store(&info.Database)
	k.lease.extend(sent, &claimed, func() { k.holds() })
	k.roster.told.Store(int64(len(self.Workflows)))
	k.learn(info.Settings) // before anybody starts a run
	go k.loops.forget(&info)
	close(k.ready)
	k.roster.tell()
	return false, nil
}

// How often a kernel that drains says what it holds, and how many steps it names.
const (
	drainEvery = 5 * time.Second
	drainNames = 10
)

// drain lets steps in flight end and begins no new ones. It returns when all have ended or the time
// is up. Observers hear what it waits for, and what it leaves behind. Other processes see it in the
// store, unless nothing is in flight.
func (k *Kernel) drain() {
	landed := k.drains()
	telling, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := time.NewTimer(k.cfg.Drain)
	defer over.Stop()
	again := time.NewTicker(drainEvery)
	defer again.Stop()
	for n := 1; ; n++ {
		held := k.held()
		if len(held.Steps)+held.Calls > 0 && time.Now().Before(held.Until) {
			k.observe(observe.Notice{
				Kind: observe.EngineDraining, Attempt: n, Due: held.Until,
				Rows: len(held.Steps), Reason: held.Show(drainNames),
			})
			go func() { _, _, _ = k.renewOnTime(telling, drainEvery) }() // others see it then
		}
		select {
		case <-landed:
			return
		case <-k.dead:
			return
		case <-over.C:
			if held := k.held(); len(held.Steps)+held.Calls > 0 {
				k.observe(observe.Notice{
					Kind: observe.StepsLeft, Took: k.cfg.Drain,
					Rows: len(held.Steps), Reason: held.Show(drainNames),
				})
			}
			return
		case <-again.C:
		}
	}
}

// leaveAll ends the activation of every run. Their entries stay in the pipeline.
func (k *Kernel) leaveAll() {
	for _, r := range k.loadedRuns() {
		r.mu.Lock()
		if !r.over() {
			r.acquit()
			if holdUnbegun(r) {
				r.seal()
			}
			r.flush()
			r.leave()
		}
		r.stop(ErrUnloaded)
		r.ending.stop(ErrUnloaded)
		r.mu.Unlock()
	}
}

// leaveTries limits how often a stopping engine asks a store that does not answer to take its runs
// back. The next engine takes them all the same.
const leaveTries = 5

// leave hands over everything that the engine owned. If the answer was lost, a second leave finds
// the engine gone, which is as good.
func (k *Kernel) leave() error {
	select {
	case <-k.dead:
		return k.cause()
	default:
	}
	wait := 10 * time.Millisecond
	var err error
	for range leaveTries {
		_, err = k.store.Claim(context.Background(), store.Leave{Engine: k.engine, Now: k.Now()})
		if err == nil || final(err) {
			break
		}
		k.pause(&wait)
	}
	k.die(&journal.Error{Code: journal.CodeStopped, Op: "run", Message: "the engine has stopped"})
	if err != nil && !errors.Is(err, store.ErrFenced) {
		return unavailable("leave", err)
	}
	return nil
}

// hasJoined reports whether the kernel has joined the store, or has failed to.
func (k *Kernel) hasJoined() bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

// running waits until the engine has joined. It fails when the engine has stopped or ctx ends.
func (k *Kernel) running(ctx context.Context, op string) error {
	if k.hasJoined() {
		ctx = context.Background() // otherwise chance would decide between the cases
	}
	select {
	case <-k.ready:
	case <-ctx.Done():
		if k.again {
			return away(ctx, op)
		}
		return &journal.Error{
			Code: journal.CodeStopped, Op: op, Message: "the engine does not run",
			Err:  context.Cause(ctx),
			Hint: "call Engine.Run on a goroutine of its own",
		}
	}
	err, draining := k.state()
	if err != nil {
		return err
	}
	if draining {
		return &journal.Error{
			Code: journal.CodeStopped, Op: op, Message: "the engine is stopping",
			Hint: "ask another one",
		}
	}
	return nil
}

// unavailable returns an error of this module for a store that did not answer. A damaged journal
// stays a damaged journal.
func unavailable(op string, err error) error {
	var corrupt *journal.CorruptError
	if errors.As(err, &corrupt) {
		return &journal.Error{
			Code: journal.CodeCorrupt, Op: op, Message: "its journal is damaged", Err: err,
			Hint: "no engine runs it past the damage: restore a backup of the database, or " +
				"cancel the run",
		}
	}
	if errors.Is(err, store.ErrClosed) {
		return &journal.Error{
			Code: journal.CodeStopped, Op: op, Message: "the store is closed", Err: err,
		}
	}
	if refused := refusedBy(err); refused != nil {
		e := *refused
		e.Op = cmp.Or(op, e.Op)
		return &e
	}
	e := &journal.Error{
		Code: journal.CodeUnavailable, Op: op, Message: "the store does not answer", Err: err,
	}
	switch {
	case errors.Is(err, store.ErrLost):
		e.Message, e.Hint = "what was acknowledged last may be lost", "bring the database back "+
			"to its place or restore a backup, and then start the engine again"
	case errors.Is(err, store.ErrEncoded):
		e.Message, e.Hint = "its settings cannot be read", "give the store the codec and the keys "+
			"by which they were written"
	case errors.Is(err, store.ErrDamaged):
		e.Code, e.Message, e.Hint = journal.CodeCorrupt, "the store cannot be read",
			"keep the database for an examination, and restore a backup"
	}
	return e
}

// refusedBy returns the error by which a store refuses the caller for good; nil if there is none.
func refusedBy(err error) *journal.Error {
	var refused *journal.Error
	errors.As(err, &refused)
	return refused
}

// lanesOf returns how many commits at a time make the store faster.
func lanesOf(s store.Store) int {
	if p := store.AbilitiesOf(s).Parallel; p != nil {
		return max(p.Lanes(), 1)
	}
	return 1
}

// number returns a number that no run or payload has.
func (k *Kernel) number() (journal.Number, error) {
	return journal.MakeNumber(k.engine, k.counter.Add(1))
}

// commit is the pipeline's environment: it sends one group. It returns only errors that another try
// cannot fix.
func (k *Kernel) commit(g *store.Group) error {
	g.Engine = k.engine
	wait := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		if !k.holds() {
			return store.ErrFenced
		}
		g.Now = k.Now()
		err := k.store.Commit(context.Background(), g)
		var data *store.DataError
		switch {
		case err == nil:
			k.recovered(tries)
			k.granted(g)
			return nil
		case errors.As(err, &data):
			return err
		case held(err):
			if !k.lives() {
				return store.ErrClosed
			}
			return err
		case over(err):
			k.fenced("commit", err)
			return err
		}
		k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
		g.Again = true
		if !k.pause(&wait) {
			return store.ErrClosed
		}
	}
}

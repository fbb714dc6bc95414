package kernel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// An Engine executes runs on a store by kernels, one after the other. Most engines have one kernel
// all their life. If the store has leases and the engine loses its own, the kernel that had the
// lease is over, with all that it has in memory, and another kernel joins as soon as the store
// answers. Many goroutines may call its methods.
type Engine struct {
	FrontEnd
	*shared
	cfg Config

	mu      sync.Mutex
	begun   bool // Run was called
	kernel  *Kernel
	changed chan struct{} // closed when there is another kernel
}

// New returns an engine that executes nothing before Run.
func New(s store.Store, cfg Config) *Engine {
	e := &Engine{cfg: cfg, shared: newShared(), changed: make(chan struct{})}
	e.FrontEnd = newFrontEnd(s, &cfg)
	e.numbers, e.writers = newClientNumbers(s), e
	e.silent = cfg.NoLifecycle
	e.kernel = newKernel(s, cfg, e.shared)
	return e
}

// BelongsTo sets the engine of the application, which [OwnerOf] returns. It is called once, before
// Run.
func (e *Engine) BelongsTo(owner any) { e.owner = owner }

// Register adds a workflow to the engine. It fails if the engine has one of that name.
func (e *Engine) Register(w *Workflow) error {
	if !e.add(w) {
		return &journal.Error{
			Code: journal.CodeDuplicate, Op: "register " + w.Name,
			Message: "a workflow of this name is registered already",
			Hint: "names are what running workflows are found by: give this one a name of its " +
				"own",
		}
	}
	k, _ := e.current()
	k.look()
	k.readOn()
	k.roster.tell()
	return nil
}

// Run joins the store, executes runs until ctx ends, and stops in good order. An engine that has
// lost its lease joins again. It returns an error if its store has no leases and was taken over, or
// if its store was closed. It is called once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.begun {
		e.mu.Unlock()
		return &journal.Error{
			Code: journal.CodeMisuse, Op: "run", Message: "an engine runs once",
			Hint: "make a new one",
		}
	}
	e.begun = true
	k := e.kernel
	e.mu.Unlock()
	if stopped, err := firstJoin(ctx, k); err != nil {
		k.die(err)
		close(k.ready)
		if stopped {
			return nil
		}
		return err
	}
	e.db.Store(k.db.Load())
	var beside sync.WaitGroup // kernels that are over and have not returned yet
	defer beside.Wait()
	if k.lease.period > 0 {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		beside.Go(func() { e.watchEnds(watching) })
	}
	for {
		served := make(chan error, 1)
		beside.Go(func() { served <- k.serve(ctx) })
		select {
		case <-k.dead:
		case err := <-served:
			served <- err
		}
		stopping := ctx.Err() != nil
		if !k.lost() {
			return <-served
		}
		if k = e.rejoin(ctx); k == nil && stopping {
			return <-served
		} else if k == nil && ctx.Err() == nil { // the store was closed
			k, _ = e.current()
			return k.cause()
		} else if k == nil {
			return nil
		}
	}
}

// joinTries limits how often an engine tries to join for the first time, which takes some 20 s: a
// session may be lost, or a server be about to start.
const joinTries = 30

// firstJoin joins the first kernel to the store. If the store does not answer, it returns an error,
// and the caller decides; see rejoin. It reports whether it has failed because ctx has ended.
func firstJoin(ctx context.Context, k *Kernel) (stopped bool, err error) {
	for tries := 1; ; tries++ {
		again, err := k.join(ctx)
		if ended := ctx.Err(); err != nil && ended != nil {
			return again || errors.Is(err, ended), err
		}
		if err == nil || !again || tries == joinTries {
			return false, err
		}
		k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
		delay(ctx, jitter(tries))
	}
}

// delay waits until the time is over or ctx ends.
func delay(ctx context.Context, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// rejoin joins another kernel to the store, for as long as that takes. It returns nil when ctx ends
// first, or the store was closed.
func (e *Engine) rejoin(ctx context.Context) *Kernel {
	began := time.Now()
	k := newKernel(e.store, e.cfg, e.shared)
	k.again = true
	e.mu.Lock()
	timeout := max(e.kernel.lease.period/3, 2*time.Second)
	e.kernel = k
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	var err error
	for tries := 1; ctx.Err() == nil && !errors.Is(err, store.ErrClosed); tries++ {
		trying, cancel := context.WithTimeout(ctx, timeout)
		_, err = k.join(trying)
		cancel()
		if err == nil {
			k.observe(observe.Notice{
				Kind: observe.LeaseRegained, Attempt: tries, Took: time.Since(began),
			})
			return k
		}
		k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
		delay(ctx, jitter(tries))
	}
	k.die(&journal.Error{
		Code: journal.CodeStopped, Op: "run", Message: "the engine has stopped", Err: err,
	})
	close(k.ready)
	return nil
}

// current returns the kernel, and a channel that is closed when there is another one.
func (e *Engine) current() (*Kernel, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kernel, e.changed
}

// running waits for a kernel that has joined.
func (e *Engine) running(ctx context.Context, op string) (*Kernel, error) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok && a.op.work.Tx &&
		a.op.run.k.shared == e.shared {
		return nil, &journal.Error{
			Code: journal.CodeMisuse, Op: op,
			Message: "called in the body of step " + a.op.path() +
				", whose transaction may have the store's only lock",
			Hint: "do it with the transaction (StartTx, SendTx), or in a step of its own",
		}
	}
	if k, _ := e.current(); !k.hasJoined() {
		defer e.remind(op).Stop()
	}
	for {
		k, changed := e.current()
		err := k.running(ctx, op)
		if !errors.Is(err, errLost) {
			return k, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, away(ctx, op)
		}
	}
}

// reminded is how long a call waits for Run before observers hear of it.
const reminded = time.Second

// remind notifies observers that a call waits for an engine that does not run, unless the timer
// that it returns is stopped before.
func (e *Engine) remind(op string) *time.Timer {
	return time.AfterFunc(reminded, func() {
		e.mu.Lock()
		begun := e.begun
		e.mu.Unlock()
		if !begun {
			e.cfg.Observers.Tell(observe.Notice{
				Kind: observe.EngineNotRunning, At: e.Now(),
				Reason: op + " waits: call Engine.Run on a goroutine of its own",
			})
		}
	})
}

// away returns the error for an engine that has no lease and did not get one in time.
func away(ctx context.Context, op string) error {
	return &journal.Error{
		Code: journal.CodeUnavailable, Op: op,
		Message: "the engine has lost its lease and has not joined again: nothing was done",
		Err:     context.Cause(ctx),
	}
}

// open implements writers. The first kernel may have joined just now.
func (e *Engine) open(ctx context.Context, op string) (writer, error) {
	k, err := e.running(ctx, op)
	if err == nil {
		e.db.Store(k.db.Load())
	}
	return k, err
}

// Start makes a run durable, or finds the run that its ID stands for. When it returns without an
// error, the run is never lost. When ctx ends first, or the engine loses its lease, the run may or
// may not be started: the same start with the same ID finds it out. A ctx that has ended already
// starts nothing.
func (e *Engine) Start(ctx context.Context, s Start) (Started, error) {
	if err := notBegun(ctx, "start "+s.Workflow); err != nil {
		return Started{}, err
	}
	for {
		k, err := e.running(ctx, "start "+s.Workflow)
		if err != nil {
			return Started{}, err
		}
		started, err := k.start(ctx, s)
		if !errors.Is(err, errLost) {
			return started, err
		}
	}
}

// Live returns the state of a run in the engine's memory.
func (e *Engine) Live(n journal.Number) Live {
	k, _ := e.current()
	return k.live(n)
}

// Load returns how much the engine has to do now.
func (e *Engine) Load() observe.Load {
	k, _ := e.current()
	return observe.Load{Runs: k.perPattern(), Queue: k.lanes.waiting()}
}

// Held returns the runs that the engine has in memory, and the steps that it executes, the oldest
// first.
func (e *Engine) Held() Held {
	k, _ := e.current()
	return k.held()
}

// Purge removes the runs whose retention is over, in small batches, and the unrouted signals that
// were kept for too long. It returns how many of each it has removed.
func (e *Engine) Purge(ctx context.Context) (runs, messages int, err error) {
	for {
		k, err := e.running(ctx, "purge")
		if err != nil {
			return runs, messages, err
		}
		r, m, err := k.purge(ctx)
		runs, messages = runs+r, messages+m
		if !errors.Is(err, errLost) {
			return runs, messages, err
		}
	}
}

// LoopRenewal is the name of the loop that renews the engine's lease, and writes to the store when
// all loops had their latest turns.
const LoopRenewal = "renewal"

// The names of the other loops of an engine.
const (
	loopClaims    = "claims"
	loopOutbox    = "outbox"
	loopWatch     = "watch"
	loopRetention = "retention"
)

// A Loop is a loop of an engine as it is now.
type Loop struct {
	store.Loop
	Stopped string // the reason why it has stopped; empty while it runs
}

// loops are the loops of a kernel. The loops for claims, renewals and the outbox go on until the
// kernel is over. The others call only the store, and may stop before: if the store's code panics,
// or if its Watch returns too soon. An operator lets them begin again.
type loops struct {
	k                                         *Kernel
	claims, renewal, outbox, watch, retention loop
}

// A loop knows when it was seen last.
type loop struct {
	beat  atomic.Int64
	again chan struct{} // asks to begin again

	mu      sync.Mutex
	stopped string
}

// turn records that a turn begins.
func (l *loop) turn() { l.beat.Store(time.Now().UnixNano()) }

// stop sets the reason why the loop has stopped; empty if it begins again.
func (l *loop) stop(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = reason
}

func (l *loop) whyStopped() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Loops returns the ID of the engine, and its loops as they are now.
func (e *Engine) Loops() (journal.EngineID, []Loop) {
	k, _ := e.current()
	return k.engine, k.loops.now()
}

// now returns the loops that have begun, and are not over because the engine drains.
func (x *loops) now() (all []Loop) {
	k := x.k
	add := func(l *loop, name string, every time.Duration) {
		if beat := l.beat.Load(); beat != 0 {
			all = append(all, Loop{Stopped: l.whyStopped(), Loop: store.Loop{
				Name: name, Every: max(every, 0), Age: time.Since(time.Unix(0, beat)),
			}})
		}
	}
	renewal, outbox := k.lease.period*store.IdleLeases, k.cfg.Sweep
	if k.lease.period == 0 {
		renewal, outbox = tellEvery, 0
	}
	if _, draining := k.state(); !draining {
		add(&x.claims, loopClaims, k.cfg.Sweep)
		add(&x.outbox, loopOutbox, outbox)
		add(&x.watch, loopWatch, 0)
		add(&x.retention, loopRetention, k.cfg.CleanUp)
	}
	add(&x.renewal, LoopRenewal, renewal)
	return all
}

// running returns the loops for the store. Those that have stopped have settings there.
func (x *loops) running() (all []store.Loop) {
	for _, l := range x.now() {
		if l.Stopped == "" {
			all = append(all, l.Loop)
		}
	}
	return all
}

// Config returns the settings of the engine.
func (e *Engine) Config() Config { return e.cfg }

// keep calls do, which returns when ctx ends or the kernel is over. If do returns or panics
// before, the loop has stopped: a setting has the reason, and keep calls do again when an
// operator removes the setting.
func (x *loops) keep(ctx context.Context, l *loop, do func()) {
	k := x.k
	for {
		l.turn()
		reason := "it has ended too soon"
		guard.Run(do, func(abort *guard.Abort) {
			if abort != nil {
				reason = abort.Error()
			}
		})
		if ctx.Err() != nil || !k.lives() {
			return
		}
		x.tellStopped(ctx, l, reason)
		select {
		case <-l.again:
			l.stop("")
		case <-ctx.Done():
			return
		case <-k.dead:
			return
		}
	}
}

// tellStopped makes known that a loop has stopped. If the store does not take it, the loop begins
// again when the settings have changed.
func (x *loops) tellStopped(ctx context.Context, l *loop, reason string) {
	k := x.k
	name := loopWatch
	if l == &x.retention {
		name = loopRetention
	}
	k.observe(observe.Notice{
		Kind: observe.LoopStopped, Reason: name, Err: reason,
	})
	_ = PutSetting(ctx, &k.FrontEnd, "stop loop "+name, store.Setting{
		Kind: rules.LoopSetting, Name: rules.Loop(int64(k.engine), name), Value: []byte("{}"),
		By: "engine", Reason: strings.ToValidUTF8(reason[:min(len(reason), 250)], ""),
	})
	l.stop(reason)
}

// forget removes the settings for loops of engines that are gone.
func (x *loops) forget(info *store.Info) {
	gone := slices.DeleteFunc(slices.Clone(info.Settings), func(s store.Setting) bool {
		return s.Kind != rules.LoopSetting || s.Value == nil || slices.ContainsFunc(info.Engines,
			func(e store.Engine) bool {
				return !e.Expired && strings.HasPrefix(s.Name, rules.Loop(int64(e.ID), ""))
			})
	})
	if len(gone) == 0 {
		return
	}
	for i := range gone {
		gone[i].Value, gone[i].By, gone[i].At = nil, "engine", x.k.Now()
		gone[i].Reason = "its engine is gone"
	}
	_ = x.k.persist(func() error {
		_, err := x.k.submit(context.Background(), "forget loops", []store.Change{{
			Settings: gone,
		}})
		return err
	})
}

// beginAgain lets loops begin again that have stopped and whose setting an operator has removed.
func (x *loops) beginAgain(all []store.Setting) {
	for name, l := range map[string]*loop{
		loopWatch: &x.watch, loopRetention: &x.retention,
	} {
		if l.whyStopped() != "" && !slices.ContainsFunc(all, func(s store.Setting) bool {
			return s.Kind == rules.LoopSetting && s.Name == rules.Loop(int64(x.k.engine), name) &&
				s.Value != nil
		}) {
			signal(l.again)
		}
	}
}

package perduretest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A Setup says how tests run. The zero value has no workflows and is good
// otherwise.
type Setup struct {
	// Workflows are what the engine knows.
	Workflows []perdure.Definition
	// Options are those of every engine of the test. Where they are zero, the kit
	// has its own: Build is "test"; IdleTimeout is below 0, so that a run leaves memory
	// whenever it waits and its code is replayed from the top, which is what shows
	// a wrong defer or an effect outside of a step; CleanUp and Sweep are below 0,
	// since nothing but the test uses the store; Logger is the log of the test. A long
	// IdleTimeout keeps runs in memory.
	Options perdure.Options
	// Crashes limits how many crashes CrashEverywhere tries; 0 is all. They are
	// chosen at random by Seed; 0 is another one each time, which is logged.
	Crashes int
	Seed    uint64
}

// Test runs test in a bubble of [testing/synctest], with an engine that knows the
// workflows and runs on an empty store in memory. There time is virtual: when
// everything waits, the clock is at the next timer at once. When test returns, the
// engine is stopped in good order, and every journal is checked; what is wrong
// with one fails the test. Steps that ignore their context must have returned by
// themselves then.
func Test(t *testing.T, test func(env *Env), workflows ...perdure.Definition) {
	t.Helper()
	Setup{Workflows: workflows}.Test(t, test)
}

// Test is the function [Test] with everything that a Setup says.
func (s Setup) Test(t *testing.T, test func(env *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.run(t, nil, test)
	})
}

// run runs test in the bubble that it is called in.
func (s Setup) run(t testing.TB, plan *crash, test func(env *Env)) {
	t.Helper()
	env := &Env{
		TB: t, setup: s, workflows: s.Workflows, build: s.Options.Build, db: memory.New(),
		plan: plan,
	}
	if env.build == "" {
		env.build = "test"
	}
	if err := env.begin(); err != nil {
		t.Fatal("perduretest: ", err)
	}
	defer env.end()
	test(env)
}

// An Env is what a test has: a store that outlives engines, the engine of now, and
// the methods of the test itself. Those that say so may be called by the goroutine
// of the test only.
type Env struct {
	testing.TB
	setup Setup
	steps steps
	plan  *crash // nil where nothing crashes by itself

	mu        sync.Mutex
	workflows []perdure.Definition
	build     string
	deploys   int
	db        *memory.Store // the handle that is open
	now       *process
	ids       map[string]int // that the kit made, by what they begin with
}

// A process is one engine and what is to be known of its life.
type process struct {
	eng  *perdure.Engine
	disk *disk
	stop context.CancelFunc
	done chan struct{} // closed when the engine has ended
	err  error         // that it ended with
	next chan struct{} // nil while it lives; closed when the next one does
}

// begin starts the engine that is used from now on.
func (e *Env) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.setup.Options
	if o.Build = e.build; e.deploys > 0 {
		o.Build = fmt.Sprintf("%s-%d", e.build, e.deploys+1)
	}
	o.IdleTimeout, o.CleanUp, o.Sweep = or(o.IdleTimeout), or(o.CleanUp), or(o.Sweep)
	o.Interceptor = e.steps.around(o.Interceptor)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(e.Output(), nil))
	}
	p := &process{
		disk: &disk{Store: e.db, env: e, dead: make(chan struct{})}, done: make(chan struct{}),
	}
	eng, err := perdure.New(p.disk, o)
	if err == nil {
		err = eng.Register(e.workflows...)
	}
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		p.err = eng.Run(ctx)
	}()
	p.eng, e.now = eng, p
	return nil
}

// or gives what the kit has where an option is zero.
func or(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// process gives the process that lives, when there is one.
func (e *Env) process() *process {
	for {
		e.mu.Lock()
		p := e.now
		next := p.next
		e.mu.Unlock()
		if next == nil {
			return p
		}
		<-next
	}
}

// isOver says whether p lives no more.
func (e *Env) isOver(p *process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.next != nil || e.now != p
}

// Engine gives the engine of now. After [Env.Crash], [Env.Restart] and
// [Env.Deploy] it is another one.
func (e *Env) Engine() *perdure.Engine { return e.process().eng }

// Do calls a function with the engine of now, and again with the next one where
// the engine died meanwhile and the call failed by that. It gives what the last
// call gave. In [CrashEverywhere] it is how a caller goes on; so call must bear
// being called again, as every caller of a process that may die must.
func (e *Env) Do(call func(*perdure.Engine) error) error {
	for {
		p := e.process()
		err := call(p.eng)
		if err == nil || !e.isOver(p) || !isStop(err) {
			return err
		}
	}
}

// isStop says whether err is that of a call whose engine has died.
func isStop(err error) bool {
	return errors.Is(err, &perdure.Error{Code: journal.CodeStopped}) ||
		errors.Is(err, &perdure.Error{Code: journal.CodeUnavailable})
}

// Sleep lets virtual time pass, and then everything happen that can without more
// of it. It is called by the goroutine of the test.
func (e *Env) Sleep(d time.Duration) {
	time.Sleep(d)
	e.Settle()
}

// Settle returns when everything has happened that can happen without time
// passing: each goroutine waits. It is called by the goroutine of the test.
func (e *Env) Settle() {
	for {
		synctest.Wait()
		e.mu.Lock()
		next := e.now.next
		e.mu.Unlock()
		if next == nil {
			return
		}
		<-next
	}
}

// Crash ends the engine as the death of its process would: what is not committed
// is lost, contexts end, nothing is handed over. The next engine has the same
// workflows and is the same build; it runs when Crash returns. A step that ignores
// its context goes on, since the language has no way to stop it; what it gives is
// lost.
func (e *Env) Crash() {
	e.Helper()
	p := e.process()
	e.mu.Lock()
	e.die(p)
	e.mu.Unlock()
	e.succeed(p)
}

// die ends what p can do to the store. It is called with the lock.
func (e *Env) die(p *process) {
	p.next = make(chan struct{})
	e.db = e.db.Reopen()
}

// succeed waits for the end of a process that has died, and begins the next one.
func (e *Env) succeed(p *process) {
	close(p.disk.dead)
	<-p.done
	p.stop()
	if err := e.begin(); err != nil {
		e.Errorf("perduretest: the next engine: %v", err)
	}
	close(p.next)
}

// Restart stops the engine in good order, as an operator does, and begins the next
// one, with the same workflows and build.
func (e *Env) Restart() {
	e.Helper()
	e.restart(func() {})
}

// Deploy stops the engine in good order and begins one of another build, which has
// these workflows instead. Runs that the builds before began go on with the new
// code, by the names of what they recorded.
func (e *Env) Deploy(workflows ...perdure.Definition) {
	e.Helper()
	e.restart(func() {
		e.workflows = workflows
		e.deploys++
	})
}

func (e *Env) restart(change func()) {
	e.Helper()
	p := e.process()
	e.mu.Lock()
	p.next = make(chan struct{})
	change()
	e.mu.Unlock()
	p.stop()
	if <-p.done; p.err != nil {
		e.Errorf("perduretest: the engine did not stop in good order: %v", p.err)
	}
	err := e.begin()
	close(p.next)
	if err != nil {
		e.Fatal("perduretest: the next engine: ", err)
	}
}

// end stops the engine and checks the journals.
func (e *Env) end() {
	e.Helper()
	p := e.process()
	p.stop()
	<-p.done
	p = e.process() // it may have died of the plan meanwhile
	p.stop()
	if <-p.done; p.err != nil {
		e.Errorf("perduretest: the engine did not stop in good order: %v", p.err)
	}
	e.audit()
}

// newID gives a workflow ID that the kit has not given yet.
func (e *Env) newID(begin string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids == nil {
		e.ids = map[string]int{}
	}
	e.ids[begin]++
	return fmt.Sprintf("%s-%d", begin, e.ids[begin])
}

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

// A Setup configures tests. The zero value has no workflows and is otherwise valid.
type Setup struct {
	// Workflows are the workflows that the engine registers.
	Workflows []perdure.Definition
	// Options are the options of every engine of the test. For zero fields there are other
	// defaults: Build is "test". IdleTimeout is below 0, so that a run is unloaded whenever it
	// waits, and its code is replayed from the top; that reveals a wrong defer, or an effect
	// outside of a step. CleanUp and Sweep are below 0, since only the test uses the store.
	// Logger is the log of the test. A long IdleTimeout keeps runs loaded.
	Options perdure.Options
	// Crashes limits how many crashes CrashEverywhere tries. Zero means all. They are chosen at
	// random by Seed. A Seed of zero means another one each time, which is logged.
	Crashes int
	Seed    uint64
}

// Test runs test in a bubble of [testing/synctest], with an engine that knows the workflows and
// runs on an empty store in memory. Time is virtual in it: when everything waits, the clock moves
// to the next timer at once. When test returns, the engine is stopped in good order and every
// journal is checked; an incorrect journal fails the test. Steps that ignore their context must
// have returned by themselves by then.
func Test(t *testing.T, test func(env *Env), workflows ...perdure.Definition) {
	t.Helper()
	Setup{Workflows: workflows}.Test(t, test)
}

// Test is the function [Test] with the settings of the Setup.
func (s Setup) Test(t *testing.T, test func(env *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.run(t, nil, test)
	})
}

// run runs test in the bubble of its caller.
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

// An Env is the environment of a test: a store that outlives engines, the present engine, and the
// methods of the test itself. Where a method's comment states so, only the goroutine of the test
// may call it.
type Env struct {
	testing.TB
	setup Setup
	steps steps
	plan  *crash // nil if no crash is planned

	mu        sync.Mutex
	workflows []perdure.Definition
	build     string
	deploys   int
	db        *memory.Store // the open handle
	now       *process
	ids       map[string]int // IDs made by this package, by their prefix
}

// A process is one engine, with the state of its life.
type process struct {
	eng  *perdure.Engine
	disk *disk
	stop context.CancelFunc
	done chan struct{} // closed when the engine has ended
	err  error         // the error that it ended with
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

// or returns d, or the default of this package if d is zero.
func or(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// process returns the live process, and waits until there is one.
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

// isOver reports whether p has died.
func (e *Env) isOver(p *process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.next != nil || e.now != p
}

// Engine returns the present engine. After [Env.Crash], [Env.Restart] and [Env.Deploy] it is
// another engine.
func (e *Env) Engine() *perdure.Engine { return e.process().eng }

// Do calls a function with the present engine, and again with the next one if the engine died
// meanwhile and the call failed because of that. It returns the result of the last call. In
// [CrashEverywhere], callers go on with Do. So call must allow that it is called again, as is true
// for any process that may die.
func (e *Env) Do(call func(*perdure.Engine) error) error {
	for {
		p := e.process()
		err := call(p.eng)
		if err == nil || !e.isOver(p) || !isStop(err) {
			return err
		}
	}
}

// isStop reports whether err is the error of a call whose engine has died.
func isStop(err error) bool {
	return errors.Is(err, &perdure.Error{Code: journal.CodeStopped}) ||
		errors.Is(err, &perdure.Error{Code: journal.CodeUnavailable})
}

// Sleep lets virtual time pass, and then waits until everything has happened that can happen
// without more time. Only the goroutine of the test may call it.
func (e *Env) Sleep(d time.Duration) {
	time.Sleep(d)
	e.Settle()
}

// Settle returns when everything has happened that can happen without time passing: every
// goroutine waits. Only the goroutine of the test may call it.
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

// Crash ends the engine as the death of its process would: uncommitted changes are lost, contexts
// end, and nothing is handed over. The next engine has the same workflows and the same build, and
// runs when Crash returns. A step that ignores its context goes on, since Go has no way to stop
// it; its result is lost.
func (e *Env) Crash() {
	e.Helper()
	p := e.process()
	e.mu.Lock()
	e.die(p)
	e.mu.Unlock()
	e.succeed(p)
}

// die ends the access of p to the store. The caller must hold the lock.
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

// Restart stops the engine in good order, as an operator does, and begins the next one, with the
// same workflows and build.
func (e *Env) Restart() {
	e.Helper()
	e.restart(func() {})
}

// Deploy stops the engine in good order and begins an engine of another build, with these
// workflows instead. Runs that earlier builds began go on with the new code, by the names of
// their recorded operations.
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
	p = e.process() // the process may have died of the plan meanwhile
	p.stop()
	if <-p.done; p.err != nil {
		e.Errorf("perduretest: the engine did not stop in good order: %v", p.err)
	}
	e.audit()
}

// newID returns a workflow ID that was not used yet.
func (e *Env) newID(begin string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids == nil {
		e.ids = map[string]int{}
	}
	e.ids[begin]++
	return fmt.Sprintf("%s-%d", begin, e.ids[begin])
}

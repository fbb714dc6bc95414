// Package world is shared by the tests of the engine: a database in memory with an engine that
// lives, crashes and lives again, stores and subscribers that fail, the outside world that the
// steps write to, and functions that look at runs.
package world

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A World is a database and the engine that uses it now. Engines come and go;
// the database stays.
type World struct {
	T         testing.TB
	DB        *memory.Store
	Store     store.Store                   // of the engine: DB, or a decorator of it
	Wrap      func(store.Store) store.Store // decorates DB for the next engine; nil does not
	Options   perdure.Options               // of the next engine
	Workflows []perdure.Definition          // of the next engine

	Engine *perdure.Engine    // the current one, or the last one
	Stop   context.CancelFunc // ends it
	Done   chan error         // has what its Run returned

	mu      sync.Mutex
	notices []observe.Notice
}

// New returns an empty database with an engine that runs.
func New(t testing.TB, workflows ...perdure.Definition) *World {
	t.Helper()
	return With(t, perdure.Options{}, workflows...)
}

// With returns an empty database with an engine of those options.
func With(t testing.TB, o perdure.Options, workflows ...perdure.Definition) *World {
	t.Helper()
	w := &World{T: t, DB: memory.New(), Workflows: workflows, Options: o}
	w.Options.Build = "test"
	w.Begin()
	return w
}

// Begin starts an engine on the database.
func (w *World) Begin() {
	w.T.Helper()
	w.Store = w.DB
	if w.Wrap != nil {
		w.Store = w.Wrap(w.DB)
	}
	opts := w.Options
	opts.Observers = append(slices.Clip(opts.Observers), observe.Observer{See: w.see})
	if opts.Logger == nil { // tests fail the engine on purpose
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	eng, err := perdure.New(w.Store, opts)
	if err == nil {
		err = eng.Register(w.Workflows...)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Engine, w.Stop, w.Done = eng, cancel, done
}

func (w *World) see(n observe.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, n)
}

// Current returns the engine that runs now. The code of a workflow asks for it here, for
// Engine may be set meanwhile.
func (w *World) Current() *perdure.Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Engine
}

// Crash ends the engine as the death of its process would, and starts another.
func (w *World) Crash() {
	w.T.Helper()
	w.Kill()
	w.Begin()
}

// Kill ends the engine as the death of its process would.
func (w *World) Kill() {
	w.T.Helper()
	w.DB = w.DB.Reopen()
	w.Stop()
	<-w.Done
}

// Deploy replaces the program: the engine dies, and one of another build goes on
// with other code.
func (w *World) Deploy(build string, workflows ...perdure.Definition) {
	w.T.Helper()
	w.Kill()
	w.Options.Build, w.Workflows = build, workflows
	w.Begin()
}

// Stopped reports whether the engine has ended by itself.
func (w *World) Stopped() bool {
	select {
	case err := <-w.Done:
		w.Done <- err
		return true
	default:
		return false
	}
}

// End stops the engine in good order.
func (w *World) End() {
	w.T.Helper()
	w.Stop()
	if err := <-w.Done; err != nil {
		w.T.Error("stop:", err)
	}
}

package perdure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// Options say how an engine works. The zero value is good.
type Options struct {
	// Build names the program. A journal that the same build wrote is replayed
	// strictly; one of another build by name. Empty is the hash of the executable.
	Build string
	// Observers are told what happens, each of the kinds it wants.
	Observers []observe.Observer
	// Logger takes warnings, and what code did wrong: runs that are parked, panics, code that
	// does not fit its journal or blocks, late results, dead letters. Nil is [slog.Default];
	// slog.New(slog.DiscardHandler) switches it off. For more, such as the progress of runs,
	// add [observe.Log] to Observers.
	Logger *slog.Logger
	// Interceptor is called around the body of every step, with the step's context: for
	// traces, limits, or faults in a test. It gives the error of the step, and nil
	// only if it has called body, which gives the body's error.
	Interceptor func(ctx context.Context, step StepInfo, body func(context.Context) error) error
	// Publisher takes the events that runs [Emit], at least once, those of one run in
	// order. An error has it called again. Without it events are in journals only;
	// those that an engine with it has left wait for the next one that has it.
	Publisher func(ctx context.Context, e Event) error
	// Capacity is how many runs are in memory at a time; 0 is 10,000. Further ones
	// wait as PENDING.
	Capacity int
	// Drain is how long Run waits for steps in flight when it is told to stop; 0 is
	// 10 seconds, below 0 not at all.
	Drain time.Duration
	// MaxPayload limits one input, result, message or output in bytes; 0 is 64 MiB.
	MaxPayload int
	// SpillOver is the size in bytes above which a payload is kept outside the main
	// rows; 0 is 100,000.
	SpillOver int
	// IdleTimeout is how long a run that waits for a message, or for a time that is not
	// far, stays in memory; 0 is a second, below 0 not at all.
	IdleTimeout time.Duration
	// MaxLoaded limits the journals in memory in bytes; 0 is 256 MiB. Above it
	// no run is taken up, and what waits leaves.
	MaxLoaded int
	// Sweep is how often the store is asked for due runs without a reason, from a
	// second to ten minutes; 0 is 30 seconds, below 0 not at all, which is for a
	// store that nobody else uses, in a test. SweepOnly has timers wait for it: then
	// nothing is late by more than one sweep.
	Sweep     time.Duration
	SweepOnly bool
	// Retention says for how long runs are kept after their end. See [Retention].
	Retention Retention
	// CleanUp is how often what is kept no longer is removed; 0 is an hour, below 0
	// never.
	CleanUp time.Duration
	// KeepUnrouted is for how long a signal is kept that found no open run; 0 is 7
	// days, below 0 not at all.
	KeepUnrouted time.Duration
	// Off are patterns that are switched off: Register refuses definitions of them, by an
	// [Error] of code invalid.
	Off []journal.Pattern
	// FailOnWarning has Register refuse a definition with a warning, as it does one
	// with an error.
	FailOnWarning bool
	// DeadLetters takes dead letters instead of the store's own queue, at least once; an
	// error has it called again. They are then in no list, and who wants to retry one
	// calls [Client.Retry] with its run. It is called by the engine that has it, so all
	// engines on a store should have the same.
	DeadLetters func(context.Context, deadletter.Letter) error
	// KeepDeadLettered is for how long after its end a run is kept at least that a dead
	// letter is about, so that it can be retried; 0 is 30 days, below 0 is no longer than
	// others.
	KeepDeadLettered time.Duration
}

const (
	defaultCapacity   = 10_000
	defaultDrain      = 10 * time.Second
	defaultMaxPayload = 64 << 20
	defaultSpillOver  = 100_000
	defaultIdle       = time.Second
	defaultLoaded     = 256 << 20
	defaultSweep      = 30 * time.Second
	defaultRetention  = 7 * 24 * time.Hour
	defaultCleanUp    = time.Hour
	defaultKeep       = 7 * 24 * time.Hour
	defaultLettered   = 30 * 24 * time.Hour
	maxPending        = 64 << 20
	maxCrashes        = 20
)

// An Engine executes runs on one store. It is also a [Client] of it, whose writes
// go with the engine's own. Its methods may be called by many goroutines.
type Engine struct {
	*Client
	k         *kernel.Engine
	observers *observe.Set
	strict    bool // Options.FailOnWarning
	off       []journal.Pattern

	mu    sync.Mutex
	known map[string]*sealed.Workflow // by name
}

// New returns an engine on a store. It executes nothing before [Engine.Run]. The caller opens
// the store (sqlite.Open, postgres.Open, memory.New, or by a name from the configuration
// open.Store of package store/open), and closes it after Run has returned.
func New(s store.Store, o Options) (*Engine, error) {
	switch {
	case s == nil:
		return nil, failure.Invalid("new engine", "a store is needed")
	case o.Capacity < 0:
		return nil, failure.Invalid("new engine", "Capacity is %d", o.Capacity)
	case o.MaxPayload < 0:
		return nil, failure.Invalid("new engine", "MaxPayload is %d", o.MaxPayload)
	case o.SpillOver < 0:
		return nil, failure.Invalid("new engine", "SpillOver is %d", o.SpillOver)
	case o.MaxLoaded < 0:
		return nil, failure.Invalid("new engine", "MaxLoaded is %d", o.MaxLoaded)
	case o.Sweep > 0 && (o.Sweep < time.Second || o.Sweep > 10*time.Minute):
		return nil, failure.Invalid("new engine", "Sweep is %v: from 1 second to 10 minutes",
			o.Sweep)
	case o.Sweep < 0 && o.SweepOnly:
		return nil, failure.Invalid("new engine",
			"Sweep is %v: with SweepOnly nothing would wake a run", o.Sweep)
	}
	if err := o.Retention.check("new engine"); err != nil {
		return nil, err
	}
	if o.Build == "" {
		o.Build = executableBuild()
	}
	host, _ := os.Hostname()
	cfg := kernel.Config{
		Build: o.Build, Observers: observe.NewSet(
			append(slices.Clip(o.Observers), observe.Log(o.Logger, slog.LevelWarn))),
		Self: store.Engine{
			Host: host, PID: os.Getpid(), Build: o.Build, Slots: or(o.Capacity, defaultCapacity),
			Since: time.Now(),
		},
		Capacity:   or(o.Capacity, defaultCapacity),
		Drain:      max(or(o.Drain, defaultDrain), 0),
		MaxPayload: or(o.MaxPayload, defaultMaxPayload),
		SpillOver:  or(o.SpillOver, defaultSpillOver), MaxPending: maxPending,
		MaxCrashes:  maxCrashes,
		IdleTimeout: or(o.IdleTimeout, defaultIdle), MaxLoaded: or(o.MaxLoaded, defaultLoaded),
		Sweep: or(o.Sweep, defaultSweep), SweepOnly: o.SweepOnly,
		KeepPosts: max(or(o.KeepUnrouted, defaultKeep), 0), KeepDeadLettered: or(o.KeepDeadLettered,
			defaultLettered),
		Retain: o.Retention.kernel(), CleanUp: or(o.CleanUp, defaultCleanUp),
		Around: around(o.Interceptor), Failure: failure.Of,
	}
	k := kernel.New(s, cfg)
	if o.Publisher != nil {
		k.Subscribe(func(ctx context.Context, e kernel.Event) error {
			return o.Publisher(ctx, eventOf(e))
		})
	}
	if err := k.Register(&letterWorkflow(o.DeadLetters).def.Workflow); err != nil {
		return nil, err
	}
	e := &Engine{
		Client: &Client{sealed: sealed.Client{FrontEnd: &k.FrontEnd, Runs: k, Live: k}}, k: k,
		observers: cfg.Observers, strict: o.FailOnWarning, off: slices.Clone(o.Off),
		known: map[string]*sealed.Workflow{},
	}
	e.sealed.Known = e.lookup
	return e, nil
}

// lookup returns a workflow that is registered.
func (e *Engine) lookup(name string) *sealed.Workflow {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[name]
}

func or[T comparable](v, instead T) T {
	var zero T
	if v == zero {
		return instead
	}
	return v
}

// executableBuild is the hash of the running executable, taken once.
var executableBuild = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// A Definition is a [Workflow] of any types.
type Definition interface {
	definition() (*sealed.Workflow, error)
}

var errNilWorkflow = failure.Invalid("register", "the workflow is nil")

// definitionOf returns the definition of d, which may be a nil pointer of any pattern's type.
func definitionOf(d Definition) (*sealed.Workflow, error) {
	if v := reflect.ValueOf(d); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errNilWorkflow
	}
	return d.definition()
}

// Register gives the engine workflows, before or while it runs. It fails on the
// first whose definition is wrong or whose name the engine has, and has then
// registered those before it. Issues of a definition that is refused are in the
// [definition.Error], all at once; observers are told those of one that is registered.
func (e *Engine) Register(workflows ...Definition) error {
	for _, w := range workflows {
		if err := e.register(w); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) register(w Definition) error {
	def, err := definitionOf(w)
	if err != nil {
		return err
	}
	if slices.Contains(e.off, def.Pattern) {
		return &Error{
			Code: journal.CodeInvalid, Op: "register " + def.Name, Message: "pattern " +
				def.Pattern.String() + " is switched off",
			Hint: "take it out of Options.Off",
		}
	}
	_, issues := def.Examined()
	if err := definition.NewError(def.Name, issues, e.strict); err != nil {
		return err
	}
	if err := e.k.Register(&def.Workflow); err != nil {
		return err
	}
	e.mu.Lock()
	e.known[def.Name] = def
	e.mu.Unlock()
	for _, i := range issues {
		e.observers.Tell(observe.Notice{
			Kind: observe.DefinitionAdvised, At: time.Now(), Workflow: def.Name,
			Pattern: def.Pattern.String(), Reason: i.String(),
		})
	}
	return nil
}

// Run executes runs until ctx ends: those that are started through this engine,
// and those of its workflows that it finds in the store, whoever started them
// and wherever they were interrupted. Then it lets steps in flight end for the
// drain time, makes durable what was recorded, hands the runs over, and returns
// nil. It returns an error when it cannot join the store, must not write any
// more, or the store does not answer while it stops, for the drain time again.
// It is called once.
func (e *Engine) Run(ctx context.Context) error { return e.k.Run(ctx) }

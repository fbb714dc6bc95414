package perdure

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// Options configure an engine. The zero value is valid.
type Options struct {
	// Build is the name of the program's build. A journal is replayed strictly if the same build
	// wrote it, and by name if another build did. Empty means that of the executable: a hash of
	// its Go build ID, or of the file if it has none.
	Build string
	// Observers receive notices of what the engine does. Each gets only the kinds that it wants.
	Observers []observe.Observer
	// Trace connects runs with traces. Package telemetry sets it.
	Trace observe.Trace
	// Clock returns the time, for tests and for applications that have a time of their own; nil
	// means the clock of the machine. The engine records its time, and compares recorded times with
	// it: when entries were made, when timers, retries, limits of waits and schedules are due, how
	// long runs are kept, what [Now] returns. What is measured stays with the machine: the timeout
	// and duration of an attempt, IdleTimeout, Drain, and leases, by which each of two engines must
	// know how much time has really passed.
	//
	// The engine waits with timers of the machine for as long as the clock is behind what is due,
	// and then asks the clock again. If the clock jumps ahead, the engine notices at the next Sweep
	// at the latest, and if it is put back, things are due by its new time. All engines and clients
	// on a store should have the same clock (see [Options.NewClient]). Many goroutines may call it,
	// and often. If it panics or returns the zero time, the time is that of the machine.
	Clock func() time.Time
	// NewID returns the workflow ID of a run that is started without an [ID], such as an ID in the
	// form of the application's; nil means that the run ID is also the workflow ID. The run ID
	// stays the engine's: it has the database and the number of the run. Each ID should be new: if
	// a run has it, the start does what it does with the option ID and a [Dedup] of 0. If NewID
	// panics or its ID is not valid, the start returns an [Error]. Many goroutines may call it.
	// Children without an ID do not ask it.
	NewID func() string
	// Logger receives warnings: runs that are parked or end FAILED or TIMED_OUT, panics of workflow
	// code, code that does not fit its journal or blocks, late results, dead letters. Nil means
	// [slog.Default]. To switch it off, use slog.New(slog.DiscardHandler). For more, such as the
	// progress of runs, add [observe.Log] to Observers.
	Logger *slog.Logger
	// Interceptor is called around the body of every step, with the step's context: for traces,
	// limits, or faults in a test. It returns the error of the step. It may return nil only
	// if it has called body, which returns the body's error.
	Interceptor func(ctx context.Context, step StepInfo, body func(context.Context) error) error
	// Publisher receives the events that runs [Emit], at least once, and the events of one run in
	// order. If it returns an error, it is called again. If it is nil, events are only in
	// journals. Events that an engine with a Publisher has not delivered wait for the next engine
	// with one.
	Publisher func(ctx context.Context, e Event) error
	// Capacity limits how many runs are loaded at a time. Zero means 10,000. Further runs wait as
	// PENDING.
	Capacity int
	// Drain limits how long Run waits for steps in flight when it stops. Zero means 10 s. Below
	// zero, it does not wait.
	Drain time.Duration
	// MaxPayload limits one input, result, message or output in bytes. Zero means 64 MiB.
	MaxPayload int
	// SpillOver is the size in bytes above which a payload is kept outside the main rows. Zero
	// means 100,000.
	SpillOver int
	// MaxStreams limits what the steps of one run put into its streams (package stream), in bytes.
	// What does not count any more is in it. Zero means 16 MiB.
	MaxStreams int
	// IdleTimeout is how long a run that waits for a message, or for a time that is not far away,
	// stays loaded. Zero means 1 s. Below zero, the run is unloaded at once.
	IdleTimeout time.Duration
	// MaxLoaded limits the journals in memory in bytes. Zero means 256 MiB. Above the limit, no
	// further run is loaded, and runs that wait are unloaded.
	MaxLoaded int
	// Sweep is how often the engine asks the store for due runs without being notified, from 1 s to
	// 10 min. Zero means 30 s. Below zero, it never asks: that is for tests, with a store that
	// nothing else uses. If SweepOnly is set, timers wait for the sweep, and are late by at most
	// one sweep.
	Sweep     time.Duration
	SweepOnly bool
	// Retention sets how long runs are kept after their end. See [Retention].
	Retention Retention
	// CleanUp is how often the engine removes runs and signals that are no longer kept. Zero means
	// 1 h. Below zero, it never does.
	CleanUp time.Duration
	// KeepUnrouted is how long an unrouted signal is kept, which is one that found no open run.
	// Zero means 7 days. Below zero, it is not kept.
	KeepUnrouted time.Duration
	// Dedup is the dedup window of starts through this engine that do not set one: see [Dedup].
	// Zero means 24 h. Below zero, only open runs count.
	Dedup time.Duration
	// MaxCrashes is after how many crashes in a row while a run was executed the run is parked, for
	// an operator to resume. Zero means 20. With 1 no run goes on by itself that was in the middle
	// of something when its engine died; runs that only waited do.
	MaxCrashes int
	// Defaults are for definitions that do not say it themselves.
	Defaults definition.Defaults
	// Backpressure is the policy of definitions and lists with [backpressure.Default]. The zero
	// value is adaptive.
	Backpressure backpressure.Config
	// NoLifecycle switches off the listeners that publish the ends of runs as events: those with
	// Lifecycle, such as bus.Lifecycle.
	NoLifecycle bool
	// Off lists the patterns that are switched off: Register refuses definitions of them, with an
	// [Error] of code invalid. The engine's own workflows, such as that of schedules, are accepted.
	Off []journal.Pattern
	// FailOnWarning makes Register refuse a definition with a warning, as it does a definition
	// with an error.
	FailOnWarning bool
	// DeadLetters receives dead letters instead of the store's own queue, at least once; if it
	// returns an error, it is called again. The dead letters are then in no list. To retry one,
	// call [Client.Retry] with its run. The engine that has the dead letter calls it, so all
	// engines on a store should have the same DeadLetters.
	DeadLetters func(context.Context, deadletter.Letter) error
	// KeepDeadLettered is the minimum time that a run with a dead letter is kept after its end,
	// so that it can be retried. Zero means 30 days. Below zero, there is no minimum.
	KeepDeadLettered time.Duration
}

const (
	defaultCapacity   = 10_000
	defaultDrain      = 10 * time.Second
	defaultMaxPayload = 64 << 20
	defaultSpillOver  = 100_000
	defaultMaxStreams = 16 << 20
	defaultIdle       = time.Second
	defaultLoaded     = 256 << 20
	defaultSweep      = 30 * time.Second
	defaultRetention  = 7 * 24 * time.Hour
	defaultCleanUp    = time.Hour
	defaultKeep       = 7 * 24 * time.Hour
	defaultLettered   = 30 * 24 * time.Hour
	maxPending        = 64 << 20
	maxCrashes        = 20
	// the policy of sagas
	defaultCompensation = "STRICT_SEQUENTIAL"
)

// An Engine executes runs on one store. It is also a [Client] of that store; the writes of that
// client go to the store together with the engine's own. Many goroutines may call its methods.
type Engine struct {
	*Client
	k         *kernel.Engine
	observers *observe.Set
	strict    bool // Options.FailOnWarning
	off       []journal.Pattern

	mu     sync.Mutex
	known  map[string]*sealed.Workflow // by name
	begins begins
}

// New returns an engine on a store. It executes nothing before [Engine.Run]. The caller opens the
// store, and closes it after Run has returned. Stores are opened by sqlite.Open, postgres.Open
// and memory.New, or, by a name from the configuration, by open.Store of package store/open.
func New(s store.Store, o Options) (*Engine, error) {
	if s == nil {
		return nil, failure.Invalid("new engine", "a store is needed")
	}
	if err := o.check("new engine"); err != nil {
		return nil, err
	}
	cfg := o.kernel()
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
		Client: &Client{
			sealed: sealed.Client{
				FrontEnd: &k.FrontEnd, Runs: k, Live: k, Dedup: o.dedup(),
			}, newID: o.NewID,
		},
		k: k, observers: cfg.Observers, strict: o.FailOnWarning, off: slices.Clone(o.Off),
		known: map[string]*sealed.Workflow{},
	}
	e.sealed.Known = e.lookup
	k.BelongsTo(e)
	return e, nil
}

// check returns an error if an option is not valid.
func (o *Options) check(op string) error {
	switch {
	case o.Capacity < 0:
		return failure.Invalid(op, "Capacity %d is not valid: at least 0", o.Capacity)
	case o.MaxPayload < 0:
		return failure.Invalid(op, "MaxPayload %d is not valid: at least 0", o.MaxPayload)
	case o.SpillOver < 0:
		return failure.Invalid(op, "SpillOver is %d", o.SpillOver)
	case o.MaxStreams < 0:
		return failure.Invalid(op, "MaxStreams is %d", o.MaxStreams)
	case o.MaxCrashes < 0:
		return failure.Invalid(op, "MaxCrashes is %d", o.MaxCrashes)
	case o.MaxLoaded < 0:
		return failure.Invalid(op, "MaxLoaded is %d", o.MaxLoaded)
	case o.Sweep > 0 && (o.Sweep < time.Second || o.Sweep > 10*time.Minute):
		return failure.Invalid(op, "Sweep is %v: from 1 second to 10 minutes", o.Sweep)
	case o.Sweep < 0 && o.SweepOnly:
		return failure.Invalid(op, "Sweep is %v: with SweepOnly nothing would wake a run",
			o.Sweep)
	}
	if err := o.Defaults.Check(); err != nil {
		return failure.Within(op, err)
	}
	if _, err := o.Backpressure.Policy(); err != nil {
		return failure.Within(op, err)
	}
	if _, err := json.Marshal(o.Backpressure); err != nil {
		return failure.Invalid(op, "Backpressure is not valid: %v", err)
	}
	return o.Retention.check(op)
}

// dedup returns the window of starts that name none.
func (o *Options) dedup() time.Duration { return max(or(o.Dedup, defaultDedup), 0) }

// kernel returns the options as the kernel has them. They have been checked.
func (o *Options) kernel() kernel.Config {
	policy, _ := json.Marshal(o.Backpressure) //nolint:errchkjson // checked
	if o.Build == "" {
		o.Build = executableBuild()
	}
	host, _ := os.Hostname()
	return kernel.Config{
		Build: o.Build, Observers: observe.NewSet(
			append(slices.Clip(o.Observers), observe.Log(o.Logger, slog.LevelWarn))),
		Trace: o.Trace, Clock: o.Clock,
		Self: store.Engine{
			Host: host, PID: os.Getpid(), Build: o.Build, Slots: or(o.Capacity, defaultCapacity),
			Since: time.Now(),
		},
		Capacity:   or(o.Capacity, defaultCapacity),
		Drain:      max(or(o.Drain, defaultDrain), 0),
		MaxPayload: or(o.MaxPayload, defaultMaxPayload),
		MaxStreams: or(o.MaxStreams, defaultMaxStreams),
		SpillOver:  or(o.SpillOver, defaultSpillOver), MaxPending: maxPending,
		MaxCrashes:  or(o.MaxCrashes, maxCrashes),
		IdleTimeout: or(o.IdleTimeout, defaultIdle), MaxLoaded: or(o.MaxLoaded, defaultLoaded),
		Sweep: or(o.Sweep, defaultSweep), SweepOnly: o.SweepOnly,
		KeepPosts: max(or(o.KeepUnrouted, defaultKeep), 0), KeepDeadLettered: or(o.KeepDeadLettered,
			defaultLettered),
		Retain: o.Retention.kernel(), CleanUp: or(o.CleanUp, defaultCleanUp),
		Around: around(o.Interceptor), Failure: failure.Of, NoLifecycle: o.NoLifecycle,
		Backpressure: policy, Timeouts: timeouts(o.Defaults),
		UndoPolicy:  or(o.Defaults.Compensation, defaultCompensation),
		OnUndoError: o.Defaults.OnUndoError,
	}
}

// timeouts returns the overall timeouts of patterns that are not those of their packages.
func timeouts(d definition.Defaults) map[journal.Pattern]time.Duration {
	all := map[journal.Pattern]time.Duration{
		journal.PatternSaga: d.SagaTimeout, journal.PatternTCC: d.TCCTimeout,
	}
	maps.DeleteFunc(all, func(_ journal.Pattern, t time.Duration) bool { return t == 0 })
	return all
}

// Load returns how much the engine has to do now, for metrics. It does not ask the store.
func (e *Engine) Load() observe.Load { return e.k.Load() }

// lookup returns a registered workflow by name.
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

// Register registers workflows with the engine, before or while it runs. It fails at the first
// workflow whose definition is wrong or whose name is registered already; the workflows before
// that are then registered. If a definition is refused, the [definition.Error] has all its issues
// at once. The issues of a registered definition go to observers.
func (e *Engine) Register(workflows ...Definition) error {
	for _, w := range workflows {
		if err := e.register(w); err != nil {
			return err
		}
	}
	return nil
}

// reservedName is the part of an address of the API where the name of a workflow would be.
const reservedName = "instances"

func (e *Engine) register(w Definition) error {
	def, err := definitionOf(w)
	if err != nil {
		return err
	}
	if !def.Own && slices.Contains(e.off, def.Pattern) {
		return &Error{
			Code: journal.CodeInvalid, Op: "register " + def.Name, Message: "pattern " +
				def.Pattern.String() + " is switched off",
			Hint: "take it out of Options.Off",
		}
	}
	if def.Name == reservedName {
		return &Error{
			Code: journal.CodeInvalid, Op: "register " + def.Name,
			Message: "a workflow may not have this name",
			Hint:    "workflows/instances is the address of runs in the API over HTTP",
		}
	}
	_, issues := def.Examined()
	if err := definition.NewError(def.Name, issues, e.strict); err != nil {
		return err
	}
	if err := e.k.Register(&def.Workflow); err != nil {
		if def.Own && e.k.Lookup(def.Name) == &def.Workflow {
			return nil // another definition needs it
		}
		return err
	}
	e.mu.Lock()
	e.known[def.Name] = def
	e.mu.Unlock()
	for _, needed := range def.Needs {
		if err := e.k.Register(&needed.Workflow); err != nil && e.k.Lookup(needed.Name) !=
			&needed.Workflow {
			return err
		}
	}
	for _, hears := range def.Hears {
		e.k.Listen(hears(e.Sealed()))
	}
	for _, begin := range def.Begins {
		e.begins.add(func(ctx context.Context) { e.begin(ctx, def, begin) })
	}
	for _, i := range issues {
		e.observers.Tell(observe.Notice{
			Kind: observe.DefinitionAdvised, At: e.sealed.FrontEnd.Now(), Workflow: def.Name,
			Pattern: def.Pattern.String(), Reason: i.String(),
		})
	}
	return nil
}

// Run executes runs until ctx ends: runs that are started through this engine, and runs of its
// workflows in the store, whoever started them and wherever they were interrupted. Then it waits
// for steps in flight, up to the drain time, makes all records durable, hands the runs over, and
// returns nil. It returns an error if it cannot join the store, is no longer allowed to write, or
// gets no answer from the store for another drain time while it stops. Call it once.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	e.begins.run(ctx)
	err := e.k.Run(ctx)
	stop()
	e.begins.wait()
	return err
}

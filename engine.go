package perdure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// Options say how an engine works. The zero value is good.
type Options struct {
	// Build names the program. A journal that the same build wrote is replayed
	// strictly; one of another build by name. Empty is the hash of the executable.
	Build string
	// Observe is told what happens. It may be nil.
	Observe observe.Func
	// Capacity is how many runs are in memory at a time; 0 is 10,000. Further ones
	// wait as PENDING.
	Capacity int
	// Drain is how long Run waits for steps in flight when it is told to stop; 0 is
	// 10 seconds, below 0 not at all.
	Drain time.Duration
	// MaxPayload limits one input, result or output in bytes; 0 is 64 MiB.
	MaxPayload int
}

const (
	defaultCapacity   = 10_000
	defaultDrain      = 10 * time.Second
	defaultMaxPayload = 64 << 20
	spillOver         = 64 << 10
	maxPending        = 64 << 20
	maxCrashes        = 20
)

// An Engine executes runs on one store. Its methods may be called by many
// goroutines.
type Engine struct{ k *kernel.Kernel }

// New gives an engine on a store. It executes nothing before [Engine.Run]. The
// store stays the caller's, who closes it after Run has returned.
func New(s store.Store, o Options) (*Engine, error) {
	switch {
	case s == nil:
		return nil, invalid("new engine", "a store is needed")
	case o.Capacity < 0:
		return nil, invalid("new engine", "Capacity is %d", o.Capacity)
	case o.MaxPayload < 0:
		return nil, invalid("new engine", "MaxPayload is %d", o.MaxPayload)
	}
	if o.Build == "" {
		o.Build = executableBuild()
	}
	host, _ := os.Hostname()
	cfg := kernel.Config{
		Build: o.Build, Observe: o.Observe,
		Self:       store.Engine{Host: host, PID: os.Getpid(), Build: o.Build, Since: time.Now()},
		Capacity:   or(o.Capacity, defaultCapacity),
		Drain:      max(or(o.Drain, defaultDrain), 0),
		MaxPayload: or(o.MaxPayload, defaultMaxPayload),
		SpillOver:  spillOver, MaxPending: maxPending, MaxCrashes: maxCrashes,
	}
	return &Engine{kernel.New(s, cfg)}, nil
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
	definition() (*kernel.Workflow, error)
}

// Register gives the engine workflows, before or while it runs. It fails on the
// first whose definition is wrong or whose name the engine has, and has then
// registered those before it.
func (e *Engine) Register(workflows ...Definition) error {
	for _, w := range workflows {
		if w == nil {
			return invalid("register", "a nil workflow")
		}
		def, err := w.definition()
		if err != nil {
			return err
		}
		if err := e.k.Register(def); err != nil {
			return err
		}
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

// Start starts a run of a workflow by name with the bytes of its input, as
// [Workflow.Start] does by type. The engine need not know the workflow: the run
// is then PENDING, and [Engine.Describe] says why, until an engine does.
func (e *Engine) Start(ctx context.Context, workflow string, input []byte, opts ...StartOption) (*RawRun, error) {
	if !journal.ValidName(workflow) {
		return nil, badName("workflow", workflow)
	}
	s, err := e.start(ctx, workflow, append([]byte{}, input...), opts)
	if err != nil {
		return nil, err
	}
	return &RawRun{e, s}, nil
}

func (e *Engine) start(ctx context.Context, workflow string, input []byte, opts []StartOption) (kernel.Started, error) {
	o := startOptions{dedup: defaultDedup}
	for _, opt := range opts {
		if opt == nil {
			return kernel.Started{}, invalid("start "+workflow, "a nil option")
		}
		if err := opt.start(&o); err != nil {
			return kernel.Started{}, err
		}
	}
	return e.k.Start(ctx, kernel.Start{Workflow: workflow, ID: o.id, Input: input, Dedup: o.dedup})
}

// Cancel ends a run, by run ID or workflow ID, as CANCELLED with a reason, and
// returns when that is durable: what still runs is cancelled first. One that is
// cancelled already is left as it is; one that ended otherwise gives an [Error]
// of code wrong_state that names its status.
func (e *Engine) Cancel(ctx context.Context, id, reason string) error {
	return e.k.Cancel(ctx, id, clip(reason))
}

// Resume lets a parked run go on, by run ID or workflow ID, and returns when
// that is durable. A run that is not SUSPENDED gives an [Error] of code
// wrong_state.
func (e *Engine) Resume(ctx context.Context, id string) error { return e.k.Resume(ctx, id) }

// History gives the journal of a run, by run ID or workflow ID, from a sequence
// on; limit 0 gives all. It is what is durable.
func (e *Engine) History(ctx context.Context, id string, from int64, limit int) ([]journal.Entry, error) {
	_, entries, err := e.k.History(ctx, id, from, limit)
	return entries, err
}

// A Description is what is known of a run.
type Description struct {
	Head  journal.Head
	State journal.Snapshot // the fold of the journal
	// Why says in words why an open run does not go on by itself; empty where it
	// does or has ended.
	Why string
	// Running and Abandoned are paths of steps: those that this engine executes,
	// and those that were given up while their code goes on.
	Running   []string
	Abandoned []string
}

// Describe tells all that is known of a run, by run ID or workflow ID. Of a run
// with a row that cannot be read it tells what comes before that row, with an
// [Error] of code corrupt.
func (e *Engine) Describe(ctx context.Context, id string) (Description, error) {
	head, entries, err := e.k.History(ctx, id, 1, 0)
	if head.Number == 0 {
		return Description{}, err
	}
	a := journal.NewAggregate(head.ID, head.WorkflowID, head.Workflow, head.Pattern)
	for i := range entries {
		if e := a.Apply(entries[i]); e != nil && err == nil {
			err = &Error{Code: journal.CodeCorrupt, Op: "describe " + id, Err: e}
			break
		}
	}
	live := e.k.Live(head.Number)
	d := Description{Head: head, State: a.Snapshot(), Running: live.Running, Abandoned: live.Abandoned}
	d.Why = e.why(d)
	return d, err
}

// why says why an open run does not go on by itself.
func (e *Engine) why(d Description) string {
	switch d.Head.Status {
	case journal.Pending:
		if e.k.Lookup(d.Head.Workflow) == nil {
			return "no engine here knows workflow " + d.Head.Workflow
		}
		return "it waits for a slot"
	case journal.Suspended:
		return "parked: " + d.Head.Cause
	case journal.Waiting:
		if d.Head.Cause != "" {
			return "its code failed and is replayed at " + d.Head.Wake.Format(time.RFC3339) + ": " + d.Head.Cause
		}
		return "a step failed and is tried again"
	}
	return ""
}

func quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}

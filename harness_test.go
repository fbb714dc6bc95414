package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A world is a database and the engine that uses it now. Engines come and go;
// the database stays.
type world struct {
	t         *testing.T
	db        *memory.Store
	store     store.Store // what the engine uses; db or a decorator of it
	wrap      func(store.Store) store.Store
	opts      perdure.Options
	workflows []perdure.Definition

	eng  *perdure.Engine
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	notices []observe.Notice
}

// newWorld gives an empty database with an engine that runs.
func newWorld(t *testing.T, workflows ...perdure.Definition) *world {
	t.Helper()
	return worldWith(t, perdure.Options{}, workflows...)
}

// worldWith gives an empty database with an engine of those options.
func worldWith(t *testing.T, o perdure.Options, workflows ...perdure.Definition) *world {
	t.Helper()
	w := &world{t: t, db: memory.New(), workflows: workflows, opts: o}
	w.opts.Build = "test"
	w.begin()
	return w
}

// begin starts an engine on the database.
func (w *world) begin() {
	w.t.Helper()
	w.store = w.db
	if w.wrap != nil {
		w.store = w.wrap(w.db)
	}
	opts := w.opts
	opts.Observers = append(opts.Observers[:len(opts.Observers):len(opts.Observers)], observe.Observer{See: func(n observe.Notice) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notices = append(w.notices, n)
	}})
	eng, err := perdure.New(w.store, opts)
	if err == nil {
		err = eng.Register(w.workflows...)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.eng, w.stop, w.done = eng, cancel, done
}

// engine gives the engine that runs now to the code of a workflow.
func (w *world) engine() *perdure.Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.eng
}

// crash ends the engine as the death of its process would, and starts another.
func (w *world) crash() {
	w.t.Helper()
	w.kill()
	w.begin()
}

// kill ends the engine as the death of its process would.
func (w *world) kill() {
	w.t.Helper()
	w.db = w.db.Reopen()
	w.stop()
	<-w.done
}

// stopped says whether the engine has ended by itself.
func (w *world) stopped() bool {
	select {
	case err := <-w.done:
		w.done <- err
		return true
	default:
		return false
	}
}

// end stops the engine in good order.
func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Error("stop:", err)
	}
}

// describe gives a run as it stands.
func (w *world) describe(id string) perdure.Description {
	w.t.Helper()
	d, err := w.eng.Describe(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// history gives a run's journal and checks it.
func (w *world) history(id string) []journal.Entry {
	w.t.Helper()
	d := w.describe(id)
	entries, err := w.eng.History(context.Background(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, bad := range audit(d, entries) {
		w.t.Errorf("run %s: %s", id, bad)
	}
	return entries
}

// told returns all notices so far.
func (w *world) told() []observe.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notices)
}

// seen returns the notices of a kind.
func (w *world) seen(kind observe.Kind) []observe.Notice {
	var out []observe.Notice
	for _, n := range w.told() {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

// forget drops the notices so far.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = nil
}

// audit gives what is wrong with a run as the store has it: what must hold of
// every journal at every time.
func audit(d perdure.Description, entries []journal.Entry) []string {
	var bad []string
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			bad = append(bad, fmt.Sprintf("entry %d has sequence %d", i+1, e.Seq))
		}
	}
	if len(entries) == 0 || entries[0].Kind != journal.RunStarted {
		return append(bad, "the journal does not begin with the start")
	}
	if d.State.Status != d.Head.Status {
		bad = append(bad, fmt.Sprintf("the head says %v, the journal %v", d.Head.Status, d.State.Status))
	}
	terminal := d.Head.Status.IsTerminal()
	if last := entries[len(entries)-1]; last.Kind.EndsRun() != terminal {
		bad = append(bad, fmt.Sprintf("the run is %v and its last entry %v", d.Head.Status, last.Kind))
	}
	results := map[journal.Op]journal.Kind{}
	for _, e := range entries {
		if e.Kind.EndsStep() {
			if k := results[e.Op]; k != 0 {
				bad = append(bad, fmt.Sprintf("step %v ended %v and then %v", e.Op, k, e.Kind))
			}
			results[e.Op] = e.Kind
		}
	}
	for _, s := range d.State.Steps {
		if terminal && !s.Status.IsTerminal() && s.Opens == 0 {
			bad = append(bad, fmt.Sprintf("the run is %v and step %s %v", d.Head.Status, s.Path, s.Status))
		}
	}
	return bad
}

// tail gives kinds and names of the last n entries.
func tail(entries []journal.Entry, n int) []string {
	var out []string
	for _, e := range entries[max(0, len(entries)-n):] {
		s := e.Kind.String()
		if !e.Op.IsZero() {
			s += " " + e.Op.String()
		}
		out = append(out, s)
	}
	return out
}

func codeIs(t *testing.T, err error, code journal.Code) {
	t.Helper()
	if !errors.Is(err, &perdure.Error{Code: code}) {
		t.Errorf("got error %v, want code %s", err, code)
	}
}

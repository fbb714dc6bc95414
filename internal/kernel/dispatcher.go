package kernel

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The outbox has the entries that are still to be delivered: an end to its listeners, an event to
// the subscriber. Each is delivered at least once, also if the engine dies in between. The store
// writes the row of the outbox with the entry, and removes the row when the entry is acknowledged.
// So there is one way for new entries and for entries that a dead engine left: the dispatcher reads
// the outbox, delivers an entry, and acknowledges it.

// A Listener is called when a run has ended.
type Listener struct {
	Workflow string           // empty for all workflows
	Statuses []journal.Status // the ends that it wants; none means all but CONTINUED_AS_NEW
	Tell     func(ctx context.Context, e End) error
	Alerts   bool // it wants only the ends that an alert rule counts, and those surely
	// it publishes lifecycle events, which may be switched off
	Lifecycle bool
}

// NewListener returns a listener of the ends of a workflow's runs. An empty name means all
// workflows. No statuses mean any status.
func NewListener(workflow string, statuses []journal.Status,
	tell func(context.Context, End) error) *Listener {
	return &Listener{Workflow: workflow, Statuses: statuses, Tell: tell}
}

// An End describes the end of a run to a listener.
type End struct {
	Head    journal.Head
	First   journal.RunID // of the chain of runs that continue as new
	Outcome Outcome
	Rule    []byte // the alert rule of the workflow; nil for none
	payload func() ([]byte, error)
	journal func() ([]journal.Entry, error)
}

// Payload returns the payload that the run ended with.
func (e End) Payload() ([]byte, error) { return e.payload() }

// Journal returns the journal of the run.
func (e End) Journal() ([]journal.Entry, error) { return e.journal() }

// An Event is an event that a run has emitted, for the subscriber.
type Event struct {
	ID   string // the same each time that the event is published
	Type string
	Head journal.Head
	// the step that emitted the event, or that the event is about
	Step string
	At   time.Time
	Data []byte

	Execution, Topic, Key string
	Trace                 string         // the header traceparent of the run; empty for none
	Status                journal.Status // the status of the run, if the event has one
}

// wants reports whether the listener listens to the end of such a run.
func (l *Listener) wants(h journal.Head) bool {
	if l.Workflow != "" && l.Workflow != h.Workflow ||
		l.Workflow == "" && rules.IsOwn(h.Workflow) || h.Status == journal.ContinuedAsNew {
		return false
	}
	return len(l.Statuses) == 0 || slices.Contains(l.Statuses, h.Status)
}

// tells reports whether the end of a run belongs in the outbox. Only the end of a run whose
// workflow is known here does: the others are for engines that know the workflow.
func (s *shared) tells(h journal.Head) bool {
	return s.Lookup(h.Workflow) != nil && len(s.listening(h)) > 0
}

// A prompt asks the dispatcher to read the outbox.
type prompt struct {
	fresh chan struct{} // asks to go on
	stale chan struct{} // asks to begin anew
}

func newPrompt() prompt { return prompt{make(chan struct{}, 1), make(chan struct{}, 1)} }

// readOn asks the dispatcher to read on now.
func (x *prompt) readOn() { signal(x.fresh) }

// inherit asks the dispatcher to read again from the beginning: entries that an engine which is
// gone has not delivered may have any number.
func (x *prompt) inherit() { signal(x.stale) }

// signal puts a value into a channel with room for one value, unless the channel has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// A dispatcher reads the outbox and delivers its entries: the entries of one run in order, one
// after the other, and the entries of different runs at the same time. Each listener is called on a
// goroutine of its own. A listener that blocks holds up only itself and the entries that follow in
// the same run.
type dispatcher struct {
	k    *Kernel
	stop context.Context // ends when no further entry is to be delivered
	// the context of the calls of listeners; it ends when the engine stops waiting for them
	calls context.Context
	// the entries up to this number were read, of the workflows that are known
	after int64
	known map[string]bool
	most  int // entries held in one buffer
	page  int // entries read at a time
	skips int // runs with an entry that waits for a place

	mu sync.Mutex
	// by run: the entry that is being delivered, and those after it
	lines map[journal.Number]*follow
	// entries held, and entries delivered during the present reading
	mine    map[int64]bool
	told    []int64                // those entries of mine that were delivered
	buffers map[*Listener]*buffer  // of those with entries to hear of
	behind  map[journal.Number]gap // by run: its entries that found no place
	reading int64                  // the number of readings, this one included
	parts   map[int64]*part        // by number: ends that some listeners have or had no place for
	reads   bool
}

func newDispatcher(k *Kernel, stop, calls context.Context) *dispatcher {
	return &dispatcher{
		k: k, stop: stop, calls: calls, known: map[string]bool{}, most: maxHeld, page: outboxPage,
		skips: maxSkipped, buffers: map[*Listener]*buffer{},
		lines: map[journal.Number]*follow{}, mine: map[int64]bool{},
		behind: map[journal.Number]gap{}, parts: map[int64]*part{},
	}
}

// run delivers the entries of the outbox until the dispatcher stops.
func (a *dispatcher) run() {
	k := a.k
	select {
	case <-k.fresh: // the first look follows anyway
	default:
	}
	var sweep <-chan time.Time
	if k.lease.period > 0 && k.cfg.Sweep > 0 {
		t := time.NewTicker(k.cfg.Sweep)
		defer t.Stop()
		sweep = t.C
	}
	for {
		k.loops.outbox.turn()
		select {
		case <-k.stale: // first, since its entries are older
			a.again()
		default:
		}
		if !a.look() {
			return
		}
		select {
		case <-k.fresh:
		case <-k.stale:
			a.again()
		case <-sweep: // an engine may have left, or another one have taken over
			a.again()
		case <-a.stop.Done():
			return
		case <-k.dead:
			return
		}
	}
}

// look reads the entries that were not read. It reads workflows that have become known since from
// the beginning. It returns false when the engine stops.
func (a *dispatcher) look() bool {
	names := a.k.names()
	var fresh []string
	for _, name := range names {
		if !a.known[name] {
			a.known[name] = true
			fresh = append(fresh, name)
		}
	}
	a.mu.Lock()
	a.reads = true
	a.mu.Unlock()
	goesOn := a.read(fresh, 0, a.after, nil) && a.read(names, a.after, math.MaxInt64,
		func(int64) bool { return a.crowded() }) && a.catchUp(names)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads = false
	for _, n := range a.told {
		delete(a.mine, n)
	}
	a.told = nil
	return goesOn
}

// read hands on the outbox entries of those workflows with numbers above after and up to upTo.
// Before each entry it calls enough, if that is not nil, with the number of the entry, and returns
// when enough returns true.
func (a *dispatcher) read(names []string, after, upTo int64, enough func(number int64) bool) bool {
	wait, since := 10*time.Millisecond, after
	a.mu.Lock()
	a.reading++
	a.mu.Unlock()
	for more := len(names) > 0 && after < upTo; more; {
		claimed, err := a.k.store.Claim(context.Background(), store.TakeOutbox{
			Engine: a.k.engine, Workflows: names, After: after, Limit: a.page,
		})
		if err != nil {
			if final(err) || !a.pause(&wait) {
				return false
			}
			continue
		}
		if more = claimed.More; a.stop.Err() != nil {
			return false
		}
		for _, o := range claimed.Outbox {
			if o.Number > upTo {
				return true
			}
			if enough != nil && enough(o.Number) {
				return true
			}
			after = o.Number
			a.after = max(a.after, after)
			a.hand(o, since)
		}
	}
	return true
}

// pause waits, longer each time and at most 1 s. It returns false when the engine stops.
func (a *dispatcher) pause(wait *time.Duration) bool {
	t := time.NewTimer(*wait)
	defer t.Stop()
	*wait = min(2**wait, time.Second)
	select {
	case <-t.C:
		return true
	case <-a.stop.Done():
	case <-a.k.dead:
	}
	return false
}

// hand lets an entry be delivered after the earlier entries of its run, if there is a place for it.
// The entry was read by a reading of the entries after the number since.
func (a *dispatcher) hand(o store.OutboxEntry, since int64) {
	who := a.audience(o)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mine[o.Number] {
		return
	}
	if o.Entry.Kind == journal.EventEmitted && !a.k.subscribed() {
		a.pass(o)
		return
	}
	if t := a.admit(o, who, since); t != nil {
		go a.tellRun(t)
	}
}

// tellRun delivers the outbox entries of one run, beginning with t. If it stops early, the entry
// and those that follow are left to the next engine.
func (a *dispatcher) tellRun(t *telling) {
	for t != nil && a.tell(t) {
		t = a.done(t)
	}
}

// tell delivers one entry and acknowledges it. It returns false if the engine stops first. It
// publishes an event until its subscriber takes it.
func (a *dispatcher) tell(t *telling) bool {
	if t.Entry.Kind != journal.EventEmitted {
		return a.try(t, a.tellEnd) == nil
	}
	wait := 10 * time.Millisecond
	for {
		err := a.try(t, a.publish)
		if err == nil {
			return true
		}
		if err == errStopping { //nolint:errorlint // the application's errors are not asked
			return false
		}
		a.k.listenerFailed(t.Head, err)
		if !a.pause(&wait) {
			return false
		}
	}
}

var errStopping = errors.New("kernel: the engine stops")

// try delivers one entry. When all listeners were called for it, try acknowledges the entry. An
// engine that stops waits for try, as it waits for the body of a step.
func (a *dispatcher) try(t *telling, call func(*telling) error) error {
	if a.stop.Err() != nil || !a.k.fly() {
		return errStopping
	}
	defer a.k.land()
	if err := call(t); err != nil || !a.isTold(t) {
		return err
	}
	l := &submission{
		k:       a.k,
		changes: []store.Change{{Told: []int64{t.Number}}},
		done:    make(chan struct{}),
	}
	a.k.lanes.any().push(l)
	select {
	case <-l.done:
	case <-a.k.dead:
		return errStopping
	}
	if l.err != nil {
		return errStopping
	}
	return nil
}

// enter waits for one of the slots. It returns false when the engine stops.
func (a *dispatcher) enter(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-a.stop.Done():
	case <-a.k.dead:
	}
	return false
}

// slotsOf returns the slots of a listener. A nil listener means the subscriber.
func (a *dispatcher) slotsOf(l *Listener) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bufferOf(l).slots
}

// call calls a listener, and reports whether that has heard of the end. A listener that alerts is
// called until it takes the end, as far as the store or a run in its way may be the cause.
func (a *dispatcher) call(l *Listener, end End) (heard bool) {
	for wait := 10 * time.Millisecond; ; {
		err := guard.Call(func() error { return l.Tell(a.calls, end) })
		if err == nil {
			return true
		}
		a.k.listenerFailed(end.Head, err)
		switch {
		case a.calls.Err() != nil: // a listener that was cut off is called again
			return false
		case !l.Alerts || !isInTheWay(err): // the application's errors are not asked
			return true
		case !a.pause(&wait):
			return false
		}
	}
}

// isInTheWay reports whether an error of this module may be over later.
func isInTheWay(err error) bool {
	code := journal.CodeOf(err)
	return code == journal.CodeConflict || code == journal.CodeUnavailable
}

// tellEnd calls the listeners. The errors of those that do not alert change nothing.
func (a *dispatcher) tellEnd(o *telling) error {
	end := End{
		Head: o.Head, First: journal.MakeRunID(a.k.database(), o.Head.Chain),
		Rule: a.k.rules.Load().Alert(o.Head.Workflow), Outcome: Outcome{
			Data: o.Entry.Data, Failure: o.Entry.Failure(), Detail: o.Entry.Detail,
		},
		payload: sync.OnceValues(func() ([]byte, error) { return a.k.lastPayload(o.Head.Number) }),
		journal: sync.OnceValues(func() ([]journal.Entry, error) {
			return a.k.wholeJournal(o.Head.Number)
		}),
	}
	told := make(chan bool, len(o.who))
	for _, l := range o.who {
		go func() {
			slots := a.slotsOf(l)
			if !a.enter(slots) {
				told <- false
				return
			}
			defer func() { <-slots }()
			heard := a.call(l, end)
			if heard {
				a.hasHeard(o, l)
			}
			told <- heard
		}()
	}
	all := true
	for range o.who {
		all = <-told && all
	}
	if !all {
		return errStopping
	}
	return nil
}

// publish calls the subscriber with an event.
func (a *dispatcher) publish(o *telling) error {
	subscriber := a.k.subscription()
	slots := a.slotsOf(nil)
	if !a.enter(slots) {
		return errStopping
	}
	defer func() { <-slots }()
	d := o.Entry.Detail
	e := Event{
		ID: d.Message, Type: d.Event, Head: o.Head, Step: o.Entry.Op.String(), At: o.Entry.At,
		Data:      o.Entry.Data,
		Execution: d.Execution, Topic: d.Topic, Key: d.Routing, Status: d.Outcome, Trace: d.Trace,
	}
	if o.Entry.Op.Name == eventNote {
		e.Step = d.Reason
	}
	return guard.Call(func() error { return subscriber(a.calls, e) })
}

// ListenerFailed reports to observers that a listener of a step has failed.
func (s StepInfo) ListenerFailed(err error) { s.a.op.run.k.listenerFailed(s.Run(), err) }

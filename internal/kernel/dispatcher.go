package kernel

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Some entries are owed: a listener is to be told of an end, a subscriber of an
// event, at least once, also when the engine dies in between. The store keeps
// which they are, written with the entry and removed when it is acknowledged. So
// there is one way for what has just happened and for what a dead engine left:
// the dispatcher reads what is owed, tells, and acknowledges.

// A Listener is told when a run has ended.
type Listener struct {
	Workflow string           // empty for all
	Statuses []journal.Status // the ends that it wants; none for all but CONTINUED_AS_NEW
	Tell     func(ctx context.Context, e End) error
}

// NewListener gives a listener of the ends of a workflow's runs, or of all where
// that is empty, with one of the statuses, or any where there are none.
func NewListener(workflow string, statuses []journal.Status, tell func(context.Context, End) error) *Listener {
	return &Listener{Workflow: workflow, Statuses: statuses, Tell: tell}
}

// An End is what a listener is told.
type End struct {
	Head    journal.Head
	Outcome Outcome
	payload func() ([]byte, error)
	journal func() ([]journal.Entry, error)
}

// Payload gives the payload that the run ended with.
func (e End) Payload() ([]byte, error) { return e.payload() }

// Journal gives the journal of the run.
func (e End) Journal() ([]journal.Entry, error) { return e.journal() }

// An Event is what a step has emitted.
type Event struct {
	ID   string // the same whenever the event is told
	Type string
	Head journal.Head
	Step string // that emitted it, or that it tells of
	At   time.Time
	Data []byte

	Execution, Topic, Key string
	Status                journal.Status // of the run, where it was said
}

// wants says whether a listener is to be told of an end.
func (l *Listener) wants(h journal.Head) bool {
	if l.Workflow != "" && l.Workflow != h.Workflow || l.Workflow == "" && isOwnWorkflow(h.Workflow) || h.Status == journal.ContinuedAsNew {
		return false
	}
	return len(l.Statuses) == 0 || slices.Contains(l.Statuses, h.Status)
}

// tells says whether somebody is owed that end: only of a workflow that is known
// here, since what is owed of another is told by who knows it.
func (s *shared) tells(h journal.Head) bool {
	return s.Lookup(h.Workflow) != nil && len(s.listening(h)) > 0
}

// A prompt asks the dispatcher to read what is owed.
type prompt struct {
	fresh chan struct{} // to go on
	stale chan struct{} // to begin anew
}

func newPrompt() prompt { return prompt{make(chan struct{}, 1), make(chan struct{}, 1)} }

// owe asks it to look now.
func (x *prompt) owe() { signal(x.fresh) }

// inherit asks it to read again from the beginning: what an engine that is gone has left
// untold may have any number.
func (x *prompt) inherit() { signal(x.stale) }

// signal makes sure that a channel with buffer for one value has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// A dispatcher reads what is owed and has it told. What is owed of one run is told
// in order, one after the other; of different runs at the same time. Each listener
// is called on a goroutine of its own, so one that blocks holds up nothing but what
// comes after it of the same run, and itself.
type dispatcher struct {
	k     *Kernel
	stop  context.Context // ends when nothing more is to be told
	calls context.Context // of listeners; ends when the engine does not wait for them any more
	after int64           // what is owed up to this number was read, of the workflows known
	known map[string]bool
	most  int // held in a buffer
	page  int // read at a time
	skips int // runs of which something waits for a place

	mu      sync.Mutex
	lines   map[journal.Number]*follow // of each run that is being told of
	mine    map[int64]bool             // what is held, and what was told while it is being read
	told    []int64                    // those of them that were told
	buffers map[*Listener]*buffer      // of those that have something to hear
	behind  map[journal.Number]gap     // of runs of which something found no place
	reading int64                      // how many readings there were, this one included
	parts   map[int64]*part            // of ends that some have no place for, or had none
	reads   bool
}

func newDispatcher(k *Kernel, stop, calls context.Context) *dispatcher {
	return &dispatcher{
		k: k, stop: stop, calls: calls, known: map[string]bool{}, most: maxHeld, page: owedPage, skips: maxSkipped, buffers: map[*Listener]*buffer{},
		lines: map[journal.Number]*follow{}, mine: map[int64]bool{}, behind: map[journal.Number]gap{}, parts: map[int64]*part{},
	}
}

// run tells what is owed, until it is to stop.
func (a *dispatcher) run() {
	k := a.k
	select {
	case <-k.fresh: // it looks anyway
	default:
	}
	var sweep <-chan time.Time
	if k.lease.period > 0 && k.cfg.Sweep > 0 {
		t := time.NewTicker(k.cfg.Sweep)
		defer t.Stop()
		sweep = t.C
	}
	for {
		select {
		case <-k.stale: // first, since it is older
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

// look reads what is owed and was not read, of workflows that have become known
// since from the beginning. It gives false when the engine stops.
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
	goesOn := a.read(fresh, 0, a.after, nil) && a.read(names, a.after, math.MaxInt64, func(int64) bool { return a.crowded() }) && a.catchUp(names)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads = false
	for _, n := range a.told {
		delete(a.mine, n)
	}
	a.told = nil
	return goesOn
}

// read hands on what is owed of those workflows, with numbers above after; until enough,
// asked with the next number, where that is not nil.
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

// pause waits, longer each time and at most a second. It gives false when the
// engine stops.
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

// hand has an entry told, if there is a place for it, after what is owed of its run
// already. It was read by a reading of what comes after since.
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

// tellRun tells what is owed of one run, beginning with t. What it could not tell,
// and what follows that, is for the next engine.
func (a *dispatcher) tellRun(t *telling) {
	for t != nil && a.tell(t) {
		t = a.done(t)
	}
}

// tell tells of one entry and acknowledges it. It gives false where the engine
// stops first. An event is told until its subscriber takes it.
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
		if err == errStopping { //nolint:errorlint // it is ours; an error of the application's is not asked
			return false
		}
		a.k.listenerFailed(t.Head, err)
		if !a.pause(&wait) {
			return false
		}
	}
}

var errStopping = errors.New("kernel: the engine stops")

// try tells of one entry. When all have heard of the entry, try acknowledges it. As with the
// body of a step, an engine that stops waits for it.
func (a *dispatcher) try(t *telling, call func(*telling) error) error {
	if a.stop.Err() != nil || !a.k.fly() {
		return errStopping
	}
	defer a.k.land()
	if err := call(t); err != nil || !a.isTold(t) {
		return err
	}
	l := &submission{k: a.k, changes: []store.Change{{Told: []int64{t.Number}}}, done: make(chan struct{})}
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

// enter waits for one of the slots. It gives false when the engine stops.
func (a *dispatcher) enter(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-a.stop.Done():
	case <-a.k.dead:
	}
	return false
}

// slotsOf returns the slots of a listener; nil is the subscriber.
func (a *dispatcher) slotsOf(l *Listener) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bufferOf(l).slots
}

// tellEnd calls the listeners. What they make of it changes nothing.
func (a *dispatcher) tellEnd(o *telling) error {
	end := End{
		Head: o.Head, Outcome: Outcome{Data: o.Entry.Data, Failure: o.Entry.Failure(), Detail: o.Entry.Detail},
		payload: sync.OnceValues(func() ([]byte, error) { return a.k.lastPayload(o.Head.Number) }),
		journal: sync.OnceValues(func() ([]journal.Entry, error) { return a.k.wholeJournal(o.Head.Number) }),
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
			err := guard.Call(func() error { return l.Tell(a.calls, end) })
			if err != nil {
				a.k.listenerFailed(o.Head, err)
			}
			heard := err == nil || a.calls.Err() == nil // one that was cut off is told again
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

// publish hands an event to the subscriber.
func (a *dispatcher) publish(o *telling) error {
	subscriber := a.k.subscription()
	slots := a.slotsOf(nil)
	if !a.enter(slots) {
		return errStopping
	}
	defer func() { <-slots }()
	d := o.Entry.Detail
	e := Event{
		ID: d.Message, Type: d.Event, Head: o.Head, Step: o.Entry.Op.String(), At: o.Entry.At, Data: o.Entry.Data,
		Execution: d.Execution, Topic: d.Topic, Key: d.Routing, Status: d.Outcome,
	}
	if o.Entry.Op.Name == eventNote {
		e.Step = d.Reason
	}
	return guard.Call(func() error { return subscriber(a.calls, e) })
}

// ListenerFailed tells observers that what was told of a step, in its run, has failed.
func (s StepInfo) ListenerFailed(err error) { s.a.op.run.k.listenerFailed(s.Run(), err) }

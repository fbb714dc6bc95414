package kernel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// Some entries are owed: a listener is to be told of an end, a subscriber of an
// event, at least once, also when the engine dies in between. The store keeps
// which they are, written with the entry and removed when it is acknowledged. So
// there is one way for what has just happened and for what a dead engine left:
// the announcer reads what is owed, tells, and acknowledges.

// A Listener is told when a run has ended.
type Listener struct {
	Workflow string           // empty for all
	Statuses []journal.Status // the ends that it wants; none for all but CONTINUED_AS_NEW
	Tell     func(ctx context.Context, e End) error
}

// An End is what a listener is told.
type End struct {
	Head    journal.Head
	Outcome Outcome
	payload func() ([]byte, error)
}

// Payload gives the payload that the run ended with.
func (e End) Payload() ([]byte, error) { return e.payload() }

// An Event is what a step has emitted.
type Event struct {
	ID   string // the same whenever the event is told
	Type string
	Head journal.Head
	Step string // that emitted it
	At   time.Time
	Data []byte
}

// wants says whether a listener is to be told of an end.
func (l *Listener) wants(h journal.Head) bool {
	if l.Workflow != "" && l.Workflow != h.Workflow || h.Status == journal.ContinuedAsNew {
		return false
	}
	return len(l.Statuses) == 0 || slices.Contains(l.Statuses, h.Status)
}

// Listen adds a listener until the function that it gives is called.
func (k *Kernel) Listen(l *Listener) func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(slices.Clone(k.listeners), l)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.listeners = slices.DeleteFunc(slices.Clone(k.listeners), func(x *Listener) bool { return x == l })
	}
}

// listening gives the listeners that want to hear of an end.
func (k *Kernel) listening(h journal.Head) []*Listener {
	k.mu.Lock()
	all := k.listeners
	if def := k.workflows[h.Workflow]; def != nil {
		all = slices.Concat(all, def.Listeners)
	}
	k.mu.Unlock()
	var out []*Listener
	for _, l := range all {
		if l.wants(h) {
			out = append(out, l)
		}
	}
	return out
}

// tells says whether somebody listens for that end.
func (k *Kernel) tells(h journal.Head) bool { return len(k.listening(h)) > 0 }

// What the announcer takes at a time, and tells at the same time.
const (
	owedPage = 200
	tellers  = 16
)

// announce tells what is owed, until ctx ends. Those that are told of different
// runs are told at the same time; what is owed of one run is told in order.
func (k *Kernel) announce(ctx context.Context) {
	told := &telling{k: k, slots: make(chan struct{}, tellers), chains: map[journal.Number]chan struct{}{}, known: map[int64]bool{}}
	after, names := int64(0), 0
	for {
		known := k.names()
		if len(known) > names { // what is owed of a workflow that was not known has any number
			after, names = 0, len(known)
		}
		owed, err := k.owed(known, after)
		if err != nil {
			wait := time.Second
			if final(err) || !k.pause(&wait) || ctx.Err() != nil {
				return
			}
			continue
		}
		for _, o := range owed {
			after = max(after, o.Number)
			if !told.tell(ctx, o) {
				return
			}
		}
		if len(owed) == owedPage {
			continue
		}
		select {
		case <-k.owing:
		case <-ctx.Done():
			return
		case <-k.dead:
			return
		}
	}
}

// telling is what is being told, and what was told and is not acknowledged.
type telling struct {
	k     *Kernel
	slots chan struct{}

	mu     sync.Mutex
	chains map[journal.Number]chan struct{} // by run: the end of what is being told of it
	known  map[int64]bool                   // by number of what is owed
}

// tell tells of one entry on a goroutine of its own, unless that has begun. It
// gives false where the engine stops first.
func (t *telling) tell(ctx context.Context, o store.Owed) bool {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-t.k.dead:
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[o.Number] {
		<-t.slots
		return true
	}
	t.known[o.Number] = true
	before, done := t.chains[o.Head.Number], make(chan struct{})
	t.chains[o.Head.Number] = done
	go func() {
		defer func() { <-t.slots }()
		defer close(done)
		if before != nil {
			<-before
		}
		acknowledged := t.k.announceOne(ctx, o)
		t.mu.Lock()
		defer t.mu.Unlock()
		if acknowledged {
			delete(t.known, o.Number)
		}
		if t.chains[o.Head.Number] == done {
			delete(t.chains, o.Head.Number)
		}
	}()
	return true
}

// owe asks the announcer to look now.
func (k *Kernel) owe() {
	select {
	case k.owing <- struct{}{}:
	default:
	}
}

// owed asks the store for entries that are owed of those workflows.
func (k *Kernel) owed(names []string, after int64) ([]store.Owed, error) {
	if len(names) == 0 {
		return nil, nil
	}
	claimed, err := k.store.Claim(context.Background(), store.Claim{
		Engine: k.engine, Now: time.Now(), Owed: owedPage, After: after, Workflows: names,
	})
	return claimed.Owed, err
}

// announceOne tells of one entry and acknowledges it. An event is told until its
// subscriber takes it.
func (k *Kernel) announceOne(ctx context.Context, o store.Owed) (acknowledged bool) {
	if o.Entry.Kind == journal.EventEmitted {
		if !k.publish(ctx, o) {
			return false
		}
	} else {
		for _, l := range k.listening(o.Head) {
			k.tellEnd(ctx, l, o)
		}
	}
	if ctx.Err() != nil {
		return false
	}
	_, err := k.submit(ctx, "acknowledge", []store.Change{{Told: []int64{o.Number}}})
	return err == nil
}

// tellEnd calls one listener. What it makes of it changes nothing.
func (k *Kernel) tellEnd(ctx context.Context, l *Listener, o store.Owed) {
	end := End{
		Head: o.Head, Outcome: Outcome{Data: o.Entry.Data, Failure: o.Entry.Failure(), Detail: o.Entry.Detail},
		payload: func() ([]byte, error) { return k.lastPayload(ctx, o.Head) },
	}
	if err := guarded(func() error { return l.Tell(ctx, end) }); err != nil {
		k.listenerFailed(o.Head, err)
	}
}

// publish hands an event to the subscriber until it takes it. It gives false
// where the engine stops first.
func (k *Kernel) publish(ctx context.Context, o store.Owed) bool {
	k.mu.Lock()
	subscriber := k.subscriber
	k.mu.Unlock()
	if subscriber == nil {
		return true
	}
	d := o.Entry.Detail
	e := Event{ID: d.Message, Type: d.Event, Head: o.Head, Step: o.Entry.Op.String(), At: o.Entry.At, Data: o.Entry.Data}
	wait := 10 * time.Millisecond
	for {
		err := guarded(func() error { return subscriber(ctx, e) })
		if err == nil {
			return true
		}
		k.listenerFailed(o.Head, err)
		if ctx.Err() != nil || !k.pause(&wait) {
			return false
		}
	}
}

// Subscribe gives the engine the one that takes events.
func (k *Kernel) Subscribe(f func(context.Context, Event) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.subscriber = f
}

// subscribed says whether somebody takes events.
func (k *Kernel) subscribed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.subscriber != nil
}

func (k *Kernel) listenerFailed(h journal.Head, err error) {
	k.observe(observe.Notice{
		Kind: observe.ListenerFailed, At: time.Now(), Run: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow,
		Pattern: h.Pattern.String(), Status: h.Status.String(), Err: err.Error(),
	})
}

// guarded calls f; a panic in it is an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// lastPayload gives the payload that a run had last: its input, or what replaced
// it.
func (d *Desk) lastPayload(ctx context.Context, h journal.Head) ([]byte, error) {
	entries, err := d.store.Load(ctx, h.Number, store.Range{Payloads: true})
	if err != nil {
		return nil, unavailable("read "+string(h.ID), err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Kind == journal.PayloadSet || e.Kind == journal.RunStarted {
			return e.Data, nil
		}
	}
	return nil, nil
}

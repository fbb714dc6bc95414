package testbroker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// patience limits every wait of an Outage.
const patience = 2 * time.Minute

// An Outage is a time in which the server of a broker, or the network to it, is gone while events
// are published. A ledger knows which ones were acknowledged.
type Outage struct {
	Open  func() bus.Broker // as another process would have it
	Topic string
	// Down begins an outage: no publish works. Up ends it.
	Down, Up func()
	// Try is the timeout of a publish. Zero means two seconds.
	Try time.Duration
}

// A ledger has what was acknowledged and what has come. It is independent of the broker.
type ledger struct {
	mu              sync.Mutex
	acknowledged    map[string]bool
	delivered       map[string]int
	failed          int
	changed         chan struct{} // closed, and made anew, at each entry
	subscriptions   int
	subscribeErrors []error // the last ones
}

func (l *ledger) enter(entry func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry()
	close(l.changed)
	l.changed = make(chan struct{})
}

// await waits until a condition of the ledger holds.
func (l *ledger) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for late := time.After(patience); ; {
		l.mu.Lock()
		is, changed := holds(), l.changed
		l.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-late:
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("outage: %s does not come: %d acknowledged, %d delivered, %d failed; "+
				"subscriptions have ended with %v", what, len(l.acknowledged), len(l.delivered),
				l.failed, l.subscribeErrors)
		}
	}
}

// Bear has a broker go through two outages under load. Each event that is acknowledged has to be
// delivered, though Publish and Subscribe are only called again after an error.
func (o Outage) Bear(t testing.TB) {
	t.Helper()
	if o.Try == 0 {
		o.Try = 2 * time.Second
	}
	l := &ledger{
		acknowledged: map[string]bool{}, delivered: map[string]int{},
		changed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	publisher, subscriber := o.Open(), o.Open()
	calls.Go(func() { o.subscribe(ctx, l, subscriber) })
	publishing, end := context.WithCancel(ctx)
	defer end()
	calls.Go(func() { o.publish(publishing, l, publisher) })
	l.await(t, "the first event", func() bool { return len(l.delivered) > 0 })
	for round := range 2 {
		l.goesOn(t, fmt.Sprintf("work before outage %d", round+1))
		failed := 0
		l.enter(func() { failed = l.failed })
		o.Down()
		l.await(t, "a publish that fails", func() bool { return l.failed > failed })
		o.Up()
	}
	l.goesOn(t, "work after the outages")
	end()
	l.await(t, "what was acknowledged", func() bool {
		for key := range l.acknowledged {
			if l.delivered[key] == 0 {
				return false
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("outage: %d acknowledged, %d failed, %d delivered, %d subscriptions",
		len(l.acknowledged), l.failed, len(l.delivered), l.subscriptions)
}

// goesOn waits until more events are acknowledged, and more are delivered.
func (l *ledger) goesOn(t testing.TB, what string) {
	t.Helper()
	acknowledged, delivered := 0, 0
	l.enter(func() { acknowledged, delivered = len(l.acknowledged), len(l.delivered) })
	l.await(t, what, func() bool {
		return len(l.acknowledged) >= acknowledged+50 && len(l.delivered) >= delivered+20
	})
}

// publish publishes events until the context ends, and enters what it is told of them. What comes
// before the first subscription may not be delivered.
func (o Outage) publish(ctx context.Context, l *ledger, b bus.Broker) {
	for i := 0; ctx.Err() == nil; i++ {
		e := event.Event{
			ID: fmt.Sprint(i), Source: "/outage", Type: "t", Subject: fmt.Sprint(i % 5),
		}
		try, cancel := context.WithTimeout(ctx, o.Try)
		err := b.Publish(try, o.Topic, []event.Event{e})
		cancel()
		l.enter(func() {
			switch {
			case err != nil:
				l.failed++
			case len(l.delivered) > 0:
				l.acknowledged[e.ID] = true
			}
		})
		pause(ctx, 2*time.Millisecond) // else there is too much to deliver in the end
	}
}

// subscribe subscribes again and again.
func (o Outage) subscribe(ctx context.Context, l *ledger, b bus.Broker) {
	for ctx.Err() == nil {
		err := b.Subscribe(ctx, o.Topic, "g", func(m bus.Message) {
			l.enter(func() { l.delivered[m.Event.ID]++ })
			try, cancel := context.WithTimeout(ctx, o.Try)
			defer cancel()
			_ = m.Done(try) // if it fails, it comes again
		})
		l.enter(func() {
			l.subscriptions++
			l.subscribeErrors = append(l.subscribeErrors, err)
			l.subscribeErrors = l.subscribeErrors[max(0, len(l.subscribeErrors)-5):]
		})
		pause(ctx, 20*time.Millisecond)
	}
}

// pause is between two tries.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

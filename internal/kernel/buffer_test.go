package kernel

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An outboxStore is a store with entries in the outbox, by numbers.
type outboxStore struct {
	store.Store
	outbox []store.OutboxEntry
	asked  func(after int64)
}

func (o outboxStore) Claim(_ context.Context, c store.Claim) (out store.Claimed, err error) {
	take, _ := c.(store.TakeOutbox)
	if o.asked != nil {
		o.asked(take.After)
	}
	for _, e := range o.outbox {
		switch {
		case e.Number <= take.After:
		case len(out.Outbox) == take.Limit:
			out.More = true
			return out, nil
		default:
			out.Outbox = append(out.Outbox, e)
		}
	}
	return out, nil
}

// outboxEntry returns an entry of a run for the outbox.
func outboxEntry(run, number int64, kind journal.Kind) store.OutboxEntry {
	h := journal.Head{
		Number: journal.Number(run), ID: journal.RunID(fmt.Sprint(run)), Workflow: "w",
		Status: journal.Completed,
	}
	return store.OutboxEntry{Number: number, Head: h, Entry: journal.Entry{
		Kind: kind, Detail: &journal.Detail{},
	}}
}

// dispatching returns the dispatcher of a kernel with listeners of a workflow, whose own loop
// does not run.
func dispatching(t *testing.T, o outboxStore, listeners ...*Listener) *dispatcher {
	k := newKernel(o, Config{}, newShared())
	k.add(&Workflow{Name: "w", Listeners: listeners})
	k.Subscribe(func(context.Context, Event) error { return nil })
	a := newDispatcher(k, t.Context(), t.Context())
	a.known["w"] = true
	return a
}

// hold sets how many entries a buffer holds.
func (a *dispatcher) hold(l *Listener, held int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bufferOf(l).held = held
}

// While a buffer is caught up on, an end that is further on finds no place in it: the end was in
// line behind an event until now. The entries between are read again then.
//
// spec: L-18
func TestCatchingUpPassesOverNothing(t *testing.T) {
	const runs = 3 * outboxPage
	l := NewListener("w", nil, nil)
	var a *dispatcher
	o := outboxStore{asked: func(after int64) {
		if after == outboxPage {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.miss([]*Listener{l}, runs)
		}
	}}
	for n := range int64(runs) {
		o.outbox = append(o.outbox, outboxEntry(n+1, n+1, journal.RunCompleted))
	}
	a = dispatching(t, o, l)
	a.k.draining = true // nothing is delivered: an entry that has a place keeps it
	a.after = runs
	a.miss([]*Listener{l}, 1)
	a.catchUp(a.k.names())
	for n := range int64(runs) {
		if r := a.buffers[l]; !a.mine[n+1] && (r.behind == 0 || n+1 < r.behind) {
			t.Fatalf(
				"number %d has no place, and the buffer is read again from %d on", n+1, r.behind,
			)
		}
	}
}

// A listener that had no place for an end is called when it has one, although the call of another
// listener, which had a place at once, goes on. The end is acknowledged when both were called.
//
// spec: L-18
func TestAnEndIsToldToEachListenerThatHasAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		heard := 0
		stuck := NewListener("w", nil, func(context.Context, End) error { <-let; return nil })
		late := NewListener("w", nil, func(context.Context, End) error { heard++; return nil })
		end := []store.OutboxEntry{outboxEntry(1, 1, journal.RunCompleted)}
		a := dispatching(t, outboxStore{outbox: end}, stuck, late)
		a.hold(late, maxHeld)
		a.look()
		synctest.Wait()
		a.hold(late, 1)
		a.look()
		synctest.Wait()
		if heard != 1 {
			t.Fatalf("the listener with a place has heard %d times", heard)
		}
		a.look()
		a.again()
		a.look()
		synctest.Wait()
		if n := len(a.k.lanes.all[0].dirty); heard != 1 || n != 0 {
			t.Errorf("it has heard %d times, and %d ends are acknowledged", heard, n)
		}
		close(let)
		synctest.Wait()
		if n := len(a.k.lanes.all[0].dirty); n != 1 {
			t.Errorf("all have heard, and %d ends are acknowledged", n)
		}
		close(a.k.dead) // nobody commits the acknowledgement
		synctest.Wait()
	})
}

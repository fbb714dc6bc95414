// Package testbroker is for the tests of brokers beside those of package brokertest: what one of
// them does apart from the contract, and how it bears an outage.
package testbroker

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// Event returns an event without data.
func Event(id string) event.Event { return event.Event{ID: id, Source: "/s", Type: "t"} }

// Events returns several of them.
func Events(ids ...string) (all []event.Event) {
	for _, id := range ids {
		all = append(all, Event(id))
	}
	return all
}

// Publish publishes events, and fails the test if the broker refuses them.
func Publish(t testing.TB, b bus.Broker, topic string, events ...event.Event) {
	t.Helper()
	if err := b.Publish(t.Context(), topic, events); err != nil {
		t.Fatal(err)
	}
}

// Receive subscribes until the context ends. The first channel has what comes, one message at a
// time; the other has the end of the subscription.
func Receive(ctx context.Context, b bus.Broker, topic, group string) (<-chan bus.Message,
	<-chan error) {
	come, ended := make(chan bus.Message), make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, topic, group, func(m bus.Message) {
			select {
			case come <- m:
			case <-ctx.Done():
			}
		})
	}()
	return come, ended
}

// Next is done with the next message, and returns it. It fails the test if none comes.
func Next(t testing.TB, come <-chan bus.Message) bus.Message {
	t.Helper()
	select {
	case m := <-come:
		if err := m.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return bus.Message{}
}

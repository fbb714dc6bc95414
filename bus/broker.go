package bus

import (
	"context"
	"errors"

	"github.com/perdure/perdure/event"
)

// A Sender is the half of a [Broker] that publishes. Many goroutines call it.
type Sender interface {
	// Publish sends events to a topic, in order. It returns nil when all of them are durable at the
	// broker, as far as the broker can promise it. After an error some of them may be.
	Publish(ctx context.Context, topic string, events []event.Event) error
}

// A Broker carries events from one process to others. A topic is a name for a stream of events; a
// group is the name of the processes that share the events of a topic: each event goes to one of
// them. Groups have nothing to do with each other.
//
// Methods are called by many goroutines.
type Broker interface {
	Sender
	// Subscribe calls deliver for each message of a topic, one after the other, until ctx ends or
	// the broker fails. A message that is not done with is delivered again, at the latest to the
	// next subscriber of the group. While deliver does not return, no more messages are delivered.
	// A broker may also wait while a subscriber is not done with some hundred messages.
	//
	// A group that subscribes for the first time gets what is published from then on; what the
	// broker still has from before, too, if it has it.
	//
	// The error is never nil: it is that of ctx when ctx has ended.
	Subscribe(ctx context.Context, topic, group string, deliver func(Message)) error
}

// A Message is one delivery of an event.
type Message struct {
	Event event.Event
	// Bad is why the message is no valid event; nil if it is one. Raw is then what came.
	Bad error
	Raw []byte
	// Attempt is how often the broker has delivered the message, this time included; 0 if it does
	// not count.
	Attempt int
	// Done is called when the group is done with the message. Any goroutine may call it, in any
	// order, and also when Subscribe has returned: an error then means that the message may be
	// delivered again.
	Done func(ctx context.Context) error
}

// ErrTooLarge is returned by a Publish for an event that the broker never will take.
var ErrTooLarge = errors.New("bus: the event is too large for the broker")

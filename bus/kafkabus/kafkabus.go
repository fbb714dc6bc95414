// Package kafkabus is a [bus.Broker] on Kafka, and on servers that speak its protocol.
//
// A topic is the Kafka topic of that name, with two dots for each slash: orders/paid is
// orders..paid. The server makes it if its auto.create.topics.enable allows that; better make it
// before, with the partitions and replicas that it should have. An event is a record whose key is
// the subject of the event, or its source if it has none. A group is the consumer group
// GROUP:TOPIC.
//
// Publish returns when all replicas in sync have the events: min.insync.replicas of the topic says
// how many these are at least. Kafka writes to the disk later, and counts on the replicas.
//
// The events of one subject arrive in their order. Events of several subjects have none, unless the
// topic has one partition. The members of a group share the partitions: a group has no more members
// at work than the topic has partitions. An event that is published twice is stored twice, unless
// it is the client that has repeated it.
//
// Kafka has no acknowledgement of a message, only a position in each partition. It is before the
// first message that the group is not done with. When a partition gets another member, that and all
// after it comes again, also what was done with; within a subscription, nothing does. Attempts are
// not counted. A topic keeps its events as its retention says, whoever is done with them.
package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// Options are the settings of a broker.
type Options struct {
	// Batch is how many messages a subscriber takes at once from those that its client has
	// fetched. Zero means 100.
	Batch int
	// MaxSize is how many bytes a batch of records may have, and so an event. The server limits it
	// too: max.message.bytes of the topic. Zero means 1,000,000.
	MaxSize int
}

// A Broker is a [bus.Broker] on Kafka. [New] makes one.
type Broker struct {
	settings []kgo.Opt
	o        Options

	mu       sync.Mutex
	producer *kgo.Client // nil until the first Publish
}

// New returns a broker. The settings say where the servers are, and who the client is:
// kgo.SeedBrokers, kgo.DialTLSConfig, kgo.SASL. It connects when it is used: once for all that it
// publishes, and for each subscription.
func New(o Options, settings ...kgo.Opt) *Broker {
	if o.Batch <= 0 {
		o.Batch = 100
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 1_000_000
	}
	return &Broker{settings: settings, o: o}
}

// Close ends the connections of Publish. Subscriptions go on, and a Publish connects anew.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.producer != nil {
		b.producer.Close()
		b.producer = nil
	}
}

// client returns a new client.
func (b *Broker) client(own ...kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{kgo.AllowAutoTopicCreation()}, b.settings...)
	return kgo.NewClient(append(all, own...)...)
}

// publisher returns the client of Publish.
func (b *Broker) publisher() (*kgo.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.producer != nil {
		return b.producer, nil
	}
	c, err := b.client(kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(int32(min(b.o.MaxSize, 1<<30))),
		// A Publish returns when its context ends.
		kgo.AllowIdempotentProduceCancellation())
	b.producer = c
	return c, err
}

// Publish sends events, and returns when all of them are acknowledged or have failed.
func (b *Broker) Publish(ctx context.Context, topic string, events []event.Event) error {
	all, err := bus.Encode(events)
	if err != nil {
		return err
	}
	if err := b.publish(ctx, topic, events, all); err != nil {
		return fmt.Errorf("kafkabus: publish to %s: %w", topic, err)
	}
	return nil
}

func (b *Broker) publish(ctx context.Context, topic string, events []event.Event,
	all [][]byte) error {
	name, err := kafkaName(topic)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	c, err := b.publisher()
	if err != nil {
		return err
	}
	records := make([]*kgo.Record, len(all))
	for i, raw := range all {
		records[i] = record(name, &events[i], raw)
	}
	err = c.ProduceSync(ctx, records...).FirstErr()
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) {
		err = errors.Join(bus.ErrTooLarge, err)
	}
	return err
}

// record returns the record of an event.
func record(name string, e *event.Event, raw []byte) *kgo.Record {
	key := e.Subject
	if key == "" {
		key = e.Source
	}
	r := &kgo.Record{Topic: name, Key: []byte(key), Value: raw, Headers: []kgo.RecordHeader{
		{Key: "content-type", Value: []byte(bus.ContentType)},
	}}
	if trace := e.Extensions[event.ExtTrace]; trace != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{
			Key: event.ExtTrace, Value: []byte(trace),
		})
	}
	return r
}

// kafkaName returns the name of a topic at Kafka. Each topic has another one: where a slash is next
// to a dot, none.
func kafkaName(topic string) (string, error) {
	for _, not := range []string{"..", "./", "/."} {
		if strings.Contains(topic, not) {
			return "", fmt.Errorf("the topic %.100q is not valid: allowed are names without %s",
				topic, not)
		}
	}
	return strings.ReplaceAll(topic, "/", ".."), nil
}

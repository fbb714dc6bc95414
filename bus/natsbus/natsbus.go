// Package natsbus is a [bus.Broker] on NATS JetStream, with servers of version 2.9 and later.
//
// An event is one message of the subject that the topic names. It is in a stream that has the
// subject already, or in one of its own, which is made with the first use. A group is a durable
// pull consumer of that stream. A stream keeps its events for [Options.MaxAge], whoever is done
// with them.
//
// Publish returns when the stream has stored the events, on most of its replicas. A server writes
// to its disk some time later, unless it is set to do so always: one replica keeps its events when
// the server is killed, and not when its machine loses power. An event that is published again
// within [Options.Duplicates] is stored once.
//
// The events of a topic arrive in the order in which they are stored. What is delivered again comes
// later. A group with several members has no order.
//
// A message is delivered again when its subscriber has returned, or has not been heard of for
// [Options.AckWait]. What was done with shortly before the crash of a server may come again.
package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// Options are for the streams and consumers that a broker makes. A stream that is there keeps its
// settings.
type Options struct {
	// MaxAge is how long a stream keeps an event. Zero means for ever.
	MaxAge time.Duration
	// Replicas is the number of servers that keep a stream. Zero means 1.
	Replicas int
	// Duplicates is how long a stream knows an event, so that it does not store it again. Zero
	// means two minutes, or MaxAge if that is shorter.
	Duplicates time.Duration
	// AckWait is how long a subscriber may be silent before others get what it is not done with. It
	// calls in while it lives. Zero means 30 seconds.
	AckWait time.Duration
	// Batch is how many messages a subscriber takes at once; other members do not get them. Zero
	// means 50.
	Batch int
}

// A Broker is a [bus.Broker] on JetStream. [New] makes one.
type Broker struct {
	js      jetstream.JetStream
	o       Options
	streams sync.Map // of names, by topic
}

// New returns a broker. The application owns the connection, which should connect again without a
// limit (nats.MaxReconnects). The name of a topic is a NATS subject of letters, digits, '.', '-',
// '_' and '/', without empty parts between dots.
func New(js jetstream.JetStream, o Options) *Broker {
	o.AckWait = either(o.AckWait, 30*time.Second)
	o.Batch = either(o.Batch, 50)
	o.Replicas = either(o.Replicas, 1)
	o.Duplicates = either(o.Duplicates, 2*time.Minute)
	if o.MaxAge > 0 {
		o.Duplicates = min(o.Duplicates, o.MaxAge)
	}
	return &Broker{js: js, o: o}
}

// either returns the option that is set, or its default.
func either[T int | time.Duration](set, otherwise T) T {
	if set > 0 {
		return set
	}
	return otherwise
}

// Publish stores events one after the other, and returns when the last one is stored.
func (b *Broker) Publish(ctx context.Context, topic string, events []event.Event) error {
	all, err := bus.Encode(events)
	if err != nil {
		return err
	}
	if _, err := b.stream(ctx, topic); err != nil {
		return fmt.Errorf("natsbus: publish to %s: %w", topic, err)
	}
	for i, raw := range all {
		if _, err := b.js.PublishMsg(ctx, message(topic, &events[i], raw)); err != nil {
			b.streams.Delete(topic) // it may be gone
			return fmt.Errorf("natsbus: publish to %s: %w", topic, reason(err))
		}
	}
	return ctx.Err()
}

// tooLarge is the code of the error of a stream whose messages are limited.
const tooLarge jetstream.ErrorCode = 10054

// reason returns the error of a publish, as the contract names it.
func reason(err error) error {
	var refused *jetstream.APIError
	if errors.Is(err, nats.ErrMaxPayload) ||
		errors.As(err, &refused) && refused.ErrorCode == tooLarge {
		return errors.Join(bus.ErrTooLarge, err)
	}
	return err
}

// message returns the message of an event.
func message(topic string, e *event.Event, raw []byte) *nats.Msg {
	m := &nats.Msg{Subject: topic, Data: raw, Header: nats.Header{}}
	m.Header.Set("content-type", bus.ContentType)
	if trace := e.Extensions[event.ExtTrace]; trace != "" {
		m.Header.Set(event.ExtTrace, trace)
	}
	// The source and the ID say which event it is. A stream may have several topics.
	id := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", topic, e.Source, e.ID))
	m.Header.Set(jetstream.MsgIDHeader, hex.EncodeToString(id[:16]))
	return m
}

// stream returns the name of the stream of a topic, which it makes if there is none.
func (b *Broker) stream(ctx context.Context, topic string) (string, error) {
	if name, known := b.streams.Load(topic); known {
		return fmt.Sprint(name), ctx.Err()
	}
	if !valid(topic) {
		return "", fmt.Errorf("the topic %.100q is not valid: allowed are letters, digits, -, "+
			"_, / and single dots between them", topic)
	}
	name, err := b.js.StreamNameBySubject(ctx, topic)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		name, err = b.create(ctx, topic)
	}
	if err != nil {
		return "", fmt.Errorf("stream: %w", err)
	}
	b.streams.Store(topic, name)
	return name, nil
}

// create makes the stream of a topic, unless another process does so meanwhile.
func (b *Broker) create(ctx context.Context, topic string) (name string, err error) {
	_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: escape(topic), Subjects: []string{topic}, Storage: jetstream.FileStorage,
		MaxAge: b.o.MaxAge, Replicas: b.o.Replicas, Duplicates: b.o.Duplicates,
	})
	if err == nil {
		return escape(topic), nil
	}
	name, none := b.js.StreamNameBySubject(ctx, topic)
	if none != nil {
		return "", err
	}
	return name, nil
}

// plain reports whether a character stays as it is in any name.
func plain(r rune) bool {
	return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' ||
		r >= 'a' && r <= 'z'
}

// valid reports whether a topic is a subject.
func valid(topic string) bool {
	return !strings.Contains("."+topic+".", "..") &&
		!strings.ContainsFunc(topic, func(r rune) bool { return r != '.' && r != '/' && !plain(r) })
}

// escape returns a name for a stream or consumer. Each name has another one.
func escape(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if plain(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

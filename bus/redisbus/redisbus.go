// Package redisbus is a [bus.Broker] on Redis streams, with servers of version 7.0 and later.
//
// A topic is the stream of that name, and an event is an entry of it: the field "event" has the
// JSON, "content-type" and "traceparent" are beside it. A group is a consumer group of the stream.
//
// Publish writes its events in one transaction: all of them, or none. They are then as durable as
// the server makes its writes: with appendonly yes and appendfsync always they are on the disk.
// Replicas follow later, so that a failover may lose some.
//
// The events of a topic arrive in the order of the stream. What is delivered again comes out of
// order. A group with several members has no order. An event that is published twice is stored
// twice.
//
// A stream grows until it is trimmed, whoever is done with its events: set [Options.MaxAge] or
// [Options.MaxLen]. A group that is further behind loses what is trimmed.
//
// A message is delivered again when its subscriber has returned, or has not been heard of for
// [Options.Idle]. What a subscriber has given back is with the consumer "left" until then. The
// consumer of a process that has died stays in its group, without messages.
package redisbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// Options are the settings of a broker.
type Options struct {
	// Idle is how long a subscriber may be silent before others get what it is not done with. It
	// calls in while it lives. Zero means 30 seconds.
	Idle time.Duration
	// Batch is how many messages a subscriber takes at once; other members do not get them. Zero
	// means 50.
	Batch int
	// MaxAge is how long a stream keeps an event at least: each Publish removes older ones, by the
	// clock of its process. Zero means for ever. It is longer than any group is ever behind.
	MaxAge time.Duration
	// MaxLen is how many events a stream keeps at least: each Publish removes the oldest of more.
	// Zero means all.
	MaxLen int64
	// MaxSize is how many bytes the JSON of an event may have: proto-max-bulk-len of the server,
	// which hangs up on a larger one. Zero means 512 MB, which is the server's own default.
	MaxSize int
}

// A Broker is a [bus.Broker] on Redis streams. [New] makes one.
type Broker struct {
	c redis.UniversalClient
	o Options
}

// New returns a broker. The application owns the client. Set ContextTimeoutEnabled there: without
// it the client ends a call by its own timeouts only. Each subscription holds a connection of its
// pool.
func New(c redis.UniversalClient, o Options) *Broker {
	if o.Idle <= 0 {
		o.Idle = 30 * time.Second
	}
	if o.Batch <= 0 {
		o.Batch = 50
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 512 << 20
	}
	return &Broker{c: c, o: o}
}

// The fields of an entry.
const (
	fieldEvent = "event"
	fieldType  = "content-type"
)

// Publish adds events to a stream in one transaction.
func (b *Broker) Publish(ctx context.Context, topic string, events []event.Event) error {
	all, err := bus.Encode(events)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil || len(all) == 0 {
		return err
	}
	for i, raw := range all {
		if len(raw) > b.o.MaxSize {
			return fmt.Errorf("redisbus: publish to %s: event %.100q has %d bytes, at most %d: %w",
				topic, events[i].ID, len(raw), b.o.MaxSize, bus.ErrTooLarge)
		}
	}
	_, err = b.c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, raw := range all {
			values := []any{fieldEvent, raw, fieldType, bus.ContentType}
			if trace := events[i].Extensions[event.ExtTrace]; trace != "" {
				values = append(values, event.ExtTrace, trace)
			}
			p.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: values})
		}
		b.trim(ctx, topic, p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisbus: publish to %s: %w", topic, err)
	}
	return nil
}

// trim removes what a stream keeps no longer.
func (b *Broker) trim(ctx context.Context, topic string, p redis.Pipeliner) {
	if b.o.MaxLen > 0 {
		p.XTrimMaxLenApprox(ctx, topic, b.o.MaxLen, 0)
	}
	if b.o.MaxAge > 0 {
		oldest := time.Now().Add(-b.o.MaxAge).UnixMilli()
		p.XTrimMinIDApprox(ctx, topic, strconv.FormatInt(oldest, 10), 0)
	}
}

// decode returns the message of an entry.
func decode(entry redis.XMessage) bus.Message {
	if raw, is := entry.Values[fieldEvent].(string); is {
		return bus.Decode([]byte(raw))
	}
	raw, _ := json.Marshal(entry.Values) // of texts
	return bus.Message{Bad: errors.New("the entry has no field " + fieldEvent), Raw: raw}
}

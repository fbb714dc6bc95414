package natsbus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/bus"
)

// Subscribe takes messages from the consumer of a group, which it makes if there is none. A new
// consumer begins with the oldest event that its stream has.
func (b *Broker) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	err := b.subscribe(ctx, topic, group, deliver)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("natsbus: subscribe to %s as %s: %w", topic, group, err)
}

func (b *Broker) subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	stream, err := b.stream(ctx, topic)
	if err != nil {
		return err
	}
	c, err := b.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: escape(topic) + "==" + escape(group), FilterSubject: topic,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: b.o.AckWait, MaxDeliver: -1,
		MaxAckPending: -1,
	})
	if err != nil {
		b.streams.Delete(topic) // it may be gone
		return fmt.Errorf("consumer: %w", err)
	}
	// One message at a time is waited for, so that none is on its way while deliver is called.
	wait, err := c.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return err
	}
	open := unfinished{all: map[uint64]jetstream.Msg{}}
	defer open.giveBack(wait)
	defer open.keep(b.o.AckWait / 3)()
	for ctx.Err() == nil {
		batch, err := b.take(ctx, c, wait)
		open.add(batch...)
		for _, m := range batch {
			if ctx.Err() == nil {
				deliver(open.message(m))
			}
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// take returns the messages that are there, at most a batch. If there are none it waits for one.
func (b *Broker) take(ctx context.Context, c jetstream.Consumer, wait jetstream.MessagesContext) (
	all []jetstream.Msg, err error) {
	there, err := c.FetchNoWait(b.o.Batch)
	if err != nil {
		return nil, err
	}
	for m := range there.Messages() {
		all = append(all, m)
	}
	if len(all) > 0 || there.Error() != nil {
		return all, there.Error()
	}
	m, err := wait.Next(jetstream.NextContext(ctx))
	if errors.Is(err, jetstream.ErrNoHeartbeat) { // a busy machine; a dead server answers nothing
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []jetstream.Msg{m}, nil
}

// An unfinished has the messages of a subscription that are not done with.
type unfinished struct {
	mu  sync.Mutex
	all map[uint64]jetstream.Msg // by their places in the stream
}

// place returns the place of a message in its stream.
func place(m jetstream.Msg) uint64 {
	about, err := m.Metadata()
	if err != nil {
		return 0
	}
	return about.Sequence.Stream
}

func (u *unfinished) add(all ...jetstream.Msg) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range all {
		u.all[place(m)] = m
	}
}

func (u *unfinished) remove(m jetstream.Msg) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, place(m))
}

// list returns the messages in the order of the stream.
func (u *unfinished) list() (all []jetstream.Msg) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(u.all)) {
		all = append(all, u.all[at])
	}
	return all
}

// message returns what is delivered of a message. The server answers when it has heard that the
// group is done with it.
func (u *unfinished) message(raw jetstream.Msg) bus.Message {
	m := bus.Decode(raw.Data())
	if about, err := raw.Metadata(); err == nil {
		m.Attempt = int(about.NumDelivered)
	}
	m.Done = func(ctx context.Context) error {
		if err := raw.DoubleAck(ctx); err != nil {
			return fmt.Errorf("natsbus: done with a message of %s: %w", raw.Subject(), err)
		}
		u.remove(raw)
		return nil
	}
	return m
}

// keep calls in for the messages again and again, until it is ended: they are worked on.
func (u *unfinished) keep(each time.Duration) (end func()) {
	tick, ended := time.NewTicker(each), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			select {
			case <-tick.C:
			case <-ended:
				return
			}
			for _, m := range u.list() {
				if err := m.InProgress(); err != nil && !errors.Is(err,
					jetstream.ErrMsgAlreadyAckd) {
					break // the server delivers them again
				}
			}
		}
	})
	return func() {
		tick.Stop()
		close(ended)
		calls.Wait()
	}
}

// giveBack lets other members have the messages. The first one comes back for the request that may
// still wait: while a server of version 2.9 has a request of somebody who is gone, it delivers its
// newest message twice.
func (u *unfinished) giveBack(wait jetstream.MessagesContext) {
	defer wait.Stop()
	for i, m := range u.list() {
		_ = m.Nak() // if it fails, others have it after AckWait
		if i > 0 {
			continue
		}
		if again, err := wait.Next(jetstream.NextMaxWait(time.Second)); err == nil {
			_ = again.Nak()
		}
	}
}

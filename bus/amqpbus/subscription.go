package amqpbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/perdure/perdure/bus"
)

// Subscribe takes messages from the queue of a group, on a connection of its own. It makes the
// queue if there is none; such a queue has what is published from then on.
func (b *Broker) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	err := b.subscribe(ctx, topic, group, deliver)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("amqpbus: subscribe to %s as %s: %w", topic, group, err)
}

func (b *Broker) subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	if err := valid(topic); err != nil {
		return err
	}
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }()
	// The calls that begin a subscription know no context.
	begun := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })
	defer begun() // also where it does not begin: else ctx keeps the connection
	ch, err := queue(conn, topic, topic+":"+group)
	if err != nil {
		return err
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Qos(b.o.Prefetch, 0, false); err != nil {
		return fmt.Errorf("prefetch: %w", err)
	}
	me := rand.Text()
	come, err := ch.Consume(topic+":"+group, me, false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	begun()
	defer leave(conn, ch, me)
	for ctx.Err() == nil {
		select {
		case d, open := <-come:
			if !open {
				return ending(closed)
			}
			deliver(message(d, topic))
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// leave ends a consumer. The server answers when it has heard of all that is done with; the rest
// goes back to the queue when the connection ends.
func leave(conn *amqp.Connection, ch *amqp.Channel, me string) {
	late := time.AfterFunc(time.Second, func() { _ = conn.CloseDeadline(time.Now()) })
	defer late.Stop()
	_ = ch.Cancel(me, false)
}

// ending returns why the server has ended a subscription.
func ending(closed <-chan *amqp.Error) error {
	select {
	case err := <-closed:
		if err != nil {
			return err
		}
	default:
	}
	return errors.New("the server has ended the subscription")
}

// queue binds the queue of a group to its topic, and returns a channel. It makes what is not there.
func queue(conn *amqp.Connection, topic, name string) (*amqp.Channel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	if _, err = ch.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
		if ch, err = conn.Channel(); err != nil { // the other one is closed now
			return nil, fmt.Errorf("channel: %w", err)
		}
		// Later servers drop a message after 20 deliveries, unless a limit is set.
		_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": int64(math.MaxInt32),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	err = ch.ExchangeDeclare(topic, amqp.ExchangeFanout, true, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	if err := ch.QueueBind(name, "", topic, false, nil); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	return ch, nil
}

// message returns what is delivered of a message.
func message(d amqp.Delivery, topic string) bus.Message {
	m := bus.Decode(d.Body)
	switch count := d.Headers["x-delivery-count"].(type) {
	case int64:
		m.Attempt = int(count) + 1
	default:
		if !d.Redelivered {
			m.Attempt = 1 // of others the server does not know it
		}
	}
	ack := sync.OnceValue(func() error { return d.Ack(false) }) // a second one ends the channel
	m.Done = func(context.Context) error {
		if err := ack(); err != nil {
			return fmt.Errorf("amqpbus: done with a message of %s: %w", topic, err)
		}
		return nil
	}
	return m
}

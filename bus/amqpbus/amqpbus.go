// Package amqpbus is a [bus.Broker] on RabbitMQ, with servers of version 3.10 and later.
//
// A topic is a durable fanout exchange of that name. A group is a durable quorum queue, named after
// the topic and the group with a colon between them, that is bound to the exchange. Exchanges and
// queues are made with their first use; those that are there keep their settings.
//
// Publish returns when the server has confirmed its persistent messages: each queue has them on
// the disks of most of its replicas. An event of a topic that no group has ever subscribed to is
// dropped. So is one that is published before the first subscription of its only group has begun;
// with [Options.NeedGroup] it is an error.
//
// The events of one Publish arrive in order, and after those of an earlier one. What is delivered
// again comes earlier or later. A group with several members has no order. An event that is
// published twice is delivered twice.
//
// A server of version 3.10 that is killed within seconds after a group's first subscription has the
// queue after its restart, and no leader for it: the subscription then fails until somebody deletes
// the queue. Publish fails meanwhile, too.
//
// A message is delivered again when the connection of its subscriber ends. A server closes the
// subscription of a group that is not done with a message within its consumer_timeout, which is 30
// minutes unless it is set.
package amqpbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// Options are the settings of a broker.
type Options struct {
	// Config has the settings of connections, such as TLS. Its Recovery is not used: the callers of
	// Publish and Subscribe call again.
	Config amqp.Config
	// Prefetch is how many messages a subscriber has at most that it is not done with; other
	// members do not get them. Zero means 200.
	Prefetch int
	// NeedGroup has Publish fail with [ErrNoGroup] instead of dropping an event that no group gets.
	NeedGroup bool
}

// ErrNoGroup is returned by a Publish for a topic without groups, if [Options.NeedGroup] is set.
var ErrNoGroup = errors.New("amqpbus: no group has subscribed to the topic")

// A Broker is a [bus.Broker] on RabbitMQ. [New] makes one.
type Broker struct {
	url  string
	o    Options
	idle chan *line // channels that no Publish uses

	mu   sync.Mutex
	conn *amqp.Connection // of all of them; nil if there was none yet
}

// New returns a broker for a server, by its URL: amqp://user:password@host:5672/vhost. It connects
// when it is used: once for all that it publishes, and for each subscription. The name of a topic
// has no colon.
func New(url string, o Options) *Broker {
	if o.Prefetch <= 0 {
		o.Prefetch = 200
	}
	o.Config.Recovery = nil
	return &Broker{url: url, o: o, idle: make(chan *line, 16)}
}

// Close ends the connection of Publish. Subscriptions go on, and a Publish connects anew.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil || b.conn.IsClosed() {
		return nil
	}
	return b.conn.CloseDeadline(time.Now().Add(time.Second))
}

// dial connects to the server. The connection does not end with the context.
func (b *Broker) dial(ctx context.Context) (*amqp.Connection, error) {
	config, free := b.o.Config, func() bool { return true }
	if config.Dial == nil {
		config.Dial = func(network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, network, addr)
			if err == nil {
				free = context.AfterFunc(ctx, func() { _ = c.Close() })
				err = c.SetDeadline(time.Now().Add(30 * time.Second)) // of the handshake
			}
			return c, err
		}
	}
	conn, err := amqp.DialConfig(b.url, config)
	if err == nil && !free() {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// A line is a channel that one Publish uses at a time.
type line struct {
	*amqp.Channel
	returned chan amqp.Return
	closed   chan *amqp.Error
	topics   map[string]bool // whose exchanges it has declared
}

// chunk is how many messages are on their way at once.
const chunk = 100

// line returns a channel to publish on.
func (b *Broker) line(ctx context.Context) (*line, error) {
	for {
		select {
		case l := <-b.idle:
			if !l.IsClosed() {
				return l, nil
			}
		default:
			return b.open(ctx)
		}
	}
}

// open returns a new channel. It connects if the connection is gone.
func (b *Broker) open(ctx context.Context) (*line, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil || b.conn.IsClosed() {
		conn, err := b.dial(ctx)
		if err != nil {
			return nil, err
		}
		b.conn = conn
	}
	ch, err := b.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	return &line{
		Channel: ch, returned: ch.NotifyReturn(make(chan amqp.Return, chunk)),
		closed: ch.NotifyClose(make(chan *amqp.Error, 1)), topics: map[string]bool{},
	}, ch.Confirm(false)
}

// Publish sends events, and returns when all of them are confirmed. When its context ends first, it
// returns, though the connection may still be busy with them.
func (b *Broker) Publish(ctx context.Context, topic string, events []event.Event) error {
	all, err := bus.Encode(events)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- b.publish(ctx, topic, events, all) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("amqpbus: publish to %s: %w", topic, err)
	}
	return nil
}

func (b *Broker) publish(ctx context.Context, topic string, events []event.Event,
	all [][]byte) error {
	if err := errors.Join(ctx.Err(), valid(topic)); err != nil {
		return err
	}
	l, err := b.line(ctx)
	if err != nil {
		return err
	}
	err = l.declare(topic)
	dropped := 0
	for from := 0; from < len(all) && err == nil; from += chunk {
		to := min(from+chunk, len(all))
		err = l.send(ctx, topic, events[from:to], all[from:to])
		dropped += l.dropped()
	}
	if err != nil {
		err = l.reason(err)
		_ = l.Close() // messages may be on their way
		return err
	}
	select {
	case b.idle <- l:
	default:
		_ = l.Close() // enough of them are idle
	}
	if dropped > 0 && b.o.NeedGroup {
		return ErrNoGroup
	}
	return nil
}

// valid fails unless a topic may have queues: their names say which topic and which group.
func valid(topic string) error {
	if strings.Contains(topic, ":") {
		return fmt.Errorf("the topic %.100q is not valid: allowed are names without a colon", topic)
	}
	return nil
}

// declare makes the exchange of a topic if there is none.
func (l *line) declare(topic string) error {
	if l.topics[topic] {
		return nil
	}
	err := l.ExchangeDeclare(topic, amqp.ExchangeFanout, true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	l.topics[topic] = true
	return nil
}

// errNoConfirm is the error if the server cannot store a message, or the channel has ended.
var errNoConfirm = errors.New("a message is not confirmed")

// send publishes messages, and returns when all of them are confirmed.
func (l *line) send(ctx context.Context, topic string, events []event.Event, all [][]byte) error {
	var waiting []*amqp.DeferredConfirmation
	for i, raw := range all {
		m := amqp.Publishing{
			ContentType: bus.ContentType, DeliveryMode: amqp.Persistent, MessageId: events[i].ID,
			Headers: amqp.Table{}, Body: raw,
		}
		if len(m.MessageId) > 255 {
			m.MessageId = "" // it is for people only
		}
		if trace := events[i].Extensions[event.ExtTrace]; trace != "" {
			m.Headers[event.ExtTrace] = trace
		}
		c, err := l.PublishWithDeferredConfirm(topic, "", true, false, m)
		if err != nil {
			return err
		}
		waiting = append(waiting, c)
	}
	for _, c := range waiting {
		if stored, err := c.WaitContext(ctx); err != nil {
			return err
		} else if !stored {
			return errNoConfirm
		}
	}
	return nil
}

// dropped returns how many messages came back since the last call: no queue has them. They come
// before they are confirmed.
func (l *line) dropped() (n int) {
	for {
		select {
		case _, open := <-l.returned:
			if !open {
				return n
			}
			n++
		default:
			return n
		}
	}
}

// reason returns why a publish has failed: the error of the server, if it has closed the channel.
func (l *line) reason(err error) error {
	select {
	case closed := <-l.closed:
		if closed == nil {
			break
		}
		err = closed
		if closed.Code == amqp.PreconditionFailed &&
			strings.Contains(closed.Reason, "larger than") {
			err = errors.Join(bus.ErrTooLarge, err)
		}
	default:
	}
	return err
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// A Consumer takes the events of topics from a broker and calls a handler for each of them: for
// those of one subject in order and never for two at once, for those of different subjects side by
// side. An event without a subject counts as one with the subject of its source.
//
// An event that fails is handled again, after pauses that grow. Meanwhile it holds up its own
// subject, and the others as soon as Batch messages wait behind it. After the last try, or at once
// if the error is a [Rejection], it becomes a dead letter. The broker forgets an event when it is
// handled or its dead letter is kept: a process that dies before gets the event again.
//
// The order of a subject holds within one process. Several processes of one group share the events
// of a topic, and one may overtake the other, unless the broker gives all events of a subject to
// one process, as Kafka does by its partitions.
type Consumer struct {
	Broker Broker
	Topics []string
	Group  string
	// Handle returns nil when the event is done, and that is durable. It may be called again with
	// an event that it has done: brokers deliver at least once.
	Handle func(ctx context.Context, e event.Event) error
	// DeadLetter keeps an event that nobody could handle. It returns nil when that is durable; else
	// it is called again.
	DeadLetter func(ctx context.Context, l Letter) error

	Lanes int // how many events are handled at once; 0 means 16
	Batch int // how many messages are taken and not done with; 0 means 256
	Tries int // how often an event is handled at most; 0 means 5
	// Pause is the pause before the second try; 0 means 1 s. Each one after it is five times as
	// long, up to 30 s. Together they are longer than a minute: so long a dead process may hold the
	// lock of an instance.
	Pause time.Duration
	Log   *slog.Logger // nil means slog.Default
}

// A Letter is an event that nobody could handle.
type Letter struct {
	Topic, Group string
	Event        event.Event
	Raw          []byte // what came, if it is no event
	Tries        int    // how often it was handled; 0 if it is no event
	Err          error  // of the last try
}

// A Rejection is an error that knows whether another try changes anything. [Reject] makes one, and
// so can any type with this method.
type Rejection interface {
	error
	Rejects() bool // it returns true if another try is of no use
}

// Reject returns an error by which a handler rejects an event: it becomes a dead letter at once.
func Reject(err error) error { return rejection{err} }

type rejection struct{ error }

func (rejection) Rejects() bool   { return true }
func (r rejection) Unwrap() error { return r.error }

// Rejects reports whether another try is of no use, by an error of a handler. The outermost error
// in the chain that knows it counts; of joined errors all must reject.
func Rejects(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the chain is walked here
	case nil:
		return false
	case Rejection:
		return e.Rejects()
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool {
			return !Rejects(err)
		})
	}
	return Rejects(errors.Unwrap(err))
}

// Run consumes until ctx ends, and returns when no handler is called any more. It subscribes again
// when the broker fails. Handlers get a context that ends with ctx.
func (c *Consumer) Run(ctx context.Context) error {
	if c.Broker == nil || c.Handle == nil || c.DeadLetter == nil {
		return errors.New("bus: the consumer lacks Broker, Handle or DeadLetter")
	}
	w := newLanes(ctx, or(c.Batch, 256))
	var all sync.WaitGroup
	for range or(c.Lanes, 16) {
		all.Go(func() { w.work(c.attempt) })
	}
	for _, topic := range c.Topics {
		all.Go(func() { c.subscribe(ctx, topic, w) })
	}
	all.Wait()
	return ctx.Err()
}

// subscribe passes the messages of a topic to the lanes until ctx ends.
func (c *Consumer) subscribe(ctx context.Context, topic string, w *lanes) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		err := guard.Call(func() error {
			return c.Broker.Subscribe(ctx, topic, c.Group, func(m Message) {
				pause = firstPause
				w.add(&job{Message: m, topic: topic})
			})
		})
		if ctx.Err() == nil {
			c.log().WarnContext(ctx, "bus: subscription failed", "topic", topic, "group", c.Group,
				"error", err)
			rest(ctx, pause)
		}
	}
}

// attempt does the next thing for a message. It returns how long to wait before it is called again;
// below 0 when the message is done with.
func (c *Consumer) attempt(ctx context.Context, j *job) time.Duration {
	if most := deliveries * or(c.Tries, 5); j.last == nil && j.tries == 0 && j.Attempt > most {
		j.last = fmt.Errorf("the event was delivered %d times, and no try has ended", j.Attempt-1)
	}
	if j.last == nil && j.Bad == nil {
		j.tries++
		err := guard.Call(func() error { return c.Handle(ctx, j.Event) })
		switch {
		case err == nil:
			c.done(ctx, j)
			return -1
		case ctx.Err() != nil: // it was interrupted: the broker delivers it again
			return -1
		case !Rejects(err) && j.tries < or(c.Tries, 5):
			c.log().WarnContext(ctx, "bus: event failed", "topic", j.topic, "id", j.Event.ID,
				"try", j.tries, "error", err)
			return c.pause(j.tries)
		}
		j.last = err
	}
	l := Letter{j.topic, c.Group, j.Event, nil, j.tries, j.last}
	if j.Bad != nil {
		l.Raw, l.Err = j.Raw, fmt.Errorf("the message is no event: %w", j.Bad)
	}
	if err := guard.Call(func() error { return c.DeadLetter(ctx, l) }); err != nil {
		c.log().WarnContext(ctx, "bus: dead letter failed", "topic", j.topic, "id", j.Event.ID,
			"error", err)
		j.letters++
		return c.pause(j.letters)
	}
	c.done(ctx, j)
	return -1
}

// done lets the broker forget a message, also when the consumer stops. If it fails, the message
// comes again.
func (c *Consumer) done(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxDone)
	defer cancel()
	err := guard.Call(func() error { return j.Done(ctx) })
	for ; err != nil && ctx.Err() == nil; err = guard.Call(func() error { return j.Done(ctx) }) {
		rest(ctx, firstPause)
	}
	if err != nil {
		c.log().WarnContext(ctx, "bus: acknowledgement failed", "topic", j.topic,
			"id", j.Event.ID, "error", err)
	}
}

const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
	maxDone    = 5 * time.Second
	// for each try: an event that is delivered more often kills its processes, or was taken by
	// some that another event has killed
	deliveries = 20
)

// pause returns the pause after the n-th try.
func (c *Consumer) pause(n int) time.Duration {
	d := or(c.Pause, firstPause)
	for ; n > 1 && d < maxPause; n-- {
		d *= 5
	}
	return min(d, maxPause)
}

func (c *Consumer) log() *slog.Logger { return or(c.Log, slog.Default()) }

// or returns v, or the default for a zero v.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

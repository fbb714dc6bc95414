package bus

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// A lanes has the messages that a consumer is not done with: a queue for each subject, and the
// subjects whose first message is to be attempted now. A subject is in ready at most once, and not
// while a worker or a timer has it: so its messages are handled in order and never two at once.
type lanes struct {
	ctx   context.Context
	room  chan struct{} // a slot for each message
	ready chan string   // subjects; it has room for all there can be

	mu     sync.Mutex
	queues map[string][]*job
}

// A job is a message on its way through a consumer.
type job struct {
	Message
	topic   string
	tries   int   // how often it was handled
	letters int   // how often its dead letter was refused
	last    error // when no further try follows
}

// subject is the key of the order in which events are handled.
func (j *job) subject() string {
	if j.Bad != nil {
		return ""
	}
	return cmp.Or(j.Event.Subject, j.Event.Source)
}

func newLanes(ctx context.Context, room int) *lanes {
	return &lanes{
		ctx: ctx, room: make(chan struct{}, room), ready: make(chan string, room),
		queues: map[string][]*job{},
	}
}

// add adds a message when there is room for it.
func (l *lanes) add(j *job) {
	select {
	case l.room <- struct{}{}:
	case <-l.ctx.Done():
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := j.subject()
	if l.queues[key] = append(l.queues[key], j); len(l.queues[key]) == 1 {
		l.ready <- key
	}
}

// first returns the first message of a subject.
func (l *lanes) first(key string) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues[key][0]
}

// next removes the first message of a subject, and lets the second one follow.
func (l *lanes) next(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	<-l.room
	if l.queues[key] = l.queues[key][1:]; len(l.queues[key]) > 0 {
		l.ready <- key
	} else {
		delete(l.queues, key)
	}
}

// work attempts messages until the context ends. attempt returns how long to wait before the
// message is attempted again; below 0 when it is done with.
func (l *lanes) work(attempt func(context.Context, *job) time.Duration) {
	for l.ctx.Err() == nil {
		select {
		case <-l.ctx.Done():
		case key := <-l.ready:
			wait := attempt(l.ctx, l.first(key))
			switch {
			case l.ctx.Err() != nil: // nothing follows an event that was interrupted
			case wait < 0:
				l.next(key)
			default:
				time.AfterFunc(wait, func() { l.ready <- key })
			}
		}
	}
}

package bus

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/perdure/perdure/event"
)

// A Local is a [Broker] within one process, for tests and for programs of one process. Its events
// are gone when the process ends. A topic keeps an event until each of its groups is done with it,
// and keeps for its first group what came before. The zero value is empty.
type Local struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// A topic is the stream of events of a name.
type topic struct {
	early  []event.Event // for the first group
	groups map[string]*group
}

// A group has what a group is still to be done with of a topic.
type group struct {
	parcels list.List  // of *parcel, in the order of the topic
	more    *sync.Cond // of the lock of the broker; members that wait have their turns
}

// A parcel is an event for one group.
type parcel struct {
	event    event.Event
	attempts int
	by       *int // the subscriber that has it; nil for none
}

// topic returns what there is of a topic. It is called with the lock.
func (l *Local) topic(name string) *topic {
	t := l.topics[name]
	if t == nil {
		t = &topic{groups: map[string]*group{}}
		if l.topics == nil {
			l.topics = map[string]*topic{}
		}
		l.topics[name] = t
	}
	return t
}

// group returns what there is of a group.
func (l *Local) group(topic, name string) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topic(topic)
	g := t.groups[name]
	if g == nil {
		g = &group{more: sync.NewCond(&l.mu)}
		g.add(t.early)
		t.groups[name], t.early = g, nil
	}
	return g
}

func (g *group) add(events []event.Event) {
	for _, e := range copies(events) {
		g.parcels.PushBack(&parcel{event: e})
		g.more.Signal()
	}
}

// copies returns events that share nothing with those of the publisher or another group.
func copies(events []event.Event) []event.Event {
	all := slices.Clone(events)
	for i := range all {
		e := &all[i]
		e.Data, e.Extensions = bytes.Clone(e.Data), maps.Clone(e.Extensions)
	}
	return all
}

// Publish adds events to a topic, for each of its groups. It refuses all of them if one has a
// defect.
func (l *Local) Publish(ctx context.Context, name string, events []event.Event) error {
	for _, e := range events {
		if err := e.Check(); err != nil {
			return fmt.Errorf("bus: publish event %.100q: %w", e.ID, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	t := l.topic(name)
	if len(t.groups) == 0 {
		t.early = append(t.early, copies(events)...)
	}
	for _, g := range t.groups {
		g.add(events)
	}
	return nil
}

// Subscribe delivers the events of a topic to a member of a group. If several members wait, the one
// that has waited longest gets the next event.
func (l *Local) Subscribe(ctx context.Context, name, of string, deliver func(Message)) error {
	g, me := l.group(name, of), new(int)
	defer l.leave(g, me)
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		g.more.Broadcast()
	})
	defer stop()
	for {
		m := l.next(ctx, g, me)
		if m == nil {
			return ctx.Err()
		}
		deliver(*m)
	}
}

// next has a subscriber take the first parcel that nobody has, and waits for one. It returns nil at
// the end of the context.
func (l *Local) next(ctx context.Context, g *group, me *int) *Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; ctx.Err() == nil; g.more.Wait() {
		for at := g.parcels.Front(); at != nil; at = at.Next() {
			if p, _ := at.Value.(*parcel); p.by == nil {
				p.by = me
				p.attempts++
				return l.message(g, at)
			}
		}
	}
	return nil
}

// message returns a parcel as the message that its subscriber gets.
func (l *Local) message(g *group, at *list.Element) *Message {
	p, _ := at.Value.(*parcel)
	return &Message{Event: p.event, Attempt: p.attempts, Done: func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		g.parcels.Remove(at)
		return nil
	}}
}

// leave lets others take what a subscriber is not done with.
func (l *Local) leave(g *group, me *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := g.parcels.Front(); at != nil; at = at.Next() {
		if p, _ := at.Value.(*parcel); p.by == me {
			p.by = nil
		}
	}
	g.more.Broadcast()
}

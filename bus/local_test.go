package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/brokertest"
	"github.com/perdure/perdure/event"
)

// in checks a clause in virtual time, with a broker that begins there.
func in(t *testing.T, c brokertest.Case, begin func() bus.Broker) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := begin()
		err = c.Check(t.Context(), brokertest.World{Open: func() bus.Broker { return b }})
	})
	return err
}

// spec: F-10
func TestALocalBrokerKeepsTheContract(t *testing.T) {
	for _, c := range brokertest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if err := in(t, c, func() bus.Broker { return &bus.Local{} }); err != nil {
				t.Error(err)
			}
		})
	}
}

// A broken is a broker with a mistake.
type broken struct {
	bus.Local
	publish func(ctx context.Context, topic string, events []event.Event) error
	// subscribe changes the names of a subscription, and what is called for each message.
	subscribe func(topic, group *string, deliver func(bus.Message)) func(bus.Message)
	ends      func(error) error
}

func (b *broken) Publish(ctx context.Context, topic string, events []event.Event) error {
	return b.publish(ctx, topic, events)
}

func (b *broken) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	deliver = b.subscribe(&topic, &group, deliver)
	return b.ends(b.Local.Subscribe(ctx, topic, group, deliver))
}

// each has a mistake change each event that is published.
func (b *broken) each(change func(*event.Event)) {
	b.publish = func(ctx context.Context, topic string, events []event.Event) error {
		events = slices.Clone(events)
		for i := range events {
			change(&events[i])
		}
		return b.Local.Publish(ctx, topic, events)
	}
}

// names has a mistake change the names of topics and groups.
func (b *broken) names(topics, groups func(string) string) {
	b.publish = func(ctx context.Context, topic string, events []event.Event) error {
		return b.Local.Publish(ctx, topics(topic), events)
	}
	b.subscribe = func(topic, group *string, deliver func(bus.Message)) func(bus.Message) {
		*topic, *group = topics(*topic), groups(*group)
		return deliver
	}
}

// deliveries has a mistake change each message that is delivered.
func (b *broken) deliveries(change func(m *bus.Message)) {
	b.subscribe = func(_, _ *string, deliver func(bus.Message)) func(bus.Message) {
		return func(m bus.Message) {
			change(&m)
			deliver(m)
		}
	}
}

// doneWithAllBefore has a message be done with those before it, too.
func doneWithAllBefore() func(m *bus.Message) {
	var mu sync.Mutex
	var before []func(context.Context) error
	return func(m *bus.Message) {
		mu.Lock()
		defer mu.Unlock()
		before = append(before, m.Done)
		all := slices.Clone(before)
		m.Done = func(ctx context.Context) error {
			var err error
			for _, done := range all {
				err = errors.Join(err, done(ctx))
			}
			return err
		}
	}
}

// A mistake makes a broker do something wrong.
type mistake struct {
	name   string
	breaks func(b *broken)
}

func same(s string) string { return s }

// mistakesOfPublishing are found by what arrives.
func mistakesOfPublishing() []mistake {
	return []mistake{
		{"forgets the extensions", func(b *broken) {
			b.each(func(e *event.Event) { e.Extensions = nil })
		}},
		{"has JSON for any content", func(b *broken) {
			b.each(func(e *event.Event) { e.ContentType = "" })
		}},
		{"makes nil of no bytes", func(b *broken) {
			b.each(func(e *event.Event) {
				if len(e.Data) == 0 {
					e.Data = nil
				}
			})
		}},
		{"cuts what is large", func(b *broken) {
			b.each(func(e *event.Event) {
				if len(e.Data) > 1<<16 {
					e.Data = e.Data[:1<<16]
				}
			})
		}},
		{"stores an ID once, of any source", func(b *broken) {
			var seen sync.Map
			b.publish = func(ctx context.Context, topic string, events []event.Event) error {
				events = slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool {
					_, some := seen.LoadOrStore(topic+e.ID+e.Type, true)
					return some
				})
				return b.Local.Publish(ctx, topic, events)
			}
		}},
		{"turns a batch round", func(b *broken) {
			b.publish = func(ctx context.Context, topic string, events []event.Event) error {
				events = slices.Clone(events)
				slices.Reverse(events)
				return b.Local.Publish(ctx, topic, events)
			}
		}},
		{"sends what has no defect", func(b *broken) {
			b.publish = func(ctx context.Context, topic string, events []event.Event) error {
				var err error
				for i := range events {
					err = errors.Join(err, b.Local.Publish(ctx, topic, events[i:i+1]))
				}
				return err
			}
		}},
		{"publishes after the end of the context", func(b *broken) {
			b.publish = func(ctx context.Context, topic string, events []event.Event) error {
				return b.Local.Publish(context.WithoutCancel(ctx), topic, events)
			}
		}},
		{"has one topic", func(b *broken) {
			b.names(func(string) string { return "x" }, same)
		}},
		{"folds the case of topics", func(b *broken) { b.names(strings.ToLower, same) }},
		{"has no order of dots and slashes", func(b *broken) {
			b.names(func(s string) string { return strings.ReplaceAll(s, "/", ".") }, same)
		}},
		{"has one group", func(b *broken) {
			b.names(same, func(string) string { return "x" })
		}},
		{"has a group for each member", func(b *broken) {
			var members atomic.Int64
			b.names(same, func(s string) string { return fmt.Sprint(s, members.Add(1)) })
		}},
	}
}

// mistakesOfDelivering are found by when it arrives.
func mistakesOfDelivering() []mistake {
	return []mistake{
		{"is never done", func(b *broken) {
			b.deliveries(func(m *bus.Message) {
				m.Done = func(context.Context) error { return nil }
			})
		}},
		{"is done at once", func(b *broken) {
			b.deliveries(func(m *bus.Message) { _ = m.Done(context.Background()) })
		}},
		{"is done with all before", func(b *broken) { b.deliveries(doneWithAllBefore()) }},
		{"counts wrongly", func(b *broken) {
			b.deliveries(func(m *bus.Message) { m.Attempt = 1 })
		}},
		{"delivers all at once", func(b *broken) {
			b.subscribe = func(_, _ *string, deliver func(bus.Message)) func(bus.Message) {
				return func(m bus.Message) { go deliver(m) }
			}
		}},
		{"publishes only when nothing is held back", func(b *broken) {
			free := make(chan struct{}, 1)
			b.publish = func(ctx context.Context, topic string, events []event.Event) error {
				select {
				case free <- struct{}{}:
					defer func() { <-free }()
					return b.Local.Publish(ctx, topic, events)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			b.subscribe = func(_, _ *string, deliver func(bus.Message)) func(bus.Message) {
				return func(m bus.Message) {
					free <- struct{}{}
					defer func() { <-free }()
					deliver(m)
				}
			}
		}},
		{"ends without an error", func(b *broken) { b.ends = func(error) error { return nil } }},
		{"ends with another error", func(b *broken) {
			b.ends = func(error) error { return errors.New("closed") }
		}},
	}
}

// spec: F-10
func TestTheSuiteFindsBrokenBrokers(t *testing.T) {
	for _, wrong := range slices.Concat(mistakesOfPublishing(), mistakesOfDelivering()) {
		t.Run(wrong.name, func(t *testing.T) {
			var found error
			for _, c := range brokertest.Cases() {
				err := in(t, c, func() bus.Broker {
					b := &broken{ends: func(err error) error { return err }}
					b.publish = b.Local.Publish
					b.subscribe = func(_, _ *string, f func(bus.Message)) func(bus.Message) {
						return f
					}
					wrong.breaks(b)
					return b
				})
				if err != nil {
					found = errors.Join(found, fmt.Errorf("%s: %w", c.Name, err))
				}
			}
			if found == nil {
				t.Error("the suite finds nothing")
			}
		})
	}
}

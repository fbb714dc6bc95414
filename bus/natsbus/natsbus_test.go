package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/brokertest"
	"github.com/perdure/perdure/bus/natsbus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testbroker"
	"github.com/perdure/perdure/internal/testserver"
)

// connect returns a connection of a process of its own, as an application makes it.
func connect(t *testing.T, addr string) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.PingInterval(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func quick() natsbus.Options { return natsbus.Options{AckWait: time.Second} }

// number makes names that no other test has.
var number atomic.Int64

// spec: F-10
func TestABrokerOnNATSKeepsTheContract(t *testing.T) {
	s := testserver.NATS(t)
	brokertest.Run(t, func(t *testing.T) brokertest.World {
		raw := connect(t, s.Addr()).Conn()
		return brokertest.World{
			Prefix: fmt.Sprint("world", number.Add(1), "/"), Redelivers: 2 * quick().AckWait,
			// the library notices after 30 seconds that it has dropped a message
			Patience: 3 * time.Minute,
			Open:     func() bus.Broker { return natsbus.New(connect(t, s.Addr()), quick()) },
			Raw: func(_ context.Context, topic string, data []byte) error {
				return raw.Publish(topic, data)
			},
		}
	})
}

// spec: F-10
func TestWhatNATSAcknowledgesSurvivesAKill(t *testing.T) {
	s := testserver.NATS(t)
	testbroker.Outage{
		Open:  func() bus.Broker { return natsbus.New(connect(t, s.Addr()), quick()) },
		Topic: "killed", Down: s.Kill, Up: s.Restart,
	}.Bear(t)
}

// spec: F-10
func TestACutNetworkToNATSLosesNothing(t *testing.T) {
	s := testserver.NATS(t)
	p := faultproxy.New(t, s.Addr())
	testbroker.Outage{
		Open:  func() bus.Broker { return natsbus.New(connect(t, p.Addr()), quick()) },
		Topic: "cut", Up: p.Heal,
		Down: func() {
			p.Refuse()
			p.Cut()
		},
	}.Bear(t)
	testbroker.Outage{
		Open:  func() bus.Broker { return natsbus.New(connect(t, p.Addr()), quick()) },
		Topic: "swallowed", Down: p.Blackhole, Up: p.Heal,
	}.Bear(t)
}

// spec: F-10
func TestAnEventThatIsPublishedAgainIsStoredOnce(t *testing.T) {
	s := testserver.NATS(t)
	js := connect(t, s.Addr())
	// One stream has both topics: an event may be sent to each of them.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "OURS", Subjects: []string{"twice.*"},
	}); err != nil {
		t.Fatal(err)
	}
	b := natsbus.New(js, quick())
	again := natsbus.New(connect(t, s.Addr()), quick())
	testbroker.Publish(t, b, "twice.a", testbroker.Events("1", "2")...)
	testbroker.Publish(t, again, "twice.a", testbroker.Events("1", "2", "3")...)
	testbroker.Publish(t, again, "twice.b", testbroker.Events("1", "9")...)
	for topic, want := range map[string][]string{
		"twice.a": {"1", "2", "3"}, "twice.b": {"1", "9"},
	} {
		come, _ := testbroker.Receive(t.Context(), b, topic, "g")
		for _, id := range want {
			if m := testbroker.Next(t, come); m.Event.ID != id {
				t.Errorf("%s: %s comes, want %s", topic, m.Event.ID, id)
			}
		}
	}
	stream, err := js.Stream(t.Context(), "OURS")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 5 {
		t.Errorf("%d messages are stored, want 5", n)
	}
}

// spec: F-10
func TestAnEventThatNATSNeverTakesIsTooLarge(t *testing.T) {
	s := testserver.NATS(t)
	js := connect(t, s.Addr())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 1000,
	}); err != nil {
		t.Fatal(err)
	}
	b := natsbus.New(js, quick())
	for topic, size := range map[string]int{"large": 2 << 20, "small": 2000} {
		e := testbroker.Event("1")
		e.Data = []byte(`"` + strings.Repeat("x", size) + `"`)
		err := b.Publish(t.Context(), topic, []event.Event{e})
		if !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), topic) {
			t.Errorf("%s: %v", topic, err)
		}
		testbroker.Publish(t, b, topic, testbroker.Event("2"))
	}
}

// spec: F-10
func TestATopicThatIsNoSubjectIsRefused(t *testing.T) {
	b := natsbus.New(connect(t, testserver.NATS(t).Addr()), quick())
	for _, topic := range []string{"", ".", "a..b", ".a", "a.", "a b", "a.*", ">", "ä"} {
		p := b.Publish(t.Context(), topic, testbroker.Events("1"))
		s := b.Subscribe(t.Context(), topic, "g", func(bus.Message) {})
		for _, err := range []error{p, s} {
			if err == nil || !strings.Contains(err.Error(), "not valid") {
				t.Errorf("topic %q: %v", topic, err)
			}
		}
	}
}

// spec: F-10
func TestAMessageIsNotTakenFromASubscriberThatLives(t *testing.T) {
	s := testserver.NATS(t)
	short := natsbus.Options{AckWait: 300 * time.Millisecond}
	js := connect(t, s.Addr())
	one, other := natsbus.New(js, short), natsbus.New(connect(t, s.Addr()), short)
	testbroker.Publish(t, one, "held", testbroker.Event("1"))
	held, ended := testbroker.Receive(t.Context(), one, "held", "g")
	first := <-held
	come, _ := testbroker.Receive(t.Context(), other, "held", "g")
	// A plain consumer with the same AckWait has the event again and again meanwhile.
	c, err := js.CreateConsumer(t.Context(), "held", jetstream.ConsumerConfig{
		AckWait: short.AckWait, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case m := <-come:
		t.Errorf("%s comes to another member while the first one has it", m.Event.ID)
	default:
	}
	js.Conn().Close() // as when its process dies
	if m := testbroker.Next(t, come); m.Event.ID != "1" || m.Attempt < 2 {
		t.Errorf("%s comes as attempt %d after the death of a member", m.Event.ID, m.Attempt)
	}
	if err := <-ended; err == nil || first.Done(t.Context()) == nil {
		t.Errorf("the subscription ends with %v, and Done without an error", err)
	}
}

// spec: F-10
func TestHeadersSayWhatIsInAMessage(t *testing.T) {
	js := connect(t, testserver.NATS(t).Addr())
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := testbroker.Event("1")
	e.Extensions = map[string]string{event.ExtTrace: trace}
	testbroker.Publish(t, natsbus.New(js, quick()), "headers/a", e)
	c, err := js.CreateConsumer(t.Context(), "headers=2Fa", jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	h := m.Headers()
	if h.Get("content-type") != bus.ContentType || h.Get("traceparent") != trace {
		t.Errorf("%v", h)
	}
}

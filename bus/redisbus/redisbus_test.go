package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/brokertest"
	"github.com/perdure/perdure/bus/redisbus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testbroker"
	"github.com/perdure/perdure/internal/testserver"
)

// connect returns a client of a process of its own, as an application makes it.
func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func quick() redisbus.Options { return redisbus.Options{Idle: time.Second} }

// number makes names that no other test has.
var number atomic.Int64

// spec: F-10
func TestABrokerOnRedisKeepsTheContract(t *testing.T) {
	s := testserver.Redis(t)
	raw := connect(t, s.Addr())
	brokertest.Run(t, func(t *testing.T) brokertest.World {
		return brokertest.World{
			Prefix: fmt.Sprint("world", number.Add(1), "/"), Redelivers: 2 * quick().Idle,
			Open: func() bus.Broker { return redisbus.New(connect(t, s.Addr()), quick()) },
			Raw: func(ctx context.Context, topic string, data []byte) error {
				return raw.XAdd(ctx, &redis.XAddArgs{
					Stream: topic, Values: []any{"event", data},
				}).Err()
			},
		}
	})
}

// spec: F-10
func TestWhatRedisAcknowledgesSurvivesAKill(t *testing.T) {
	s := testserver.Redis(t)
	testbroker.Outage{
		Open:  func() bus.Broker { return redisbus.New(connect(t, s.Addr()), quick()) },
		Topic: "killed", Down: s.Kill, Up: s.Restart,
	}.Bear(t)
}

// spec: F-10
func TestACutNetworkToRedisLosesNothing(t *testing.T) {
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	open := func() bus.Broker { return redisbus.New(connect(t, p.Addr()), quick()) }
	testbroker.Outage{
		Open: open, Topic: "cut", Up: p.Heal,
		Down: func() {
			p.Refuse()
			p.Cut()
		},
	}.Bear(t)
	testbroker.Outage{Open: open, Topic: "swallowed", Down: p.Blackhole, Up: p.Heal}.Bear(t)
}

// spec: F-10
func TestAnEntryWithoutAnEventIsBad(t *testing.T) {
	c := connect(t, testserver.Redis(t).Addr())
	add := &redis.XAddArgs{Stream: "bad", Values: []any{"a", "1"}}
	if err := c.XAdd(t.Context(), add).Err(); err != nil {
		t.Fatal(err)
	}
	come, _ := testbroker.Receive(t.Context(), redisbus.New(c, quick()), "bad", "g")
	if m := testbroker.Next(t, come); m.Bad == nil || string(m.Raw) != `{"a":"1"}` {
		t.Errorf("%+v, %s", m, m.Raw)
	}
}

// spec: F-10
func TestAnEventThatRedisNeverTakesIsTooLarge(t *testing.T) {
	c := connect(t, testserver.Redis(t, "--proto-max-bulk-len", "1mb").Addr())
	b := redisbus.New(c, redisbus.Options{MaxSize: 1 << 20})
	e := testbroker.Event("1")
	e.Data = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	err := b.Publish(t.Context(), "large", []event.Event{testbroker.Event("0"), e})
	if !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "large") {
		t.Error(err)
	}
	testbroker.Publish(t, b, "large", testbroker.Event("2"))
	come, _ := testbroker.Receive(t.Context(), b, "large", "g")
	if m := testbroker.Next(t, come); m.Event.ID != "2" {
		t.Errorf("%s comes: the batch is not refused as a whole", m.Event.ID)
	}
}

// spec: F-10
func TestAStreamIsTrimmedIfThatIsAskedFor(t *testing.T) {
	c := connect(t, testserver.Redis(t).Addr())
	old := &redis.XAddArgs{Values: []any{"event", "{}"}}
	for topic, o := range map[string]redisbus.Options{
		"none": {}, "age": {MaxAge: time.Hour}, "length": {MaxLen: 500},
	} {
		for i := range 1000 { // Redis removes them by the hundred
			old.Stream, old.ID = topic, fmt.Sprint(i+1, "-0") // of 1970
			if err := c.XAdd(t.Context(), old).Err(); err != nil {
				t.Fatal(err)
			}
		}
		testbroker.Publish(t, redisbus.New(c, o), topic, testbroker.Event("1"))
		n, err := c.XLen(t.Context(), topic).Result()
		if err != nil {
			t.Fatal(err)
		}
		low, high := map[string]int64{"none": 1001, "age": 1, "length": 500}[topic],
			map[string]int64{"none": 1001, "age": 200, "length": 700}[topic]
		if n < low || n > high {
			t.Errorf("%s: %d events are left, want %d to %d", topic, n, low, high)
		}
	}
}

// spec: F-10
func TestAMessageIsNotTakenFromASubscriberThatLives(t *testing.T) {
	s := testserver.Redis(t)
	short := redisbus.Options{Idle: 300 * time.Millisecond}
	c := connect(t, s.Addr())
	one, other := redisbus.New(c, short), redisbus.New(connect(t, s.Addr()), short)
	testbroker.Publish(t, one, "held", testbroker.Event("1"))
	held, ended := make(chan bus.Message, 1), make(chan error, 1)
	free := make(chan struct{})
	go func() {
		ended <- one.Subscribe(t.Context(), "held", "g", func(m bus.Message) {
			held <- m
			<-free // nothing is read meanwhile
		})
	}()
	first := <-held
	come, _ := testbroker.Receive(t.Context(), other, "held", "g")
	// Consumers that are not heard of lose their messages meanwhile.
	for _, silent := range []string{"silent", "more silent"} {
		if err := c.XGroupCreate(t.Context(), "held", silent, "0").Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: silent, Consumer: "x", Streams: []string{"held", ">"},
		}).Err(); err != nil {
			t.Fatal(err)
		}
		lost, _ := testbroker.Receive(t.Context(), other, "held", silent)
		if m := testbroker.Next(t, lost); m.Event.ID != "1" || m.Attempt != 2 {
			t.Errorf("%s comes as attempt %d after the death of a member", m.Event.ID, m.Attempt)
		}
	}
	select {
	case m := <-come:
		t.Errorf("%s comes to another member while the first one has it", m.Event.ID)
	default:
	}
	_ = c.Close() // as when its process dies
	close(free)
	if m := testbroker.Next(t, come); m.Event.ID != "1" || m.Attempt < 2 {
		t.Errorf("%s comes as attempt %d after the death of a member", m.Event.ID, m.Attempt)
	}
	if err := <-ended; err == nil || first.Done(t.Context()) == nil {
		t.Errorf("the subscription ends with %v, and Done without an error", err)
	}
}

// spec: F-10
func TestASubscriberLeavesNoConsumerBehind(t *testing.T) {
	c := connect(t, testserver.Redis(t).Addr())
	b := redisbus.New(c, quick())
	testbroker.Publish(t, b, "left", testbroker.Event("1"))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		come, ended := testbroker.Receive(ctx, b, "left", "g")
		if m := <-come; m.Event.ID != "1" {
			t.Errorf("%s comes", m.Event.ID)
		}
		cancel()
		<-ended
	}
	all, err := c.XInfoConsumers(t.Context(), "left", "g").Result()
	if err != nil || len(all) != 1 || all[0].Name != "left" || all[0].Pending != 1 {
		t.Errorf("the consumers are %+v, %v", all, err)
	}
}

// spec: F-10
func TestHeadersSayWhatIsInAMessage(t *testing.T) {
	c := connect(t, testserver.Redis(t).Addr())
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := testbroker.Event("1")
	e.Extensions = map[string]string{event.ExtTrace: trace}
	testbroker.Publish(t, redisbus.New(c, quick()), "headers", e)
	all, err := c.XRange(t.Context(), "headers", "-", "+").Result()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	h := all[0].Values
	if h["content-type"] != bus.ContentType || h["traceparent"] != trace {
		t.Errorf("%v", h)
	}
}

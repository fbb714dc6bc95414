package kafkabus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/brokertest"
	"github.com/perdure/perdure/bus/kafkabus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/testbroker"
)

// number makes names that no other test has.
var number atomic.Int64

// begin starts a cluster of one server within the process, with three partitions for each topic.
func begin(t *testing.T, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open returns a broker as another process would have it.
func open(t *testing.T, addrs []string, o kafkabus.Options) *kafkabus.Broker {
	t.Helper()
	b := kafkabus.New(o, kgo.SeedBrokers(addrs...), kgo.MetadataMinAge(50*time.Millisecond))
	t.Cleanup(b.Close)
	return b
}

// plain returns a client past the broker.
func plain(t *testing.T, addrs []string, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(o, kgo.SeedBrokers(addrs...), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// spec: F-10
func TestABrokerOnKafkaKeepsTheContract(t *testing.T) {
	c := begin(t)
	defer c.Close()
	raw := plain(t, c.ListenAddrs())
	brokertest.Run(t, func(t *testing.T) brokertest.World {
		return brokertest.World{
			Prefix: fmt.Sprint("world", number.Add(1), "/"), Positions: true, BySubject: true,
			Open: func() bus.Broker { return open(t, c.ListenAddrs(), kafkabus.Options{}) },
			Raw: func(ctx context.Context, topic string, data []byte) error {
				return raw.ProduceSync(ctx, &kgo.Record{
					Topic: strings.ReplaceAll(topic, "/", ".."), Value: data,
				}).FirstErr()
			},
		}
	})
}

// restarts is a cluster that may be ended and begun again at the same address with the same files.
func restarts(t *testing.T) (addr string, down, up func()) {
	t.Helper()
	dir := t.TempDir()
	var c *kfake.Cluster
	var port int
	for range 10 { // a port may be taken
		port = 12000 + rand.IntN(18000)
		var err error
		c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port),
			kfake.AllowAutoTopicCreation(), kfake.DataDir(dir), kfake.DefaultNumPartitions(3))
		if err == nil {
			break
		}
	}
	if c == nil {
		t.Fatal("no free port")
	}
	t.Cleanup(func() { c.Close() })
	return fmt.Sprint("127.0.0.1:", port), func() { c.Close() }, func() {
		c = begin(t, kfake.Ports(port), kfake.DataDir(dir))
	}
}

// spec: F-10
func TestWhatKafkaAcknowledgesSurvivesARestart(t *testing.T) {
	addr, down, up := restarts(t)
	testbroker.Outage{
		Open:  func() bus.Broker { return open(t, []string{addr}, kafkabus.Options{}) },
		Topic: "killed", Down: down, Up: up, Try: 5 * time.Second,
	}.Bear(t)
}

func numbered(id, subject string) event.Event {
	return event.Event{ID: id, Source: "/s", Type: "t", Subject: subject}
}

// spec: F-10
func TestAnEventThatKafkaNeverTakesIsTooLarge(t *testing.T) {
	c := begin(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "500000"}))
	defer c.Close()
	for name, b := range map[string]*kafkabus.Broker{
		"client": open(t, c.ListenAddrs(), kafkabus.Options{MaxSize: 100_000}),
		"server": open(t, c.ListenAddrs(), kafkabus.Options{}),
	} {
		e := numbered("1", "s")
		e.Data = fmt.Appendf(nil, "%q", incompressible(600_000))
		err := b.Publish(t.Context(), name, []event.Event{e})
		if !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Publish(t.Context(), name, []event.Event{numbered("2", "s")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// incompressible returns a text that stays as long as it is.
func incompressible(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rand.IntN(26))
	}
	return string(b)
}

// spec: F-10
func TestATopicThatKafkaMayNotHaveIsRefused(t *testing.T) {
	b := open(t, []string{"127.0.0.1:1"}, kafkabus.Options{})
	for _, topic := range []string{"a..b", "a./b", "a/.b"} {
		for _, err := range []error{
			b.Publish(t.Context(), topic, nil),
			b.Subscribe(t.Context(), topic, "g", func(bus.Message) {}),
		} {
			if err == nil || !strings.Contains(err.Error(), "not valid") {
				t.Errorf("%s: %v", topic, err)
			}
		}
	}
}

// spec: F-10
func TestARecordHasTheSubjectAsItsKey(t *testing.T) {
	c := begin(t)
	defer c.Close()
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := numbered("1", "order/7")
	e.Extensions = map[string]string{event.ExtTrace: trace}
	b := open(t, c.ListenAddrs(), kafkabus.Options{})
	if err := b.Publish(t.Context(), "keys/a", []event.Event{e, numbered("2", "")}); err != nil {
		t.Fatal(err)
	}
	reader := plain(t, c.ListenAddrs(), kgo.ConsumeTopics("keys..a"))
	keys := map[string]bool{}
	for len(keys) < 2 {
		for _, r := range reader.PollFetches(t.Context()).Records() {
			keys[string(r.Key)] = true
			if h := r.Headers; h[0].Key != "content-type" ||
				string(h[0].Value) != bus.ContentType {
				t.Errorf("%v", h)
			}
			if string(r.Key) == "order/7" && string(r.Headers[1].Value) != trace {
				t.Errorf("%v", r.Headers)
			}
		}
	}
	if !keys["order/7"] || !keys["/s"] {
		t.Errorf("the keys are %v", keys)
	}
}

// The position is that of the first message that is not done with, and no further.
//
// spec: F-10
func TestThePositionIsBeforeTheFirstOpenMessage(t *testing.T) {
	c := begin(t)
	defer c.Close()
	b := open(t, c.ListenAddrs(), kafkabus.Options{})
	var sent []event.Event
	for i := range 5 {
		sent = append(sent, numbered(fmt.Sprint(i), "one"))
	}
	if err := b.Publish(t.Context(), "position", sent); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	come, ended := make(chan bus.Message, len(sent)), make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, "position", "g", func(m bus.Message) { come <- m })
	}()
	var got []bus.Message
	for range sent {
		got = append(got, <-come)
	}
	committed := func() (most int64) {
		for _, p := range c.GroupInfo("g:position").Commits["position"] {
			most = max(most, p.Offset)
		}
		return most
	}
	for _, step := range []struct {
		done int
		want int64
	}{{1, 0}, {3, 0}, {0, 2}, {2, 4}, {4, 5}} {
		if err := got[step.done].Done(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := committed(); at != step.want {
			t.Errorf("the position is %d after message %d, want %d", at, step.done, step.want)
		}
	}
	cancel()
	<-ended
	if got[0].Done(t.Context()) == nil {
		t.Error("a message is done with after the subscription, without an error")
	}
}

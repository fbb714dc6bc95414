package amqpbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/amqpbus"
	"github.com/perdure/perdure/bus/brokertest"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/testbroker"
	"github.com/perdure/perdure/internal/testserver"
)

// number makes names that no other test has.
var number atomic.Int64

// start starts a server, which takes seconds.
func start(t *testing.T) *testserver.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: RabbitMQ starts slowly")
	}
	return testserver.RabbitMQ(t, "max_message_size = 1000000")
}

func url(s *testserver.Server) string { return "amqp://guest:guest@" + s.Addr() + "/" }

// open returns a broker as another process would have it.
func open(t *testing.T, s *testserver.Server, o amqpbus.Options) *amqpbus.Broker {
	t.Helper()
	b := amqpbus.New(url(s), o)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// plain returns a channel past the broker.
func plain(t *testing.T, s *testserver.Server) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(url(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// One server is for all tests. The last one kills it.
//
// spec: F-10
func TestRabbitMQ(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *testserver.Server)
	}{
		{"contract", keepsTheContract}, {"large", refusesWhatIsLarge},
		{"no group", reportsThatThereIsNoGroup}, {"topics", refusesOtherTopics},
		{"headers", saysWhatIsInAMessage}, {"existing queue", usesAQueueThatIsThere},
		{"closed", connectsAgain}, {"killed", survivesAKill},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func keepsTheContract(t *testing.T, s *testserver.Server) {
	raw := plain(t, s)
	brokertest.Run(t, func(t *testing.T) brokertest.World {
		return brokertest.World{
			Prefix: fmt.Sprint("world", number.Add(1), "/"),
			Open:   func() bus.Broker { return open(t, s, amqpbus.Options{}) },
			Raw: func(ctx context.Context, topic string, data []byte) error {
				return raw.PublishWithContext(ctx, topic, "", false, false, amqp.Publishing{
					Body: data,
				})
			},
		}
	})
}

// A queue that a server has made within the last seconds does not survive its kill: it writes down
// later that it has the queue. An orderly restart has it do so.
func survivesAKill(t *testing.T, s *testserver.Server) {
	ctx, cancel := context.WithCancel(t.Context())
	b := open(t, s, amqpbus.Options{NeedGroup: true})
	_, ended := testbroker.Receive(ctx, b, "killed", "g")
	for try := time.After(time.Minute); ; {
		err := b.Publish(ctx, "killed", testbroker.Events("first"))
		if err == nil {
			break
		}
		select {
		case <-try:
			t.Fatal(err)
		default:
		}
	}
	cancel()
	<-ended
	s.Restart()
	testbroker.Outage{
		Open:  func() bus.Broker { return open(t, s, amqpbus.Options{}) },
		Topic: "killed", Down: s.Kill, Up: s.Restart, Try: 5 * time.Second,
	}.Bear(t)
}

func refusesWhatIsLarge(t *testing.T, s *testserver.Server) {
	b := open(t, s, amqpbus.Options{})
	e := testbroker.Event("1")
	e.Data = []byte(`"` + strings.Repeat("x", 1_000_000) + `"`)
	err := b.Publish(t.Context(), "large", []event.Event{e})
	if !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "publish to large") {
		t.Error(err)
	}
	testbroker.Publish(t, b, "large", testbroker.Event("2"))
}

func reportsThatThereIsNoGroup(t *testing.T, s *testserver.Server) {
	b := open(t, s, amqpbus.Options{NeedGroup: true})
	for range 3 {
		err := b.Publish(t.Context(), "nobody", testbroker.Events("1", "2"))
		if !errors.Is(err, amqpbus.ErrNoGroup) {
			t.Fatal(err)
		}
	}
	come, _ := testbroker.Receive(t.Context(), b, "nobody", "g")
	for i := 0; b.Publish(t.Context(), "nobody", testbroker.Events("3")) != nil; i++ {
		if i > 10_000 {
			t.Fatal("a group that has subscribed is not found")
		}
	}
	if m := testbroker.Next(t, come); m.Event.ID != "3" {
		t.Errorf("%s comes", m.Event.ID)
	}
	testbroker.Publish(t, open(t, s, amqpbus.Options{}), "still nobody", testbroker.Event("1"))
}

func refusesOtherTopics(t *testing.T, s *testserver.Server) {
	b := open(t, s, amqpbus.Options{})
	for _, err := range []error{
		b.Publish(t.Context(), "a:b", nil),
		b.Subscribe(t.Context(), "a:b", "g", func(bus.Message) {}),
	} {
		if err == nil || !strings.Contains(err.Error(), "not valid") {
			t.Error(err)
		}
	}
	err := b.Publish(t.Context(), "amq.other", nil) // the server has such names for itself
	if err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") {
		t.Error(err)
	}
}

func saysWhatIsInAMessage(t *testing.T, s *testserver.Server) {
	ch := plain(t, s)
	b := open(t, s, amqpbus.Options{})
	testbroker.Publish(t, b, "headers") // makes the exchange
	if _, err := ch.QueueDeclare("q", false, true, true, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("q", "", "headers", false, nil); err != nil {
		t.Fatal(err)
	}
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := testbroker.Event("1")
	e.Extensions = map[string]string{event.ExtTrace: trace}
	testbroker.Publish(t, b, "headers", e)
	d, some, err := ch.Get("q", true)
	if err != nil || !some {
		t.Fatal(some, err)
	}
	if d.ContentType != bus.ContentType || d.Headers["traceparent"] != trace ||
		d.DeliveryMode != amqp.Persistent {
		t.Errorf("%+v", d)
	}
}

// A queue of another type knows less: it has no number of attempts.
func usesAQueueThatIsThere(t *testing.T, s *testserver.Server) {
	ch := plain(t, s)
	if _, err := ch.QueueDeclare("old:g", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b := open(t, s, amqpbus.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	come, ended := testbroker.Receive(ctx, b, "old", "g")
	body := `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`
	err := ch.PublishWithContext(ctx, "", "old:g", false, false, amqp.Publishing{
		Body: []byte(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	if m := <-come; m.Attempt != 1 || m.Event.ID != "1" {
		t.Errorf("%+v", m)
	}
	cancel()
	<-ended
	come, _ = testbroker.Receive(t.Context(), b, "old", "g")
	m := testbroker.Next(t, come)
	if m.Attempt != 0 || m.Event.ID != "1" {
		t.Errorf("%+v", m)
	}
	if err := m.Done(t.Context()); err != nil {
		t.Error(err) // a second time changes nothing
	}
	testbroker.Publish(t, b, "old", testbroker.Event("2"))
	if m := testbroker.Next(t, come); m.Event.ID != "2" {
		t.Errorf("%+v", m)
	}
}

func connectsAgain(t *testing.T, s *testserver.Server) {
	b := open(t, s, amqpbus.Options{})
	for range 3 {
		testbroker.Publish(t, b, "again", testbroker.Event("1"))
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

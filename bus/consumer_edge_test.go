package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/perduretest"
)

// scripted is a broker that delivers a list of messages once, and notes which are done.
type scripted struct {
	messages []bus.Message
	mu       sync.Mutex
	done     map[int]int
}

func (s *scripted) Publish(context.Context, string, []event.Event) error { return nil }

func (s *scripted) Subscribe(ctx context.Context, _, _ string, deliver func(bus.Message)) error {
	for i, m := range s.messages {
		m.Done = func(ctx context.Context) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.done == nil {
				s.done = map[int]int{}
			}
			s.done[i]++
			return nil
		}
		deliver(m)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *scripted) isDone(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[i] > 0
}

// keepsLetters runs a consumer for a day. It keeps its letters in the store, and is to be done with
// all messages.
func keepsLetters(env *perduretest.Env, handle func(context.Context, event.Event) error,
	messages ...bus.Message) {
	env.Helper()
	b := &scripted{messages: messages}
	c := &bus.Consumer{
		Broker: b, Topics: []string{"t"}, Group: "g", Log: slog.New(slog.DiscardHandler),
		Handle: handle, DeadLetter: bus.Letters{Admin: admin.New(env.Engine())}.Keep,
	}
	ctx, cancel := context.WithCancel(env.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	env.Sleep(24 * time.Hour)
	cancel()
	<-ended
	for i := range messages {
		if !b.isDone(i) {
			env.Errorf("message %d is not done after a day", i)
		}
	}
}

// A message without any bytes is no event. It becomes a letter, as other bad messages do, and holds
// up none of them.
func TestAnEmptyMessageBecomesALetter(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		keepsLetters(env, func(context.Context, event.Event) error { return nil },
			bus.Decode(nil), bus.Decode([]byte("bad")))
	})
}

// The error of a letter may have no text.
func TestALetterOfAnErrorWithoutText(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		letters := bus.Letters{Admin: admin.New(env.Engine())}
		err := letters.Keep(env.Context(), bus.Letter{
			Topic: "t", Group: "g", Event: about("a", 1), Tries: 1, Err: errors.New(""),
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The letter of an event that is too large for the store is kept in some form: its subject goes on.
func TestAnEventThatIsTooLargeForTheStore(t *testing.T) {
	perduretest.Setup{Options: perdure.Options{MaxPayload: 10_000}}.Test(t,
		func(env *perduretest.Env) {
			large := about("a", 1)
			large.Data = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
			keepsLetters(env, func(_ context.Context, e event.Event) error {
				if e.ID == large.ID {
					return bus.Reject(errors.New("too large"))
				}
				return nil
			}, bus.Message{Event: large}, bus.Message{Event: about("a", 2)})
		})
}

// A process dies with the lock of a subject. Its event comes again at once, and is tried until the
// lock has passed.
//
// spec: A-10
func TestADeadHolderOfALockMakesNoDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &orchestrator.Local[orchestrator.Record]{}
		if token, err := m.Lock(t.Context(), "a", time.Minute, nil); token == 0 || err != nil {
			t.Fatal(err) // the process that dies
		}
		o := &orchestrator.Orchestrator{
			Source: "/o", Memory: m,
			Publish: func(context.Context, []event.Event) error { return nil },
			Versions: []orchestrator.Version{{
				Initial: []string{"x"},
				Handle:  func(context.Context, *orchestrator.Turn) error { return nil },
			}},
		}
		b := &bus.Local{}
		publish(t, b, about("a", 1))
		var h handler
		c := h.consumer(b)
		c.Handle = func(ctx context.Context, e event.Event) error {
			_, err := o.On(ctx, e)
			return err
		}
		stop := runs(t, c)
		time.Sleep(time.Hour)
		stop()
		if len(h.letters) > 0 {
			t.Errorf("dead letter: %v", h.letters[0].Err)
		}
	})
}

// Only a call of the handler that fails is a try. A message that a process has taken and not
// handled before it stopped has all its tries left.
func TestADeliveryIsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		publish(t, b, about("a", 1), about("a", 2))
		slow := true
		h := handler{}
		c := h.consumer(b)
		tries := 0
		c.Handle = func(ctx context.Context, e event.Event) error {
			if e.ID == "1" && slow {
				<-ctx.Done()
				return ctx.Err()
			}
			if e.ID == "2" {
				if tries++; tries == 1 {
					return errNo
				}
			}
			return nil
		}
		for range 5 { // deployments
			stop := runs(t, c)
			time.Sleep(time.Second)
			stop()
		}
		slow = false
		stop := runs(t, c)
		time.Sleep(time.Minute)
		stop()
		if len(h.letters) > 0 {
			t.Errorf("event %s is a dead letter after %d try", h.letters[0].Event.ID,
				h.letters[0].Tries)
		}
	})
}

// An event that kills each process that handles it has no error. Its deliveries are counted, and
// after too many of them the handler is not called any more.
//
// spec: A-10
func TestAnEventThatKillsProcessesBecomesALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{messages: []bus.Message{{Event: about("a", 1), Attempt: 1000}}}
		h := handler{}
		stop := runs(t, h.consumer(b))
		time.Sleep(time.Minute)
		stop()
		if len(h.done) > 0 || len(h.letters) != 1 {
			t.Errorf("at delivery 1000: %d calls, letters %v", len(h.done), h.letters)
		}
	})
}

// A handler ends after the consumer was told to stop. What it has done is acknowledged.
func TestWhatIsDoneWhenTheConsumerStopsIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{messages: []bus.Message{{Event: about("a", 1)}}}
		h := handler{handle: func(event.Event, int) error { time.Sleep(time.Second); return nil }}
		stop := runs(t, h.consumer(b))
		time.Sleep(time.Millisecond)
		stop()
		if len(h.done) != 1 || !b.isDone(0) {
			t.Errorf("%d events are done, acknowledged: %v", len(h.done), b.isDone(0))
		}
	})
}

// A transaction error of an orchestrator asks for another try, also if there is a rejection in its
// chain.
func TestATransactionErrorIsNoRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		publish(t, b, about("a", 1))
		h := handler{handle: func(_ event.Event, try int) error {
			if try > 1 {
				return nil
			}
			return &orchestrator.TransactionError{Subject: "a", Op: "publish",
				Err: &orchestrator.Violation{ID: "2", Err: errNo}}
		}}
		stop := runs(t, h.consumer(b))
		time.Sleep(time.Minute)
		stop()
		if len(h.letters) > 0 {
			t.Errorf("dead letter: %v", h.letters[0].Err)
		}
	})
}

// Of joined errors, one that is no rejection asks for another try.
func TestJoinedErrorsAreNoRejectionWhileOneMayWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		publish(t, b, about("a", 1))
		h := handler{handle: func(_ event.Event, try int) error {
			if try > 1 {
				return nil
			}
			return errors.Join(errNo, bus.Reject(errNo))
		}}
		stop := runs(t, h.consumer(b))
		time.Sleep(time.Minute)
		stop()
		if len(h.letters) > 0 {
			t.Errorf("dead letter: %v", h.letters[0].Err)
		}
	})
}

// What one group of the local broker does to an event is seen neither by another group nor by the
// publisher, and what the publisher does to it later is seen by nobody.
func TestGroupsShareNoEvent(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := &bus.Local{}
			e := about("a", 1)
			e.Extensions = map[string]string{"x": "1"}
			if early { // before there is a group
				publish(t, b, e)
				e.Extensions["x"] = "0"
			}
			come := make(chan bus.Message, 2)
			for _, group := range []string{"one", "two"} {
				go func() {
					_ = b.Subscribe(t.Context(), "t", group, func(m bus.Message) { come <- m })
				}()
			}
			synctest.Wait()
			if early {
				if m := <-come; m.Event.Extensions["x"] != "1" {
					t.Errorf("the publisher changes the event of a group: %v", m.Event)
				}
				return
			}
			publish(t, b, e)
			one, two := <-come, <-come
			one.Event.Extensions["x"] = "2"
			if e.Extensions["x"] != "1" || two.Event.Extensions["x"] != "1" {
				t.Errorf("the publisher has %v, the other group %v", e, two.Event)
			}
		})
	}
}

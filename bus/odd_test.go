package bus_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
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

// within runs a consumer until stop is called.
func within(env *perduretest.Env, c *bus.Consumer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// An empty message is no event; its letter is never kept, and all bad messages stand behind it.
func TestAnEmptyMessageBecomesALetter(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		letters := bus.Letters{Admin: admin.New(env.Engine())}
		b := &scripted{messages: []bus.Message{bus.Decode(nil), bus.Decode([]byte("bad"))}}
		c := &bus.Consumer{
			Broker: b, Topics: []string{"t"}, Group: "g", Log: slog.New(slog.DiscardHandler),
			Handle:     func(context.Context, event.Event) error { return nil },
			DeadLetter: letters.Keep,
		}
		defer within(env, c)()
		env.Sleep(24 * time.Hour)
		if !b.isDone(0) || !b.isDone(1) {
			t.Errorf("after a day: empty message done %v, the bad one after it %v", b.isDone(0),
				b.isDone(1))
		}
	})
}

// A letter whose error has no text.
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

// An event that is too large for the store is rejected by the gateway, and its letter is never
// kept: its subject stands still for ever.
func TestAnEventThatIsTooLargeForTheStore(t *testing.T) {
	perduretest.Setup{Options: perdure.Options{MaxPayload: 10_000}}.Test(t,
		func(env *perduretest.Env) {
			letters := bus.Letters{Admin: admin.New(env.Engine())}
			large := about("a", 1)
			large.Data = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
			b := &scripted{messages: []bus.Message{{Event: large}, {Event: about("a", 2)}}}
			c := &bus.Consumer{
				Broker: b, Topics: []string{"t"}, Group: "g", Log: slog.New(slog.DiscardHandler),
				Handle: func(_ context.Context, e event.Event) error {
					if e.ID == "1" {
						return bus.Reject(errors.New("too large"))
					}
					return nil
				},
				DeadLetter: letters.Keep,
			}
			defer within(env, c)()
			env.Sleep(24 * time.Hour)
			if !b.isDone(0) || !b.isDone(1) {
				t.Errorf("after a day: large done %v, the next of its subject %v", b.isDone(0),
					b.isDone(1))
			}
		})
}

// A process dies with the lock of a subject. The event comes again at once, and is a dead letter
// before the lock has passed (a minute by default).
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

// A message that was only taken, and never handled, when processes stopped is a dead letter
// at its first failure.
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

// An event that kills each process that handles it is handled for ever: the count of
// deliveries is looked at only after the handler.
//
// spec: A-10
func TestAnEventThatKillsProcessesBecomesALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{messages: []bus.Message{{Event: about("a", 1), Attempt: 1000}}}
		h := handler{}
		stop := runs(t, h.consumer(b))
		time.Sleep(time.Minute)
		stop()
		if len(h.done) > 0 {
			t.Error("at the 1000th delivery, the handler is called once more")
		}
	})
}

// A handler that has done its event when the consumer stops: the message is not acknowledged.
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

// A transaction error of an orchestrator whose reason has a Rejection in its chain.
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

// The same for joined errors.
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

// Groups of the local broker share the maps of an event.
func TestGroupsShareNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		e := about("a", 1)
		e.Extensions = map[string]string{"x": "1"}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := make(chan bus.Message, 1)
		go func() { _ = b.Subscribe(ctx, "t", "g", func(m bus.Message) { first <- m }) }()
		synctest.Wait()
		publish(t, b, e)
		m := <-first
		m.Event.Extensions["x"] = "2"
		if e.Extensions["x"] != "1" {
			t.Error("a consumer changes the event of the publisher")
		}
	})
}

// An event that is delivered again when its run has taken it and ended is sent to the next run
// of the workflow ID.
func TestASignalThatComesTwiceIsSentOnce(t *testing.T) {
	g, fulfil, audit := shop()
	perduretest.Test(t, func(env *perduretest.Env) {
		first := perduretest.Start(env, fulfil, order{ID: "o", Cents: 1}, perdure.ID("o"))
		env.Settle()
		e := with("5", "payment.made", `{"id": "o", "cents": 5}`)
		for range 2 {
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
			env.Settle()
		}
		first.Returns("o 1 5")
		env.Sleep(time.Hour)
		perduretest.Start(env, fulfil, order{ID: "o", Cents: 2}, perdure.ID("o"), perdure.Dedup(0))
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "o")
		if err != nil || d.Head.Status.IsTerminal() {
			t.Errorf("the second run is %v by the payment of the first, %v", d.Head.Status, err)
		}
	}, fulfil, audit)
}

// The same for an event that comes twice before its run.
func TestAnUnroutedSignalThatComesTwiceIsSentOnce(t *testing.T) {
	g, fulfil, audit := shop()
	perduretest.Test(t, func(env *perduretest.Env) {
		e := with("5", "payment.made", `{"id": "o", "cents": 5}`)
		for range 2 {
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
		}
		perduretest.Start(env, fulfil, order{ID: "o", Cents: 1}, perdure.ID("o")).Returns("o 1 5")
		d, err := env.Engine().Describe(env.Context(), "o")
		if err != nil || len(d.Unread) > 0 {
			t.Errorf("unread: %+v, %v", d.Unread, err)
		}
	}, fulfil, audit)
}

// "its runs know it by their IDs ... as long as the runs are kept".
//
// spec: F-11, L-20
func TestAReplayStartsNoSecondRun(t *testing.T) {
	g, fulfil, audit := shop()
	week := bus.Route{Known: 7 * 24 * time.Hour}
	if err := g.Start("order.placed", "audit", week); err != nil {
		t.Fatal(err)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		e := with("1", "order.placed", `{"id": "o", "cents": 99}`)
		for range 2 { // the second one is the replay of a dead letter, after the weekend
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
			env.Sleep(60 * time.Hour)
		}
		all, _, err := env.Engine().List(env.Context(), perdure.Query{Workflow: "audit"})
		if err != nil || len(all) != 1 {
			t.Errorf("%d runs of audit, %v", len(all), err)
		}
	}, fulfil, audit)
}

// register: "in place of one of the same effect, name and field".
//
// spec: F-11
func TestTwoFieldsAreTwoRoutes(t *testing.T) {
	g := bus.NewGateway()
	for _, field := range []string{"buyer", "seller"} {
		if err := g.Signal("sold", "sold", bus.Route{Field: field}); err != nil {
			t.Fatal(err)
		}
	}
	if all := g.Registrations(); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// An event without one of two fields by which it may wake waits.
//
// spec: L-6
func TestAnEventWithoutTheFieldWakesNobody(t *testing.T) {
	g := bus.NewGateway()
	if err := errors.Join(g.Wake("stock", "item"), g.Wake("stock", "shop")); err != nil {
		t.Fatal(err)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		e := with("1", "stock", `{"item": "nut"}`)
		if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
			t.Error(err)
		}
	})
}

// Events that a wait does not want stay in the inbox of the run for ever.
//
// spec: L-6
func TestEventsThatNoWaitTakesAreNotKept(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	big := perdure.Where(func(o order) bool { return o.Cents > 1000 })
	waits := perdure.Define("waits", func(ctx context.Context, item string) (string, error) {
		_, err := bus.Wait[order](ctx, "stock", "item", item, big)
		if err != nil {
			return "", err
		}
		return "", perdure.Sleep(ctx, 1000*time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		for i := range 60 {
			e := with(fmt.Sprint(i), "stock", `{"item": "nut", "cents": 1}`)
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
			env.Settle()
		}
		e := with("big", "stock", `{"item": "nut", "cents": 1001}`)
		if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
			t.Error(err)
		}
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "a")
		if err != nil || len(d.Unread) > 0 {
			t.Errorf("the wait is over, and %d events that nobody can take are kept, %v",
				len(d.Unread), err)
		}
	}, waits)
}

// An event that the condition does not accept, and at once one that it accepts.
//
// spec: L-6
func TestAnEventAfterAnUnwantedOneWakesTheWait(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	big := perdure.Where(func(o order) bool { return o.Cents > 10 })
	waits := perdure.Define("waits", func(ctx context.Context, item string) (int, error) {
		o, err := bus.Wait[order](ctx, "stock", "item", item, big, perdure.Within(24*time.Hour))
		return o.Cents, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		for i, cents := range []int{1, 33} {
			e := with(fmt.Sprint(i), "stock", fmt.Sprintf(`{"item": "nut", "cents": %d}`, cents))
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
		}
		run.Returns(33)
	}, waits)
}

// A run that waits for many values keeps an attribute of each.
//
// spec: L-6
func TestAWaitThatIsOverLeavesNoAttribute(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	waits := perdure.Define("waits", func(ctx context.Context, n int) (string, error) {
		for i := range n {
			if _, err := bus.Wait[order](ctx, "stock", "item", fmt.Sprint(i)); err != nil {
				return "", err
			}
		}
		return "", perdure.Sleep(ctx, 1000*time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, waits, 50, perdure.ID("a"))
		for i := range 50 {
			env.Settle()
			e := with(fmt.Sprint(i), "stock", fmt.Sprintf(`{"item": "%d", "cents": 1}`, i))
			if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
				t.Error(err)
			}
		}
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), "a")
		if err != nil || len(d.State.Attributes) > 1 {
			t.Errorf("%d attributes, %v", len(d.State.Attributes), err)
		}
	}, waits)
}

// A wait is open also while the run stays loaded.
func TestAnEventWakesARunThatIsLoaded(t *testing.T) {
	g := bus.NewGateway()
	if err := g.Wake("stock", "item"); err != nil {
		t.Fatal(err)
	}
	waits := perdure.Define("waits", func(ctx context.Context, item string) (int, error) {
		o, err := bus.Wait[order](ctx, "stock", "item", item)
		return o.Cents, err
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{waits},
		Options:   perdure.Options{IdleTimeout: time.Hour},
	}.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, waits, "nut", perdure.ID("a"))
		env.Settle()
		e := with("1", "stock", `{"item": "nut", "cents": 7}`)
		if err := g.On(env.Context(), env.Engine().Client, e); err != nil {
			t.Error(err)
		}
		run.Returns(7)
	})
}

// An event whose key is no valid attribute of a CloudEvent is published for ever.
//
// spec: F-10
func TestAKeyThatIsNoAttributeHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		w := perdure.Define("w", func(ctx context.Context, i int) (int, error) {
			for _, key := range []string{"a\nb", "c", "d"}[i:] {
				err := pattern.EmitEvent(ctx, perdure.Event{
					Type: "x", Key: key, Data: []byte("1"),
				})
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		engine, err := perdure.New(store.Store(memory.New()), perdure.Options{
			Publisher: bus.Outbound{To: b, Topic: "t"}.Publish,
			Logger:    slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Register(w); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- engine.Run(ctx) }()
		var h handler
		halt := runs(t, h.consumer(b))
		for i := range 2 {
			if _, err := w.Start(ctx, engine, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(24 * time.Hour)
		if _, all := h.ids(); len(all) != 5 {
			t.Errorf("after a day, %d of 5 events are published", len(all))
		}
		halt()
		stop()
		<-ended
	})
}

type tooLarge struct {
	bus.Local
	calls int
}

func (b *tooLarge) Publish(context.Context, string, []event.Event) error {
	b.calls++
	return fmt.Errorf("publish: %w", bus.ErrTooLarge)
}

// The broker never will take the event.
//
// spec: R-30
func TestLifecycleGivesUpWhatTheBrokerNeverTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &tooLarge{}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		_ = bus.Lifecycle(b, "t").Call(ctx, perdure.Ended{
			RunID: "r", Workflow: "w", WorkflowID: "i",
		})
		if ctx.Err() != nil {
			t.Errorf("%d calls in a day", b.calls)
		}
	})
}

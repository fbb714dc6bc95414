package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

var errNo = errors.New("no")

// A handler handles events and keeps what it has done.
type handler struct {
	mu      sync.Mutex
	done    []event.Event
	letters []bus.Letter
	at      map[string]int // events of a subject that are being handled
	most    int            // events that were handled at once
	// two events of one subject were handled at once
	together bool
	handle   func(e event.Event, try int) error
	tries    map[string]int
}

func (d *handler) Handle(_ context.Context, e event.Event) error {
	try := d.begin(e)
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.at[e.Subject]--
	}()
	if d.handle != nil {
		if err := d.handle(e, try); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, e)
	return nil
}

// begin notes that an event is being handled, and returns how often it was.
func (d *handler) begin(e event.Event) (try int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at, d.tries = map[string]int{}, map[string]int{}
	}
	if d.at[e.Subject]++; d.at[e.Subject] > 1 {
		d.together = true
	}
	now := 0
	for _, n := range d.at {
		now += n
	}
	d.most = max(d.most, now)
	d.tries[e.ID]++
	return d.tries[e.ID]
}

func (d *handler) DeadLetter(_ context.Context, l bus.Letter) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letters = append(d.letters, l)
	return nil
}

// ids returns the IDs of events that were done, by subject, and in all.
func (d *handler) ids() (bySubject map[string][]string, all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bySubject = map[string][]string{}
	for _, e := range d.done {
		bySubject[e.Subject] = append(bySubject[e.Subject], e.ID)
		all = append(all, e.ID)
	}
	return bySubject, all
}

func (d *handler) consumer(b bus.Broker) *bus.Consumer {
	return &bus.Consumer{
		Broker: b, Topics: []string{"t"}, Group: "g", Handle: d.Handle, DeadLetter: d.DeadLetter,
		Log: slog.New(slog.DiscardHandler),
	}
}

func about(subject string, id int) event.Event {
	return event.Event{ID: fmt.Sprint(id), Source: "/test", Type: "x", Subject: subject}
}

// runs runs a consumer until stop is called.
func runs(t *testing.T, c *bus.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func publish(t *testing.T, b bus.Broker, events ...event.Event) {
	t.Helper()
	if err := b.Publish(t.Context(), "t", events); err != nil {
		t.Fatal(err)
	}
}

// Whatever the number of lanes and the size of a batch, the events of one subject are handled in
// their order and never two at once; those of different subjects side by side.
//
// spec: R-42
func TestLanesChangeNoOutcome(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 50}, {4, 3}, {16, 256}} {
		synctest.Test(t, func(t *testing.T) {
			const subjects, each = 10, 30
			b, d := &bus.Local{}, &handler{}
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			d.handle = func(_ event.Event, try int) error {
				mu.Lock()
				n := random.IntN(10)
				mu.Unlock()
				time.Sleep(time.Duration(n) * time.Millisecond)
				if n == 0 && try < 3 {
					return errNo
				}
				return nil
			}
			c := d.consumer(b)
			c.Lanes, c.Batch = size[0], size[1]
			stop := runs(t, c)
			for i := range subjects * each {
				publish(t, b, about(fmt.Sprint("s", i%subjects), i))
			}
			synctest.Wait()
			time.Sleep(time.Hour)
			stop()
			got, _ := d.ids()
			for i := range subjects {
				var want []string
				for n := range each {
					want = append(want, fmt.Sprint(n*subjects+i))
				}
				if s := fmt.Sprint("s", i); !slices.Equal(got[s], want) {
					t.Errorf("seed %d, %v: %s gets %q", seed, size, s, got[s])
				}
			}
			if d.together || d.most > size[0] || size[0] > 1 && d.most < 2 {
				t.Errorf("seed %d, %v: %d events at once; two of one subject: %v", seed, size,
					d.most, d.together)
			}
		})
	}
}

// A poison event is dead-lettered after its tries, and holds up only its own subject.
//
// spec
func TestAPoisonEventBecomesADeadLetterAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &bus.Local{}, &handler{}
		d.handle = func(e event.Event, try int) error {
			switch {
			case e.ID == "1":
				return errNo
			case e.ID == "2" && try < 4:
				panic("not yet")
			case e.ID == "3":
				return fmt.Errorf("no: %w", bus.Reject(errNo))
			}
			return nil
		}
		c := d.consumer(b)
		c.Lanes = 1
		stop := runs(t, c)
		publish(t, b, about("a", 1), about("b", 2), about("c", 3), about("a", 4), about("d", 5))
		synctest.Wait()
		if _, all := d.ids(); !slices.Equal(all, []string{"5"}) {
			t.Errorf("at once, %q are done", all)
		}
		time.Sleep(time.Hour)
		if _, all := d.ids(); !slices.Equal(all, []string{"5", "2", "4"}) {
			t.Errorf("in the end, %q are done", all)
		}
		stop()
		if len(d.letters) != 2 || d.letters[0].Event.ID != "3" || d.letters[0].Tries != 1 ||
			d.letters[1].Event.ID != "1" || d.letters[1].Tries != 5 ||
			!errors.Is(d.letters[1].Err, errNo) || d.letters[1].Topic != "t" ||
			d.letters[1].Group != "g" {
			t.Errorf("the letters are %+v", d.letters)
		}
		again := &handler{}
		stop = runs(t, again.consumer(b))
		synctest.Wait()
		stop()
		if again.done != nil {
			t.Errorf("what was done with comes again: %+v", again.done)
		}
	})
}

// While dead letters are refused, their events are kept.
//
// spec: A-10
func TestALetterThatIsRefusedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		d := &handler{handle: func(event.Event, int) error { return bus.Reject(errNo) }}
		c, refusals := d.consumer(b), 0
		c.DeadLetter = func(ctx context.Context, l bus.Letter) error {
			if refusals++; refusals < 8 {
				return errNo
			}
			return d.DeadLetter(ctx, l)
		}
		stop := runs(t, c)
		publish(t, b, about("a", 1))
		time.Sleep(time.Hour)
		stop()
		if len(d.letters) != 1 || d.tries["1"] != 1 {
			t.Errorf("the letters are %+v, after %d tries", d.letters, d.tries["1"])
		}
	})
}

// A consumer that stops in the middle leaves what it has not done to the next one.
func TestAConsumerThatStopsLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, first, second := &bus.Local{}, &handler{}, &handler{}
		first.handle = func(e event.Event, _ int) error {
			time.Sleep(time.Second)
			if e.ID == "7" {
				return errNo
			}
			return nil
		}
		c := first.consumer(b)
		c.Lanes, c.Batch = 2, 5
		stop := runs(t, c)
		for i := range 40 {
			publish(t, b, about(fmt.Sprint(i%10), i))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		stop()
		_, did := first.ids()
		stop = runs(t, second.consumer(b))
		time.Sleep(time.Hour)
		stop()
		_, rest := second.ids()
		if all := slices.Concat(did, rest); len(all) != 40 {
			t.Errorf("%d and %d are done", len(did), len(rest))
		}
	})
}

// A flaky is a broker whose subscriptions fail again and again.
type flaky struct {
	bus.Local
	n int
}

func (f *flaky) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	f.n++
	switch f.n % 3 {
	case 0:
		return errNo
	case 1:
		panic("no broker")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return f.Local.Subscribe(ctx, topic, group, deliver)
}

func TestAConsumerSubscribesAgainWhenTheBrokerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &flaky{}, &handler{}
		stop := runs(t, d.consumer(b))
		for i := range 50 {
			publish(t, b, about("a", i))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		stop()
		if _, all := d.ids(); len(slices.Compact(all)) != 50 || !slices.IsSortedFunc(d.done,
			func(a, b event.Event) int { return len(a.ID) - len(b.ID) }) {
			t.Errorf("%q", all)
		}
	})
}

// A bad is a broker that delivers one message that is no event.
type bad struct{ bus.Local }

func (b *bad) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	m := bus.Decode([]byte("{"))
	m.Done = func(context.Context) error { return nil }
	deliver(m)
	return b.Local.Subscribe(ctx, topic, group, deliver)
}

func TestAMessageThatIsNoEventBecomesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &handler{}
		stop := runs(t, d.consumer(&bad{}))
		synctest.Wait()
		stop()
		if len(d.letters) != 1 || string(d.letters[0].Raw) != "{" || d.letters[0].Tries != 0 ||
			d.letters[0].Err == nil {
			t.Errorf("%+v", d.letters)
		}
	})
}

func TestAConsumerNeedsItsParts(t *testing.T) {
	if err := (&bus.Consumer{}).Run(t.Context()); err == nil {
		t.Error("it runs without a broker")
	}
}

// Package brokertest proves that a broker keeps the contract of [bus.Broker], with up to 100
// messages of a subscriber that are not done with:
//
//	func TestMine(t *testing.T) {
//		brokertest.Run(t, func(t *testing.T) brokertest.World {
//			url := start(t)
//			return brokertest.World{
//				Open: func() bus.Broker { return New(url) },
//			}
//		})
//	}
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// A World is a new place for the topics of a broker.
type World struct {
	// Open returns a broker of that place, each time as another process would have it.
	Open func() bus.Broker
	// Prefix is put before the name of each topic, so that several worlds may be on one server.
	Prefix string
	// Patience limits each wait for what must come. Zero means a minute. It is longer than a broker
	// needs to deliver again what somebody has left.
	Patience time.Duration
	// Redelivers is the time after which the broker delivers again what it has not heard of. The
	// suite waits that long for what must not come. Zero means that the broker knows at once.
	Redelivers time.Duration
	// Positions is set if the broker keeps a position for a group. What comes after the first
	// message that is not done with may then be delivered again, and members who come and go may
	// get what others have got.
	Positions bool
	// BySubject is set if the broker keeps the order of the events of each subject only.
	BySubject bool
	// Raw sends bytes to a topic past the contract, for messages that are no events. Nil means that
	// there is no such way. The topic has its prefix.
	Raw func(ctx context.Context, topic string, raw []byte) error
}

// A Case is a clause of the contract.
type Case struct {
	Name string
	// Check returns an error that says how the broker breaks the clause.
	Check func(ctx context.Context, w World) error
}

// Run checks each clause in a world of its own.
func Run(t *testing.T, begin func(t *testing.T) World) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(t.Context(), begin(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Cases returns the clauses of the contract.
func Cases() []Case {
	return []Case{
		{"events arrive as they were sent", play(arriveWhole)},
		{"events arrive in their order", play(keepOrder)},
		{"topics and groups are apart, whatever their names", play(apart)},
		{"each group gets each event", play(groupsGetAll)},
		{"the members of a group share the events", play(membersShare)},
		{"the next subscriber gets what is not done with", play(nextGetsTheRest)},
		{"another member gets what one has left", play(othersGetTheRest)},
		{"what is done with is not delivered again", play(doneIsDone)},
		{"any goroutine may be done with a message", play(doneAnywhere)},
		{"a message may be done with after the subscription", play(doneLate)},
		{"a delivery that does not return holds the next one back", play(heldBack)},
		{"a subscription ends with its context", play(subscriptionEnds)},
		{"what comes before the first subscription disturbs nothing", play(early)},
		{"events with a defect are refused with all beside them", play(refused)},
		{"a publish whose context has ended fails", play(publishEnds)},
		{"what is no event is delivered as it came", play(noEvent)},
	}
}

// A stage is where a check is played: a broker, and all that subscribe.
type stage struct {
	World
	bus.Broker
	ctx     context.Context
	probes  atomic.Int64
	readers []*reader
}

// play returns a check that ends all subscriptions of the scene.
func play(scene func(*stage) error) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		if w.Patience == 0 {
			w.Patience = time.Minute
		}
		s := &stage{World: w, Broker: w.Open(), ctx: ctx}
		err := scene(s)
		for _, r := range s.readers {
			err = errors.Join(err, r.stop())
		}
		return err
	}
}

// send publishes events one by one.
func (s *stage) send(topic string, events ...event.Event) error {
	for i := range events {
		if err := s.sendBatch(topic, events[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) sendBatch(topic string, events []event.Event) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.Patience)
	defer cancel()
	if err := s.Publish(ctx, s.Prefix+topic, events); err != nil {
		return fmt.Errorf("publish to %q: %w", topic, err)
	}
	return nil
}

// A reader is a subscriber of a group. It is done with probes, and hands the other messages to the
// check, one by one.
type reader struct {
	*stage
	topic, group string
	inbox        chan bus.Message
	ctx          context.Context
	cancel       context.CancelFunc
	joined       chan struct{} // closed at the first probe
	ended        chan struct{} // closed when Subscribe has returned err
	err          error
	busy         atomic.Bool
	calls        atomic.Int64 // of deliver with what is no probe
	overlaps     atomic.Int64
}

// read subscribes. The subscription may begin later.
func (s *stage) read(ctx context.Context, topic, group string) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{
		stage: s, topic: topic, group: group, ctx: ctx, cancel: cancel,
		inbox: make(chan bus.Message), joined: make(chan struct{}), ended: make(chan struct{}),
	}
	s.readers = append(s.readers, r)
	b := s.Open()
	go func() {
		defer close(r.ended)
		r.err = b.Subscribe(ctx, s.Prefix+topic, group, r.take)
	}()
	return r
}

// again subscribes as the next member of a group.
func (s *stage) again(topic string) *reader { return s.read(s.ctx, topic, "g") }

func (r *reader) take(m bus.Message) {
	if !r.busy.CompareAndSwap(false, true) {
		r.overlaps.Add(1)
	}
	defer r.busy.Store(false)
	if m.Bad == nil && m.Event.Type == "probe" {
		select {
		case <-r.joined:
		default:
			close(r.joined)
		}
		_ = m.Done(r.ctx) // it does not matter whether it comes again
		return
	}
	r.calls.Add(1)
	select {
	case r.inbox <- m:
	case <-r.ctx.Done():
	}
}

// join subscribes, and returns when the subscription has begun.
func (s *stage) join(topic, group string) (*reader, error) {
	r := s.read(s.ctx, topic, group)
	return r, r.begin()
}

// begin publishes probes until one has come. It is done with what comes before.
func (r *reader) begin() error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.After(r.Patience); ; {
		n := fmt.Sprint(r.probes.Add(1))
		probe := event.Event{ID: n, Source: "/probe", Type: "probe", Subject: n}
		if err := r.send(r.topic, probe); err != nil {
			return err
		}
		select {
		case <-r.joined:
			return nil
		case m := <-r.inbox:
			if err := r.finish(m); err != nil {
				return err
			}
		case <-r.ended:
			return fmt.Errorf("%s: Subscribe has returned too early: %w", r, r.err)
		case <-patience:
			return fmt.Errorf("%s: no event has come", r)
		case <-tick.C:
		}
	}
}

// String returns the words for messages.
func (r *reader) String() string { return fmt.Sprintf("topic %q, group %q", r.topic, r.group) }

// stop ends the subscription.
func (r *reader) stop() error {
	r.cancel()
	return r.end()
}

// end waits for the end of the subscription. It fails unless Subscribe returns the error of its
// context.
func (r *reader) end() error {
	select {
	case <-r.ended:
	case <-time.After(r.Patience):
		return fmt.Errorf("%s: Subscribe does not return after the end of its context", r)
	}
	switch want := r.ctx.Err(); {
	case r.err == nil:
		return fmt.Errorf("%s: Subscribe has returned no error", r)
	case want == nil:
		return fmt.Errorf("%s: Subscribe has returned too early: %w", r, r.err)
	case !errors.Is(r.err, want):
		return fmt.Errorf("%s: Subscribe has returned %w, and its context has ended with: %s", r,
			r.err, want.Error())
	}
	if n := r.overlaps.Load(); n > 0 {
		return fmt.Errorf("%s: deliver is called %d times before it has returned", r, n)
	}
	return nil
}

// next waits for a message.
func (r *reader) next() (bus.Message, error) {
	select {
	case m := <-r.inbox:
		return m, nil
	case <-r.ended:
		return bus.Message{}, fmt.Errorf("%s: Subscribe has returned too early: %w", r, r.err)
	case <-time.After(r.Patience):
		return bus.Message{}, fmt.Errorf("%s: nothing comes", r)
	}
}

// gets reads until all wanted events have come, and returns their messages in the order in which
// they came. Others may come if they are among the spare ones.
func (r *reader) gets(want []event.Event, spare ...event.Event) (got []bus.Message, err error) {
	open, may := map[string]bool{}, map[string]bool{}
	for _, e := range want {
		open[key(e)] = true
		may[key(e)] = r.Positions
	}
	for _, e := range spare {
		may[key(e)] = true
	}
	for left := len(open); left > 0; {
		m, err := r.next()
		switch k := key(m.Event); {
		case err != nil:
			return got, fmt.Errorf("%w; %d of %d events have come", err, len(got), len(want))
		case m.Bad != nil:
			return got, fmt.Errorf("%s: an event is delivered as bad: %w", r, m.Bad)
		case open[k]:
			open[k] = false
			left--
			got = append(got, m)
		case m.Event.Type == "last": // another reader waits for it
			if err := r.finish(m); err != nil {
				return got, err
			}
		case !may[k]:
			return got, fmt.Errorf("%s: event %q comes, and should not", r, k)
		}
	}
	return got, nil
}

// onlyGets is gets, and then proves that nothing else comes, as far as a later event can.
func (r *reader) onlyGets(want []event.Event, spare ...event.Event) ([]bus.Message, error) {
	got, err := r.gets(want, spare...)
	if err != nil {
		return got, err
	}
	last, err := r.last(r.topic)
	if err != nil {
		return got, err
	}
	if r.Positions {
		spare = slices.Concat(spare, want)
	}
	end, err := r.gets([]event.Event{last}, spare...)
	return got, errors.Join(err, r.finish(end...))
}

// last publishes an event that comes after those that are of interest.
func (s *stage) last(topic string) (event.Event, error) {
	e := event.Event{ID: fmt.Sprint(s.probes.Add(1)), Source: "/last", Type: "last"}
	return e, s.send(topic, e)
}

// quiet proves that nothing comes that the broker only has not heard of.
func (r *reader) quiet() error {
	if r.Redelivers == 0 {
		return nil
	}
	select {
	case m := <-r.inbox:
		return fmt.Errorf("%s: event %q comes, and should not", r, key(m.Event))
	case <-r.ended:
		return fmt.Errorf("%s: Subscribe has returned too early: %w", r, r.err)
	case <-time.After(r.Redelivers):
		return nil
	}
}

// finish is done with messages.
func (s *stage) finish(all ...bus.Message) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.Patience)
	defer cancel()
	for _, m := range all {
		if err := m.Done(ctx); err != nil {
			return fmt.Errorf("done with event %q: %w", key(m.Event), err)
		}
	}
	return nil
}

// key returns what tells an event from others.
func key(e event.Event) string { return e.Source + " " + e.ID }

// numbered returns n events of a few subjects.
func numbered(n int) []event.Event {
	all := make([]event.Event, n)
	for i := range all {
		all[i] = event.Event{
			ID: fmt.Sprint(i), Source: "/numbered", Type: "number", Subject: fmt.Sprint(i * i % 7),
			Data: fmt.Append(nil, i),
		}
	}
	return all
}

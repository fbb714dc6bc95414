package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

var errCrash = errors.New("the process has died")

// A place is where the instances of a counter live: a memory, and what was published.
type place struct {
	memory  orchestrator.Local[orchestrator.Record]
	outside []event.Event
	cleaned int
}

// A process is an orchestrator in a process of its own, which dies at one of its calls.
type process struct {
	*place
	dies  int  // at this call, counted from 1
	after bool // when the call has had its effect
	calls int
	dead  bool
}

// reach runs a call, unless the process has died or dies before it.
func (p *process) reach(call func() error) error {
	p.calls++
	if p.dead || p.calls == p.dies && !p.after {
		p.dead = true
		return errCrash
	}
	err := call()
	if p.calls == p.dies {
		p.dead = true
		return errCrash
	}
	return err
}

func (p *process) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	s *orchestrator.State[orchestrator.Record], err error) {
	err = p.reach(func() (err error) { s, err = p.memory.Read(ctx, subject, m); return err })
	return s, err
}

func (p *process) Write(ctx context.Context, subject string,
	c orchestrator.Change[orchestrator.Record], m *orchestrator.Metadata) error {
	return p.reach(func() error { return p.memory.Write(ctx, subject, c, m) })
}

func (p *process) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *orchestrator.Metadata) (t token, err error) {
	err = p.reach(func() (err error) { t, err = p.memory.Lock(ctx, subject, ttl, m); return err })
	return t, err
}

func (p *process) Unlock(ctx context.Context, subject string, t token,
	m *orchestrator.Metadata) (ok bool, err error) {
	err = p.reach(func() (err error) { ok, err = p.memory.Unlock(ctx, subject, t, m); return err })
	return ok, err
}

func (p *process) Cleanup(context.Context, string, orchestrator.Change[orchestrator.Record],
	*orchestrator.Metadata) error {
	return p.reach(func() error { p.cleaned++; return nil })
}

// begin returns the orchestrator of the process.
func (p *process) begin() *orchestrator.Orchestrator {
	return &orchestrator.Orchestrator{
		Source: "/counter", Memory: p, Log: slog.New(slog.DiscardHandler),
		Versions: []orchestrator.Version{{Initial: []string{"begin"}, Handle: counts}},
		Publish: func(_ context.Context, events []event.Event) error {
			return p.reach(func() error {
				p.outside = append(p.outside, events...)
				return nil
			})
		},
	}
}

// counts is the handler: it counts, emits twice, and does as the type of the event says.
func counts(_ context.Context, t *orchestrator.Turn) error {
	n := 0
	if _, err := t.State(&n); err != nil {
		return err
	}
	switch t.Event.Type {
	case "break":
		return errors.New("no")
	case "panic":
		panic("no")
	case "bad":
		t.Emit(event.Event{})
	case "end":
		t.Finish()
	}
	n++
	for i := range 2 {
		t.Emit(event.Event{Type: fmt.Sprint("counted", i), Data: fmt.Append(nil, n)})
	}
	return t.Become(n)
}

// heard returns the types and data of the events that a consumer hears that knows their IDs.
func (p *place) heard() (all []string) {
	seen := map[string]bool{}
	for _, e := range p.outside {
		if key := e.Source + " " + e.ID; !seen[key] {
			seen[key] = true
			all = append(all, e.Type+" "+string(e.Data))
		}
	}
	return all
}

func happens(id, kind string) event.Event {
	return event.Event{ID: id, Source: "/test", Type: kind, Subject: "a"}
}

// deliver delivers an event until it is acknowledged. A process that dies is replaced.
func deliver(t *testing.T, p *process, e event.Event) (*process, orchestrator.Outcome) {
	t.Helper()
	for range 10 {
		out, err := p.begin().On(t.Context(), e)
		if err == nil {
			return p, out
		}
		if failed := new(orchestrator.TransactionError); !errors.As(err, &failed) {
			t.Fatalf("%s: %v", e.ID, err)
		}
		if p.dead {
			p = &process{place: p.place}
		}
		time.Sleep(2 * time.Minute) // the lock of the dead one passes
	}
	t.Fatalf("%s is never handled", e.ID)
	return p, ""
}

// spec
func TestACrashAtAnyCallNeitherLosesNorDoublesAnEvent(t *testing.T) {
	const most = 100
	want := []string{
		"counted0 1", "counted1 1", "counted0 2", "counted1 2", "counted0 3", "counted1 3",
	}
	for _, after := range []bool{false, true} {
		n := 1
		for ; n < most; n++ {
			over := false
			synctest.Test(t, func(t *testing.T) {
				p := &process{place: &place{}, dies: n, after: after}
				first := p
				for _, e := range []event.Event{
					happens("1", "begin"), happens("2", "add"), happens("1", "begin"),
					happens("3", "end"),
					happens("3", "end"),
				} {
					p, _ = deliver(t, p, e)
				}
				if got := p.heard(); !slices.Equal(got, want) {
					t.Errorf("death at call %d, after it: %v: a consumer hears %q", n, after, got)
				}
				s, err := p.memory.Read(t.Context(), "a", nil)
				if err != nil || string(s.Value.State) != "3" || s.Value.Unclean ||
					p.cleaned == 0 || len(s.Value.Outbox) > 0 ||
					s.Value.Ended != orchestrator.InstanceFinished {
					t.Errorf("death at call %d, after it: %v: %+v, cleaned up %d times, %v", n,
						after, s, p.cleaned, err)
				}
				over = !first.dead
			})
			if over || t.Failed() {
				break
			}
		}
		if n < 15 || n == most {
			t.Errorf("a process makes %d calls", n)
		}
	}
}

// spec
func TestTheOutcomesOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		for i, c := range []struct {
			id, kind string
			want     orchestrator.Outcome
		}{
			{"0", "add", orchestrator.EventIgnored}, // only an initial type creates an instance
			{"1", "begin", orchestrator.EventHandled}, {"1", "begin", orchestrator.EventDuplicate},
			{"2", "begin", orchestrator.EventHandled}, {"3", "break", orchestrator.EventFailed},
			{"3", "break", orchestrator.EventDuplicate}, {"4", "add", orchestrator.EventIgnored},
			{"1", "begin", orchestrator.EventDuplicate},
		} {
			if _, out := deliver(t, p, happens(c.id, c.kind)); out != c.want {
				t.Errorf("event %d, %s, is %s, want %s", i, c.kind, out, c.want)
			}
		}
		if p.cleaned != 0 {
			t.Error("it is cleaned up after an error")
		}
	})
}

// spec: A-10
func TestAnErrorOfTheHandlerGoesToTheInitiator(t *testing.T) {
	for kind, want := range map[string]string{
		"break": "no", "panic": "panic",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &process{place: &place{}}
			first := happens("1", "begin")
			first.Extensions = map[string]string{event.ExtInitiator: "/shop"}
			deliver(t, p, first)
			e := happens("2", kind)
			e.Source, e.Extensions = "/other", map[string]string{event.ExtTrace: "00-1-2-01"}
			if _, out := deliver(t, p, e); out != orchestrator.EventFailed {
				t.Errorf("%s: %s", kind, out)
			}
			last := p.outside[len(p.outside)-1]
			var data map[string]string
			if err := json.Unmarshal(last.Data, &data); err != nil ||
				last.Type != orchestrator.SystemError || !strings.Contains(data["error"], want) ||
				last.Extensions[event.ExtTo] != "/shop" ||
				last.Extensions[event.ExtCause] != "2" ||
				last.Extensions[event.ExtTrace] != "00-1-2-01" {
				t.Errorf("%s: %+v, %v", kind, last, err)
			}
			if len(p.outside) != 3 {
				t.Errorf("%s: %d events", kind, len(p.outside))
			}
		})
	}
}

// spec: A-8
func TestTheMemoryCleansUpAfterTheFinalStateAndBeforeTheLastEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		deliver(t, p, happens("1", "begin"))
		o := p.begin()
		publish := o.Publish
		o.Publish = func(ctx context.Context, events []event.Event) error {
			s, err := p.memory.Read(ctx, "a", nil)
			if err != nil || p.cleaned != 1 || s.Value.Ended != orchestrator.InstanceFinished {
				t.Errorf("cleaned up %d times, %+v, %v", p.cleaned, s, err)
			}
			return publish(ctx, events)
		}
		if out, err := o.On(t.Context(), happens("2", "end")); out != orchestrator.EventHandled ||
			err != nil || p.cleaned != 1 {
			t.Errorf("%s, %v, cleaned up %d times", out, err, p.cleaned)
		}
	})
}

// spec
func TestAnEventThatIsNotHandledSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		if _, err := p.memory.Lock(t.Context(), "a", time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		_, err := p.begin().On(t.Context(), happens("1", "begin"))
		failed := new(orchestrator.TransactionError)
		if !errors.As(err, &failed) || !errors.Is(err, orchestrator.ErrLocked) ||
			failed.Op != "lock" || failed.Subject != "a" {
			t.Error(err)
		}
		none := happens("1", "begin")
		none.Subject = ""
		foreign := happens("2", "begin")
		foreign.Subject, foreign.Extensions = "b", map[string]string{event.ExtParent: "x"}
		own := happens("1", "begin")
		own.Subject = "b"
		deliver(t, p, own)
		before, err := p.memory.Read(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		p.outside = nil
		for _, c := range []struct {
			e    event.Event
			want string
		}{
			{none, "event 1: subject is missing"},
			{event.Event{}, "id is missing\nsource is missing\ntype is missing\nsubject is"},
			{foreign, `event 2: parentsubject is "x", and the instance has ""`},
		} {
			_, err := p.begin().On(t.Context(), c.e)
			if v := new(orchestrator.Violation); !errors.As(err, &v) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		if after, err := p.memory.Read(t.Context(), "b", nil); err != nil ||
			after.Version != before.Version {
			t.Errorf("the state is %+v, %v", after, err)
		}
		if p.outside != nil {
			t.Error(p.outside)
		}
	})
}

// spec: A-11
func TestAnEventIsRememberedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		for _, c := range []struct {
			after time.Duration
			id    string
			want  orchestrator.Outcome
		}{
			{0, "1", orchestrator.EventHandled}, {23 * time.Hour, "2", orchestrator.EventHandled},
			{0, "1", orchestrator.EventDuplicate}, {2 * time.Hour, "3", orchestrator.EventHandled},
			{0, "1", orchestrator.EventHandled}, {0, "2", orchestrator.EventDuplicate},
		} {
			time.Sleep(c.after)
			if _, out := deliver(t, p, happens(c.id, "begin")); out != c.want {
				t.Errorf("event %s is %s, want %s", c.id, out, c.want)
			}
		}
		other := happens("2", "begin")
		other.Source = "/another"
		if _, out := deliver(t, p, other); out != orchestrator.EventHandled {
			t.Errorf("an event of another source is %s", out)
		}
		ids := map[string]bool{}
		for _, e := range p.outside {
			ids[e.ID] = true
		}
		if len(ids) != 8 || len(p.outside) != 10 { // what follows from event 1 came twice
			t.Errorf("%d events have %d IDs", len(p.outside), len(ids))
		}
	})
}

// The event that was cut off is delivered again after all others: the next one empties the outbox.
//
// spec: A-9
func TestTheNextEventEmptiesTheOutbox(t *testing.T) {
	const most = 100
	for _, after := range []bool{false, true} {
		n := 1
		for over := false; n < most && !over; n++ {
			synctest.Test(t, func(t *testing.T) {
				p := &process{place: &place{}, dies: n, after: after}
				first := p
				left := []event.Event{
					happens("1", "begin"), happens("2", "begin"), happens("3", "begin"),
					happens("4", "begin"),
				}
				for len(left) > 0 {
					e := left[0]
					left = left[1:]
					if _, err := p.begin().On(t.Context(), e); err != nil {
						left = append(left, e)
						p = &process{place: p.place}
						time.Sleep(2 * time.Minute)
					}
				}
				var want []string
				for i := range 4 {
					want = append(want, fmt.Sprint("counted0 ", i+1), fmt.Sprint("counted1 ", i+1))
				}
				if got := p.heard(); !slices.Equal(got, want) {
					t.Errorf("death at call %d, after it: %v: a consumer hears %q", n, after, got)
				}
				over = !first.dead || t.Failed()
			})
		}
		if n < 15 || n == most {
			t.Errorf("a process makes %d calls", n)
		}
	}
}

// spec
func TestABrokenInstanceStillEmptiesItsOutbox(t *testing.T) {
	const publish = 4 // after lock, read and write
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}, dies: publish}
		if _, err := p.begin().On(t.Context(), happens("1", "begin")); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		deliver(t, &process{place: p.place}, happens("2", "break"))
		want := []string{
			"counted0 1", "counted1 1", orchestrator.SystemError + ` {"error":"no"}`,
		}
		if got := p.heard(); !slices.Equal(got, want) {
			t.Errorf("a consumer hears %q", got)
		}
	})
}

// spec: A-7
func TestTheLockIsFreedAlsoIfTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		ctx, cancel := context.WithCancel(t.Context())
		o := p.begin()
		o.Versions[0].Handle = func(context.Context, *orchestrator.Turn) error {
			cancel()
			return nil
		}
		if _, err := o.On(ctx, happens("1", "begin")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got, err := p.memory.Lock(t.Context(), "a", time.Minute, nil); got == 0 || err != nil {
			t.Errorf("token %d, %v", got, err)
		}
	})
}

// A watched is a memory that keeps the metadata of each call.
type watched struct {
	orchestrator.Memory[orchestrator.Record]
	all []string
}

func (w *watched) note(call string, m *orchestrator.Metadata) {
	w.all = append(w.all, fmt.Sprint(call, " ", m.Subject, " ", m.Parent, " ", m.Initiator, " ",
		m.Source))
}

func (w *watched) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	*orchestrator.State[orchestrator.Record], error) {
	w.note("read", m)
	return w.Memory.Read(ctx, subject, m)
}

func (w *watched) Write(ctx context.Context, subject string,
	c orchestrator.Change[orchestrator.Record], m *orchestrator.Metadata) error {
	w.note("write", m)
	return w.Memory.Write(ctx, subject, c, m)
}

// spec
func TestAMemoryIsToldOfTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		w := &watched{Memory: &p.memory}
		o := p.begin()
		o.Memory = w
		child, root := happens("1", "begin"), happens("1", "begin")
		child.Extensions = map[string]string{event.ExtParent: "parent"}
		child.Subject = "b"
		later := happens("2", "add")
		later.Subject, later.Source = "b", "/other"
		for _, e := range []event.Event{child, later, root} {
			if _, err := o.On(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		want := []string{
			"read b pending pending /counter", "write b parent /test /counter",
			"write b parent /test /counter", "read b pending pending /counter",
			"write b parent /test /counter", "write b parent /test /counter",
			"read a pending pending /counter", "write a none /test /counter",
			"write a none /test /counter",
		}
		if !slices.Equal(w.all, want) {
			t.Errorf("%q", w.all)
		}
	})
}

// spec: A-10
func TestAPanicOfTheMemoryOrThePublisherIsATransactionError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		panics, lacks, panicking := p.begin(), p.begin(), p.begin()
		panics.Publish = func(context.Context, []event.Event) error { panic("publish") }
		lacks.Publish = nil
		panicking.Memory = &watched{} // it has no memory behind it
		for _, o := range []*orchestrator.Orchestrator{lacks, panicking, panics} {
			_, err := o.On(t.Context(), happens("1", "begin"))
			if failed := new(orchestrator.TransactionError); !errors.As(err, &failed) ||
				failed.Op != "handle" {
				t.Error(err)
			}
		}
		if _, out := deliver(t, p, happens("1", "begin")); out != orchestrator.EventDuplicate {
			t.Errorf("the event is %s: it was stored before the panic", out)
		}
		if got := p.heard(); len(got) != 2 {
			t.Errorf("a consumer hears %q", got)
		}
	})
}

package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/orchestrator"
)

// A post is a place where published events are kept, of an orchestrator over a memory in process.
type post struct {
	events []event.Event
	counts orchestrator.Counter
}

func (p *post) publish(_ context.Context, events []event.Event) error {
	p.events = append(p.events, events...)
	return nil
}

// take returns the types of the events since the last call.
func (p *post) take() (all []string) {
	for _, e := range p.events {
		all = append(all, e.Type)
	}
	p.events = nil
	return all
}

func (p *post) orchestrator(source string, vs ...orchestrator.Version) *orchestrator.Orchestrator {
	return &orchestrator.Orchestrator{
		Source: source, Versions: vs, Memory: &orchestrator.Local[orchestrator.Record]{},
		Publish: p.publish, Observe: p.counts.Count, Log: slog.New(slog.DiscardHandler),
	}
}

var cents = schema.Of(`{"type": "object", "required": ["cents", "to"],
	"properties": {"cents": {"type": "integer", "minimum": 1}}}`)

type schemas = map[string]orchestrator.Schema

// pays returns a version of payments, which emits its name, and wrong data on demand.
func pays(uri string) orchestrator.Version {
	return orchestrator.Version{
		URI: uri, Initial: []string{"pay"},
		Accepts: schemas{"pay": cents, "more": cents, "any": nil},
		Emits:   schemas{uri + ".paid": cents},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			t.Emit(event.Event{Type: uri + ".paid", Data: []byte(`{"cents": 1, "to": "a"}`)})
			if t.Event.Type == "any" {
				t.Emit(event.Event{Type: uri + ".paid", Data: []byte(`{"cents": 0, "to": "a"}`)})
				t.Emit(event.Event{Type: "other"})
			}
			return t.Become(t.Event.ID)
		},
	}
}

func paying(id, kind, version, data string) event.Event {
	e := happens(id, kind)
	e.Schema, e.Data = version, []byte(data)
	return e
}

// spec
func TestAContractIsKeptBothWays(t *testing.T) {
	p := &post{}
	o := p.orchestrator("/pay", pays("v:1"), pays("v:2"))
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	const good = `{"cents": 5, "to": "x"}`
	binary := paying("6", "more", "", good)
	binary.ContentType = "text/plain"
	for i, c := range []struct {
		e    event.Event
		want []string // parts of the violation; none for an event that is handled
	}{
		{paying("1", "pay", "v:3", good), []string{`version "v:3" is not known`, `"v:1", "v:2"`}},
		{paying("1", "pay", "v:1", `{"cents": 0}`), []string{"event 1", "/cents: minimum", "'to'"}},
		{paying("1", "pay", "v:1", good), nil},
		{paying("2", "pay", "v:2", good), nil}, // it stays on its version
		{paying("3", "more", "", `{"cents": -1}`), []string{"data of more", "/cents", "'to'"}},
		{paying("4", "strange", "", good), []string{`"strange" is not valid`, "any, more, pay"}},
		{paying("5", "any", "", "null"), []string{"event 2 of the handler", "/cents: minimum",
			"event 3 of the handler", `"other" is not valid: the contract emits v:1.paid`}},
		{binary, []string{"text/plain", "wants JSON"}},
		{paying("7", "pay", "", good), nil},
	} {
		before, err := o.Memory.Read(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := o.On(t.Context(), c.e)
		after, failed := o.Memory.Read(t.Context(), "a", nil)
		if failed != nil {
			t.Fatal(failed)
		}
		if c.want == nil {
			if got := p.take(); out != orchestrator.EventHandled || err != nil ||
				!slices.Equal(got, []string{"v:1.paid"}) {
				t.Errorf("event %d: %s, %v, %q", i, out, err, got)
			}
			continue
		}
		for _, w := range c.want {
			if v := (*orchestrator.Violation)(nil); !errors.As(err, &v) ||
				!strings.Contains(err.Error(), w) {
				t.Errorf("event %d: %v, want %s", i, err, w)
			}
		}
		if got := p.take(); got != nil || (before == nil) != (after == nil) ||
			before != nil && before.Version != after.Version {
			t.Errorf("event %d leaves %+v and %q", i, after, got)
		}
	}
	if got := p.counts.Counts(); got[orchestrator.CountViolations] != 6 || got["handled"] != 3 {
		t.Errorf("counted: %v", got)
	}
}

// spec: A-13
func TestAnEventWithoutAVersionGetsTheNewest(t *testing.T) {
	p := &post{}
	o := p.orchestrator("/pay", pays("v:1"), pays("v:2"))
	_, err := o.On(t.Context(), paying("1", "pay", "", `{"cents": 5, "to": "x"}`))
	if got := p.take(); err != nil || !slices.Equal(got, []string{"v:2.paid"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// spec: A-11
func TestATypeThatIsInitialInAnotherVersionCreatesNothing(t *testing.T) {
	p := &post{}
	first := pays("v:1")
	first.Initial = []string{"more"}
	o := p.orchestrator("/pay", first, pays("v:2"))
	out, err := o.On(t.Context(), paying("1", "more", "v:2", `{"cents": 5, "to": "x"}`))
	if s, _ := o.Memory.Read(t.Context(), "a", nil); out != orchestrator.EventIgnored ||
		err != nil || s != nil {
		t.Errorf("%s, %v, %+v", out, err, s)
	}
}

func TestTheDefectsOfVersionsAreNamed(t *testing.T) {
	none := orchestrator.Version{URI: "v:1", Initial: []string{"x"}, Accepts: schemas{}}
	o := &orchestrator.Orchestrator{Versions: []orchestrator.Version{none, none}}
	err := o.Check()
	for _, want := range []string{
		"the source is missing", `version "v:1" has no handler`, `initial type "x"`,
		`two versions have the URI "v:1"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (&orchestrator.Orchestrator{Source: "x"}).Check(); err == nil {
		t.Error("no version is no defect")
	}
}

// A parent begins a child, and goes on by its answer.
//
// spec: A-12
func TestAChildAnswersItsParent(t *testing.T) {
	p := &post{}
	parent := p.orchestrator("/parent", orchestrator.Version{Initial: []string{"begin"},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			switch t.Event.Type {
			case "begin":
				t.Begin(event.Event{Type: "child.begin", Subject: "child"})
			case "child.done":
				t.Answer(event.Event{Type: "done"})
				t.Finish()
			}
			return t.Become(t.Event.Type)
		}})
	child := p.orchestrator("/child", orchestrator.Version{Initial: []string{"child.begin"},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			if t.Event.Type == "break" {
				return errors.New("no")
			}
			t.Answer(event.Event{Type: "child.done"})
			return t.Become(1)
		}})
	if _, err := parent.On(t.Context(), happens("1", "begin")); err != nil {
		t.Fatal(err)
	}
	begin := p.events[0]
	if begin.Subject != "child" || begin.Extensions[event.ExtParent] != "a" ||
		begin.Extensions[event.ExtInitiator] != "/parent" {
		t.Fatalf("the child begins with %+v", begin)
	}
	p.take()
	if _, err := child.On(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	done := p.events[0]
	if done.Subject != "a" || done.Extensions[event.ExtTo] != "/parent" {
		t.Fatalf("the child answers %+v", done)
	}
	p.take()
	if out, err := parent.On(t.Context(), done); out != orchestrator.EventHandled || err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if e := p.events[0]; e.Subject != "a" || e.Extensions[event.ExtTo] != "/test" {
		t.Errorf("the parent answers %+v", e)
	}
	p.take()
	broken := happens("2", "break")
	broken.Subject = "child"
	if _, err := child.On(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if e := p.events[0]; e.Type != orchestrator.SystemError || e.Subject != "a" ||
		e.Extensions[event.ExtTo] != "/parent" {
		t.Errorf("the parent hears of the error as %+v", e)
	}
	family, _ := child.Memory.(orchestrator.Family)
	if all, err := family.Children(t.Context(), "a"); err != nil ||
		!slices.Equal(all, []string{"child"}) {
		t.Errorf("the children are %q, %v", all, err)
	}
}

// spec: A-10
func TestAnInterruptedHandlerBreaksNothing(t *testing.T) {
	p := &post{}
	ctx, cancel := context.WithCancel(t.Context())
	o := p.orchestrator("/x", orchestrator.Version{Initial: []string{"begin"},
		Handle: func(ctx context.Context, _ *orchestrator.Turn) error {
			cancel()
			return ctx.Err()
		}})
	_, err := o.On(ctx, happens("1", "begin"))
	if failed := (*orchestrator.TransactionError)(nil); !errors.As(err, &failed) ||
		failed.Op != "handle" || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s, err := o.Memory.Read(t.Context(), "a", nil); s != nil || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// spec: A-17, P-15
func TestAroundIsCalledAroundEachEvent(t *testing.T) {
	p := &post{}
	o := p.orchestrator("/pay", pays("v:1"))
	o.Around = func(ctx context.Context, e event.Event, handle func(context.Context,
		event.Event) (orchestrator.Outcome, error)) (orchestrator.Outcome, error) {
		e.Extensions = map[string]string{event.ExtTrace: "of " + e.ID}
		return handle(ctx, e)
	}
	if _, err := o.On(t.Context(), paying("1", "pay", "", `{"cents": 5, "to": "x"}`)); err != nil {
		t.Fatal(err)
	}
	if got := p.events[0].Extensions[event.ExtTrace]; got != "of 1" {
		t.Errorf("the trace of what follows is %q", got)
	}
}

// spec: A-10
func TestAHandlerThatAsksForTheEventAgainBreaksNothing(t *testing.T) {
	p, n := &post{}, 0
	v := orchestrator.Version{Initial: []string{"begin"},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			t.Emit(event.Event{Type: "x"})
			if n++; n < 3 {
				return fmt.Errorf("the bank: %w", orchestrator.Again(errCrash))
			}
			return t.Become(n)
		}}
	o := p.orchestrator("/x", v)
	s := orchestrator.Stateless{
		Source: "/x", Versions: []orchestrator.Version{v}, Publish: p.publish,
	}
	for _, on := range []func(context.Context, event.Event) (orchestrator.Outcome, error){
		o.On, s.On,
	} {
		n = 0
		for i := range 3 {
			out, err := on(t.Context(), happens("1", "begin"))
			failed := (*orchestrator.TransactionError)(nil)
			if got := p.take(); i < 2 && (!errors.As(err, &failed) || failed.Op != "handle" ||
				!errors.Is(err, errCrash) || got != nil) || i == 2 && (err != nil ||
				out != orchestrator.EventHandled || len(got) != 1) {
				t.Errorf("call %d: %s, %v, %q", i, out, err, got)
			}
		}
	}
}

// spec: A-17
func TestTheStateOfATraceStaysWithIt(t *testing.T) {
	own, got := "", ""
	s := orchestrator.Stateless{
		Source: "/pay",
		Versions: []orchestrator.Version{{
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				x := map[string]string{}
				if own != "" {
					x[event.ExtTrace] = own
				}
				t.Emit(event.Event{Type: "b", Extensions: x})
				return nil
			},
		}},
		Publish: func(_ context.Context, events []event.Event) error {
			x := events[0].Extensions
			got = x[event.ExtTrace] + " " + x[event.ExtState]
			return nil
		},
	}
	e := event.Event{ID: "1", Source: "/s", Type: "a", Subject: "x", Extensions: map[string]string{
		event.ExtTrace: "00-1-2-01", event.ExtState: "a=1",
	}}
	for what, want := range map[string]string{"": "00-1-2-01 a=1", "00-3-4-01": "00-3-4-01 "} {
		own = what
		if _, err := s.On(t.Context(), e); err != nil || got != want {
			t.Errorf("with %q, what follows has %q, want %q (%v)", own, got, want, err)
		}
	}
}

package trace_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/trace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// spans returns a provider, and what it has recorded.
func spans(t *testing.T) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
	t.Cleanup(func() { tp.Shutdown(context.WithoutCancel(t.Context())) })
	return tp, r
}

// An outlet keeps what is published.
type outlet []event.Event

func (o *outlet) publish(_ context.Context, events []event.Event) error {
	*o = append(*o, events...)
	return nil
}

// attributes returns the attributes of a span.
func attributes(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		all[a.Key] = a.Value.AsString()
	}
	return all
}

func traced(id, traceparent, tracestate string) event.Event {
	e := event.Event{
		ID: id, Source: "/shop", Type: "order.placed", Subject: "order-7",
		Extensions: map[string]string{"x": "1"},
	}
	for name, value := range map[string]string{
		event.ExtTrace: traceparent, event.ExtState: tracestate,
	} {
		if value != "" {
			e.Extensions[name] = value
		}
	}
	return e
}

// pay returns an orchestrator with a memory: it emits for order.placed, and ends otherwise.
func pay(tp oteltrace.TracerProvider, out *outlet) *orchestrator.Orchestrator {
	return &orchestrator.Orchestrator{
		Source: "/orders", Memory: &orchestrator.Local[orchestrator.Record]{},
		Publish: out.publish, Around: trace.Around(tp),
		Versions: []orchestrator.Version{{
			Initial: []string{"order.placed"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				if t.Event.Type == "order.placed" {
					t.Emit(event.Event{Type: "payment.wanted"})
				} else {
					t.Finish()
				}
				return nil
			},
		}},
	}
}

// spec: A-17
func TestWhatFollowsFromAnEventIsOneTrace(t *testing.T) {
	tp, r := spans(t)
	var first, second outlet
	orders := pay(tp, &first)
	bank := orchestrator.Stateless{
		Source: "/bank", Publish: second.publish, Around: trace.Around(tp),
		Versions: []orchestrator.Version{{
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				t.Emit(event.Event{Type: "payment.made"})
				return nil
			},
		}},
	}
	if _, err := orders.On(t.Context(), traced("1", parent, "vendor=a")); err != nil {
		t.Fatal(err)
	}
	if _, err := bank.On(t.Context(), first[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := orders.On(t.Context(), second[0]); err != nil {
		t.Fatal(err)
	}
	all := r.Ended()
	if len(all) != 3 {
		t.Fatalf("%d spans", len(all))
	}
	before := spanID
	for i, name := range []string{
		"/shop order.placed", "/orders payment.wanted", "/bank payment.made",
	} {
		s := all[i]
		if s.Name() != name || s.SpanKind() != oteltrace.SpanKindConsumer ||
			s.SpanContext().TraceID().String() != traceID ||
			s.Parent().SpanID().String() != before || !s.Parent().IsRemote() ||
			s.SpanContext().TraceState().String() != "vendor=a" {
			t.Errorf("span %d is %q of %v in %v", i+1, s.Name(), s.Parent(), s.SpanContext())
		}
		before = s.SpanContext().SpanID().String()
	}
	for i, e := range []event.Event{first[0], second[0]} {
		want := "00-" + traceID + "-" + all[i].SpanContext().SpanID().String() + "-01"
		if e.Extensions[event.ExtTrace] != want || e.Extensions[event.ExtState] != "vendor=a" {
			t.Errorf("event %d has %v, want %s", i+1, e.Extensions, want)
		}
	}
	got := attributes(all[0])
	for name, want := range map[attribute.Key]string{
		"cloudevents.event_id": "1", "cloudevents.event_source": "/shop",
		"cloudevents.event_type": "order.placed", "cloudevents.event_subject": "order-7",
		trace.Outcome: "handled",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// spec: A-17
func TestABadTraceParentBeginsANewTrace(t *testing.T) {
	for _, bad := range []string{
		"", "x", strings.ToUpper(parent), parent + "-1", "ff" + parent[2:],
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01",
	} {
		tp, r := spans(t)
		var out outlet
		if _, err := pay(tp, &out).On(t.Context(), traced("1", bad, "vendor=a")); err != nil {
			t.Fatal(err)
		}
		s := r.Ended()[0]
		own := s.SpanContext().TraceID()
		if s.Parent().IsValid() || !own.IsValid() || own.String() == traceID {
			t.Errorf("%q: span %v of %v", bad, s.SpanContext(), s.Parent())
		}
		got := out[0].Extensions
		if !strings.Contains(got[event.ExtTrace], own.String()) || got[event.ExtState] != "" {
			t.Errorf("%q: what is emitted has %v", bad, got)
		}
	}
}

// spec: A-17
func TestTheSpanOfTheContextIsTheParentOrLinked(t *testing.T) {
	for traceparent, linked := range map[string]bool{"": false, parent: true} {
		tp, r := spans(t)
		ctx, outer := tp.Tracer("test").Start(t.Context(), "POST /events")
		var out outlet
		if _, err := pay(tp, &out).On(ctx, traced("1", traceparent, "")); err != nil {
			t.Fatal(err)
		}
		s, id := r.Ended()[0], outer.SpanContext().SpanID()
		links := s.Links()
		if got := len(links) == 1 && links[0].SpanContext.SpanID() == id; got != linked {
			t.Errorf("%q: links %v", traceparent, links)
		}
		if got := s.Parent().SpanID() == id; got == linked {
			t.Errorf("%q: parent %v", traceparent, s.Parent())
		}
	}
}

// spec: A-17
func TestASpanHasTheOutcome(t *testing.T) {
	broken := errors.New("it is broken")
	for _, c := range []struct {
		name    string
		prepare []event.Event
		e       event.Event
		fails   error // of the handler
		publish error
		out     orchestrator.Outcome
		status  codes.Code
		says    string // the recorded error
	}{
		{name: "handled", e: traced("1", "", ""), out: orchestrator.EventHandled},
		{
			name: "duplicate", prepare: []event.Event{traced("1", "", "")},
			e: traced("1", parent, ""), out: orchestrator.EventDuplicate,
		},
		{
			name: "ignored", e: event.Event{ID: "1", Source: "/s", Type: "t", Subject: "other"},
			out: orchestrator.EventIgnored,
		},
		{
			name: "failed", e: traced("1", "", ""), fails: broken,
			out: orchestrator.EventFailed, status: codes.Error,
		},
		{
			name: "violation", e: event.Event{ID: "1", Source: "/s", Type: "t"},
			status: codes.Error, says: "subject is missing",
		},
		{
			name: "error", e: traced("1", "", ""), publish: broken, status: codes.Error,
			says: "publish of order-7: it is broken",
		},
	} {
		tp, r := spans(t)
		var out outlet
		o := pay(tp, &out)
		handle := o.Versions[0].Handle
		o.Versions[0].Handle = func(ctx context.Context, t *orchestrator.Turn) error {
			return errors.Join(handle(ctx, t), c.fails)
		}
		o.Publish = func(context.Context, []event.Event) error { return c.publish }
		for _, e := range c.prepare {
			if _, err := o.On(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		got, err := o.On(t.Context(), c.e)
		if c.says == "" && got != c.out || (err != nil) != (c.says != "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		s := r.Ended()[len(c.prepare)]
		a, has := attributes(s)[trace.Outcome]
		if s.Status().Code != c.status || a != string(c.out) || has != (c.out != "") {
			t.Errorf("%s: status %v, outcome %q", c.name, s.Status(), a)
		}
		recorded := ""
		for _, e := range s.Events() {
			for _, a := range e.Attributes {
				recorded += a.Value.AsString() + " "
			}
		}
		if (recorded != "") != (c.says != "") || !strings.Contains(recorded, c.says) ||
			c.says != "" && !strings.Contains(s.Status().Description, c.says) {
			t.Errorf("%s: recorded is %q, status %q", c.name, recorded, s.Status().Description)
		}
	}
}

// spec: A-17
func TestASpanEndsWithAPanicAndWithAnErrorThatPanics(t *testing.T) {
	tp, r := spans(t)
	around := trace.Around(tp)
	func() {
		defer func() { _ = recover() }()
		around(t.Context(), traced("1", "", ""), func(context.Context, event.Event) (
			orchestrator.Outcome, error) {
			panic("a bug")
		})
	}()
	_, err := around(t.Context(), traced("2", "", ""), func(context.Context, event.Event) (
		orchestrator.Outcome, error) {
		return "", (*brittle)(nil)
	})
	if all := r.Ended(); err == nil || len(all) != 2 || all[1].Status().Code != codes.Error {
		t.Errorf("%d spans, error %T", len(all), err)
	}
}

// A brittle is an error whose method panics.
type brittle struct{ text string }

func (b *brittle) Error() string { return b.text }

// spec: A-17
func TestNilIsTheGlobalProvider(t *testing.T) {
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	around := trace.Around(nil)
	tp, r := spans(t)
	otel.SetTracerProvider(tp)
	e := traced("1", "", "")
	_, err := around(t.Context(), e, func(_ context.Context, e event.Event) (
		orchestrator.Outcome, error) {
		return orchestrator.EventHandled, nil
	})
	if len(r.Ended()) != 1 || err != nil || len(e.Extensions) != 1 {
		t.Errorf("%d spans, %v, the event of the caller has %v", len(r.Ended()), err, e.Extensions)
	}
}

// spec: A-17
func TestWithoutTracingTheEventStaysAsItIs(t *testing.T) {
	for _, traceparent := range []string{"", parent, "x"} {
		var out outlet
		e := traced("1", traceparent, "a=1")
		if _, err := pay(noop.NewTracerProvider(), &out).On(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		got := out[0].Extensions
		if got[event.ExtTrace] != traceparent || got[event.ExtState] != "a=1" {
			t.Errorf("%q became %v", traceparent, got)
		}
	}
}

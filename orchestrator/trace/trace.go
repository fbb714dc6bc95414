// Package trace makes spans of OpenTelemetry for the events that orchestrators handle:
//
//	orders.Around = trace.Around(nil)
//
// Who emits is the parent of who handles, by the extension traceparent of the event. So what
// follows from an event is one trace, over all orchestrators that are traced, and whatever carries
// the events.
package trace

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/orchestrator"
)

// Outcome is the attribute of a span that has the [orchestrator.Outcome]. A span of an error has
// none.
const Outcome = "perdure.outcome"

// Around returns a function for the Around of an orchestrator, which makes a span of each event
// that is handled. A span is of the kind consumer, has the name of the event's source and type, and
// the attributes of OpenTelemetry's conventions for CloudEvents. An error and a violation are
// recorded, and the status is then an error; so it is for [orchestrator.EventFailed], where the
// error of the handler is in what it emits.
//
// The parent is the span of the event's traceparent; that of the context is then linked. If
// traceparent is missing or not valid, the parent is the span of the context; without one, a new
// trace begins. The event is passed on with traceparent and tracestate of the new span, so that
// what the handler emits has them.
//
// Nil means the global provider, at the time of each event.
func Around(tp oteltrace.TracerProvider) func(ctx context.Context, e event.Event,
	handle func(context.Context, event.Event) (orchestrator.Outcome, error)) (
	orchestrator.Outcome, error) {
	return func(ctx context.Context, e event.Event,
		handle func(context.Context, event.Event) (orchestrator.Outcome, error)) (
		orchestrator.Outcome, error) {
		ctx, span := begin(ctx, tp, &e)
		defer span.End()
		out, err := handle(ctx, passed(ctx, e))
		end(span, out, err)
		return out, err
	}
}

// begin starts the span of an event.
func begin(ctx context.Context, tp oteltrace.TracerProvider, e *event.Event) (context.Context,
	oteltrace.Span) {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	options := []oteltrace.SpanStartOption{
		oteltrace.WithSpanKind(oteltrace.SpanKindConsumer),
		oteltrace.WithAttributes(
			attribute.String("cloudevents.event_id", e.ID),
			attribute.String("cloudevents.event_source", e.Source),
			attribute.String("cloudevents.event_type", e.Type),
			attribute.String("cloudevents.event_subject", e.Subject),
		),
	}
	outer := oteltrace.LinkFromContext(ctx)
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(e.Extensions))
	if c := oteltrace.SpanContextFromContext(ctx); outer.SpanContext.IsValid() &&
		!outer.SpanContext.Equal(c) {
		options = append(options, oteltrace.WithLinks(outer))
	}
	return tp.Tracer("github.com/perdure/perdure/orchestrator/trace").
		Start(ctx, e.Source+" "+e.Type, options...)
}

// passed returns an event with the span of a context. It is as before if there is none.
func passed(ctx context.Context, e event.Event) event.Event {
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		return e
	}
	all := propagation.MapCarrier{}
	maps.Copy(all, e.Extensions)
	delete(all, event.ExtState)
	propagation.TraceContext{}.Inject(ctx, all)
	e.Extensions = all
	return e
}

// end states how an event went.
func end(span oteltrace.Span, out orchestrator.Outcome, err error) {
	switch {
	case err != nil:
		_ = guard.Call(func() error { span.RecordError(err); return nil })
		span.SetStatus(codes.Error, guard.Text(err))
		return
	case out == orchestrator.EventFailed:
		span.SetStatus(codes.Error, "the handler has returned an error")
	}
	span.SetAttributes(attribute.String(Outcome, string(out)))
}

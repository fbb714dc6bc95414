package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"
)

// IDs makes the IDs of spans. The spans of a run have IDs that follow from the run, so that every
// process that has a part in the run writes into the same trace. All other IDs are random. The SDK
// takes it as the IDGenerator of a provider:
//
//	sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs{}))
//
// Without it, the spans of a run are in one trace, too, but their parents have IDs that no span
// has, and a trace that begins with a run is always sampled.
type IDs struct{}

type idsKey struct{}

// withIDs returns a context whose next span has those IDs, if the provider has IDs.
func withIDs(ctx context.Context, of trace.SpanContext) context.Context {
	return context.WithValue(ctx, idsKey{}, of)
}

// NewIDs returns the IDs of a span that begins a trace.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if of, ok := ctx.Value(idsKey{}).(trace.SpanContext); ok {
		return of.TraceID(), of.SpanID()
	}
	var t trace.TraceID
	var s trace.SpanID
	rand.Read(t[:]) // it never fails
	rand.Read(s[:])
	return t, s
}

// NewSpanID returns the ID of a span in a trace.
func (i IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := i.NewIDs(ctx)
	return s
}

// idsOf returns the IDs that follow from a run, or from a step of it.
func idsOf(run, step string) (t trace.TraceID, s trace.SpanID) {
	sum := sha256.Sum256([]byte(run + "\x00" + step))
	copy(t[:], sum[:])
	copy(s[:], sum[len(t):])
	return t, s
}

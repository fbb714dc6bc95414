package observe

import "context"

// A Trace connects runs with the traces of who starts them and sends them signals. A trace context
// is the text of a header traceparent, as W3C Trace Context has it; empty for none. Package
// telemetry makes a Trace for OpenTelemetry. The zero value connects nothing. The functions are
// called often, so they must return at once, and must not panic.
type Trace struct {
	// Caller returns the trace context of a call. A run that the call starts gets it as its
	// header traceparent, unless it has one. A signal that the call sends is sent in it.
	Caller func(ctx context.Context) string
	// Run returns the trace context of a run, by its ID and the trace context that it was started
	// in. Its children are started in it, unless they have a traceparent of their own.
	Run func(run, startedIn string) string
}

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
	// Step returns the context of the body of a step: a child of ctx that knows the span of the
	// step, by the ID of the run, the trace context that the run was started in, and the path of
	// the step. The interceptor gets that context, too.
	Step func(ctx context.Context, run, startedIn, step string) context.Context
}

package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
)

// The attributes of spans. Signal is that of a span orchestration.signal.
const (
	AttrName        = "orchestration.name" // of the workflow
	AttrPattern     = "orchestration.pattern"
	AttrStep        = "orchestration.step"          // the path of the step
	AttrCorrelation = "orchestration.correlationId" // the workflow ID
	AttrRun         = "orchestration.runId"
	AttrStatus      = "orchestration.status" // that the run has ended with
	AttrAttempts    = "orchestration.attempts"
	AttrSignal      = "orchestration.signal"
)

// Trace adds traces to the options of an engine: it sets Trace, and adds an observer.
//
// A run has a span orchestration.execution, which is made when the run has ended. The span of a
// step is orchestration.step, made when the step has ended, from its first attempt to its last.
// The IDs follow from the run, so a run that another process goes on with stays in its trace: the
// provider must have [IDs] for that. The context of a step has its span, whose children may be made
// at once.
//
// A run is in the trace of the header traceparent of its start, or of the span of the caller's
// context; else it begins a trace. A child is in the trace of its parent. When a run takes a
// signal, that is a span orchestration.signal, with a link to the span of the sender.
//
// A provider of nil is the global one at the time of the call.
func Trace(o *perdure.Options, p trace.TracerProvider) {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	t := &tracing{tracer: p.Tracer(Scope), runs: map[string]*tracedRun{}}
	ids := remote(idsOf("", ""))
	try := t.start("try", ids, trace.SpanContext{}, nil) // and it never ends
	t.takesIDs = try.SpanContext().SpanID() == ids.SpanID()
	o.Trace = observe.Trace{Caller: caller, Run: t.header, Step: t.step}
	o.Observers = append(o.Observers[:len(o.Observers):len(o.Observers)], observe.Observer{
		See: t.see, Direct: true, Kinds: []observe.Kind{
			observe.RunEnded, observe.RunContinued, observe.SignalDelivered, observe.StepRetrying,
			observe.StepSucceeded, observe.StepFailed, observe.ParticipantSucceeded,
			observe.ParticipantFailed,
		},
	})
}

// A tracing makes the spans of an engine.
type tracing struct {
	tracer   trace.Tracer
	takesIDs bool // the provider has IDs

	mu   sync.Mutex
	runs map[string]*tracedRun // by run ID; as many as mostRuns
}

// mostRuns bounds how many runs a tracing remembers. It can do without.
const mostRuns = 10_000

// A tracedRun has the spans of a run.
type tracedRun struct {
	id      string
	in, own trace.SpanContext    // the span that it was started in, if it is valid; its own
	began   map[string]time.Time // first attempts of steps that are retried
}

// step returns the context of the body of a step.
func (t *tracing) step(ctx context.Context, run, startedIn, path string) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, t.run(run, startedIn).step(path))
}

// header returns the trace context that children of a run are started in.
func (t *tracing) header(run, startedIn string) string {
	return headerOf(t.run(run, startedIn).own)
}

// run returns what is known of a run.
func (t *tracing) run(id, startedIn string) *tracedRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[id]
	if r == nil {
		r = t.newRun(id, spanOf(startedIn))
		if len(t.runs) >= mostRuns {
			clear(t.runs)
		}
		t.runs[id] = r
	}
	return r
}

func (t *tracing) newRun(id string, in trace.SpanContext) *tracedRun {
	traceID, spanID := idsOf(id, "")
	r := &tracedRun{id: id, in: in}
	switch {
	case in.IsValid():
		r.own = remote(in.TraceID(), spanID).WithTraceFlags(in.TraceFlags())
	case !t.takesIDs:
		r.own = remote(traceID, spanID).WithTraceFlags(trace.FlagsSampled)
	default:
		// the sampler decides by the ID of the trace, so it decides the same when the run ends
		r.own = remote(traceID, spanID)
		r.own = r.own.WithTraceFlags(t.execution(r).SpanContext().TraceFlags())
	}
	return r
}

// step returns the span of a step.
func (r *tracedRun) step(path string) trace.SpanContext {
	_, spanID := idsOf(r.id, path)
	return remote(r.own.TraceID(), spanID).WithTraceFlags(r.own.TraceFlags())
}

func remote(t trace.TraceID, s trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, Remote: true})
}

// execution begins the span of a run.
func (t *tracing) execution(r *tracedRun, o ...trace.SpanStartOption) trace.Span {
	parent := r.in
	if !parent.IsValid() && !t.takesIDs {
		parent = r.own // so that the span is in the trace of its steps
	}
	return t.start("orchestration.execution", r.own, parent, o)
}

// start begins a span. An own that is not valid gets random IDs.
func (t *tracing) start(name string, own, parent trace.SpanContext,
	o []trace.SpanStartOption) trace.Span {
	ctx := context.Background()
	if own.IsValid() {
		ctx = withIDs(ctx, own)
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, span := t.tracer.Start(ctx, name, o...)
	return span
}

// see makes the spans of what has ended.
func (t *tracing) see(n observe.Notice) {
	if n.Own() {
		return
	}
	r, ends := t.run(n.Run, n.Trace), n.Kind == observe.RunEnded || n.Kind == observe.RunContinued
	if ends {
		t.mu.Lock()
		delete(t.runs, n.Run)
		t.mu.Unlock()
	}
	switch {
	case !r.own.IsSampled():
	case ends:
		end(t.execution(r, since(n.At.Add(-n.Took)), about(&n,
			attribute.String(AttrStatus, n.Status))), &n)
	case n.Kind == observe.SignalDelivered:
		t.signal(r, &n)
	case n.Kind == observe.StepRetrying:
		t.began(r, &n)
	default:
		end(t.start("orchestration.step", r.step(n.Step), r.own, []trace.SpanStartOption{
			since(t.began(r, &n)), about(&n, attribute.String(AttrStep, n.Step),
				attribute.Int(AttrAttempts, max(n.Attempt, 1))),
		}), &n)
	}
}

// began returns when the first attempt of a step began, by a notice about an attempt that is over,
// and by those before it. It remembers that if another attempt follows.
func (t *tracing) began(r *tracedRun, n *observe.Notice) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := r.began[n.Step]
	if !ok {
		at = n.At.Add(-n.Took)
	}
	switch {
	case n.Kind != observe.StepRetrying:
		delete(r.began, n.Step)
	case r.began == nil:
		r.began = map[string]time.Time{n.Step: at}
	default:
		r.began[n.Step] = at
	}
	return at
}

// signal makes the span of a signal that a run has taken.
func (t *tracing) signal(r *tracedRun, n *observe.Notice) {
	o := []trace.SpanStartOption{since(n.At), about(n, attribute.String(AttrSignal, n.Signal))}
	if from := spanOf(n.SentIn); from.IsValid() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	t.start("orchestration.signal", trace.SpanContext{}, r.own, o).
		End(trace.WithTimestamp(n.At))
}

func since(t time.Time) trace.SpanStartOption { return trace.WithTimestamp(t) }

// about returns the attributes that all spans have, and more.
func about(n *observe.Notice, more ...attribute.KeyValue) trace.SpanStartOption {
	return trace.WithAttributes(append(more,
		attribute.String(AttrName, n.Workflow), attribute.String(AttrPattern, n.Pattern),
		attribute.String(AttrCorrelation, n.WorkflowID), attribute.String(AttrRun, n.Run))...)
}

// end ends a span as the notice says.
func end(span trace.Span, n *observe.Notice) {
	if !n.Succeeded() {
		span.SetStatus(codes.Error, n.Err)
	}
	span.End(trace.WithTimestamp(n.At))
}

// caller returns the trace context of a call.
func caller(ctx context.Context) string {
	return headerOf(trace.SpanContextFromContext(ctx))
}

const header = "traceparent"

// headerOf returns a span as the text of the header; empty if it is none.
func headerOf(span trace.SpanContext) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), c)
	return c[header]
}

// spanOf returns the span of a header, which is not valid if the header is not.
func spanOf(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{header: text}))
}

package telemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/telemetry"
)

// recording returns a provider, and what it has recorded.
func recording(o ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider,
	*tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(append(o, sdktrace.WithSpanProcessor(r))...), r
}

// withIDs is the option that every provider here has, but for one.
func withIDs() sdktrace.TracerProviderOption { return sdktrace.WithIDGenerator(telemetry.IDs{}) }

// traced returns an engine that writes spans.
func traced(s store.Store, p trace.TracerProvider) (*perdure.Engine, error) {
	o := perdure.Options{Build: "test"}
	telemetry.Trace(&o, p)
	return perdure.New(s, o)
}

// A tree has the spans of traces, by their IDs.
type tree map[trace.SpanID]sdktrace.ReadOnlySpan

func treeOf(spans []sdktrace.ReadOnlySpan) tree {
	out := tree{}
	for _, s := range spans {
		out[s.SpanContext().SpanID()] = s
	}
	return out
}

// path returns the names of a span and of those above it, the outermost first. A span that is not
// in the tree is "?".
func (all tree) path(s sdktrace.ReadOnlySpan) string {
	name := strings.TrimPrefix(s.Name(), "orchestration.")
	for _, key := range []string{telemetry.AttrName, telemetry.AttrStep, telemetry.AttrSignal} {
		name = strings.TrimSuffix(name+" "+value(s, key), " ")
	}
	if !s.Parent().IsValid() {
		return name
	}
	if up, ok := all[s.Parent().SpanID()]; ok {
		return all.path(up) + " > " + name
	}
	return "? > " + name
}

// paths returns the paths of all spans, in order.
func (all tree) paths() (out []string) {
	for _, s := range all {
		out = append(out, all.path(s))
	}
	slices.Sort(out)
	return out
}

// value returns an attribute of a span as text; empty if it has none of that name.
func value(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// traceIDs returns the distinct IDs of traces.
func traceIDs(spans []sdktrace.ReadOnlySpan) (out []trace.TraceID) {
	for _, s := range spans {
		if id := s.SpanContext().TraceID(); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// find returns the span of a path.
func (all tree) find(t *testing.T, path string) sdktrace.ReadOnlySpan {
	t.Helper()
	for _, s := range all {
		if all.path(s) == path {
			return s
		}
	}
	t.Fatalf("no span %q in %q", path, all.paths())
	return nil
}

// spec: P-8, P-15
func TestASpanSaysWhatHasHappenedAndWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := recording(withIDs())
		eng, err := traced(memory.New(), p)
		s := newShop()
		stop := serve(t, eng, err, s.all()...)
		defer stop()
		began := time.Now()
		run, err := s.order.Start(t.Context(), eng, 2, perdure.ID("order-7"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.trip.Start(t.Context(), eng, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		all := treeOf(r.Ended())
		want := []string{
			"execution order", "execution order > step order ship[4711]",
			"execution order > step order ship[4712]", "execution trip",
			"execution trip > step trip charge", "execution trip > step trip reserve",
			"execution trip > step trip undo:reserve",
		}
		if got := all.paths(); !slices.Equal(got, want) {
			t.Fatalf("spans %q, want %q", got, want)
		}
		for path, at := range map[string][2]time.Duration{
			"execution order":                         {0, 64 * time.Minute},
			"execution order > step order ship[4711]": {0, 2 * time.Minute},
			"execution order > step order ship[4712]": {2 * time.Minute, 4 * time.Minute},
		} {
			s := all.find(t, path)
			from, to := s.StartTime().Sub(began), s.EndTime().Sub(began)
			if from != at[0] || to != at[1] {
				t.Errorf("%s from %v to %v, want %v", path, from, to, at)
			}
		}
		span := all.find(t, "execution order > step order ship[4711]")
		for key, want := range map[string]string{
			telemetry.AttrName: "order", telemetry.AttrPattern: "WORKFLOW",
			telemetry.AttrStep: "ship[4711]", telemetry.AttrCorrelation: "order-7",
			telemetry.AttrRun: run.RunID(), telemetry.AttrAttempts: "3",
		} {
			if got := value(span, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		for path, want := range map[string]string{
			"execution trip": "Error step charge failed: no", "execution order": "Unset ",
			"execution trip > step trip charge":  "Error no",
			"execution trip > step trip reserve": "Unset ",
		} {
			s := all.find(t, path).Status()
			if got := fmt.Sprint(s.Code, " ", s.Description); got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
		if got := value(all.find(t, "execution trip"), telemetry.AttrStatus); got != "FAILED" {
			t.Errorf("the status of the trip is %q", got)
		}
	})
}

// spec: P-8
func TestATraceGoesOnOverACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	hangs := make(chan struct{}, 1)
	var crashes atomic.Bool
	crashes.Store(true)
	wf := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		if _, err := perdure.Step(ctx, "pay", func(context.Context) (int, error) {
			return 1, nil
		}); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "ship", func(ctx context.Context) (int, error) {
			if crashes.Load() {
				hangs <- struct{}{}
				<-ctx.Done()
				return 0, ctx.Err()
			}
			_, span := otel.Tracer("shop").Start(ctx, "post")
			span.End()
			return 1, nil
		})
	})
	first, before := recording(withIDs())
	second, after := recording(withIDs())
	was := otel.GetTracerProvider()
	otel.SetTracerProvider(second)
	t.Cleanup(func() { otel.SetTracerProvider(was) })
	id := ""
	for _, p := range []trace.TracerProvider{first, nil} {
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		o := perdure.Options{Build: "test", Drain: -1}
		telemetry.Trace(&o, p)
		eng, err := perdure.New(db, o)
		stop := serve(t, eng, err, wf)
		if id == "" {
			run, err := wf.Start(t.Context(), eng, 1)
			if err != nil {
				t.Fatal(err)
			}
			id = run.ID()
			<-hangs
		} else if run, err := wf.Get(t.Context(), eng, id); err != nil {
			t.Fatal(err)
		} else if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		crashes.Store(false)
	}
	spans := slices.Concat(before.Ended(), after.Ended())
	if n := len(before.Ended()); n != 1 {
		t.Errorf("the first engine has made %d spans", n)
	}
	want := []string{
		"execution order", "execution order > step order pay", "execution order > step order ship",
		"execution order > step order ship > post",
	}
	if got := treeOf(spans).paths(); !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
	if ids := traceIDs(spans); len(ids) != 1 || len(spans) != len(want) {
		t.Errorf("%d spans in the traces %v", len(spans), ids)
	}
}

// family are a workflow with a child that has a child, each with one step.
func family() []perdure.Definition {
	step := func(ctx context.Context) (int, error) {
		return perdure.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	}
	grand := perdure.Define("grandchild", func(ctx context.Context, _ int) (int, error) {
		return step(ctx)
	})
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		if _, err := step(ctx); err != nil {
			return 0, err
		}
		return grand.Child(ctx, 0).Await(ctx)
	})
	top := perdure.Define("top", func(ctx context.Context, _ int) (int, error) {
		return child.Child(ctx, 0).Await(ctx)
	})
	return []perdure.Definition{top, child, grand}
}

// started starts a run by name in a context, and waits for its end and for that of the engine.
func started(t *testing.T, ctx context.Context, p trace.TracerProvider, headers perdure.Headers,
	name string, all ...perdure.Definition) {
	t.Helper()
	eng, err := traced(memory.New(), p)
	stop := serve(t, eng, err, all...)
	var opts []perdure.StartOption
	if headers != nil {
		opts = append(opts, headers)
	}
	run, err := eng.Start(ctx, name, []byte("0"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
}

const callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

var incoming = perdure.Headers{"traceparent": "00-" + callersTrace + "-00f067aa0ba902b7-01"}

// spec: P-8
func TestChildrenAndCallersAreInOneTrace(t *testing.T) {
	tree := []string{
		"execution top", "execution top > execution child",
		"execution top > execution child > execution grandchild",
		"execution top > execution child > execution grandchild > step grandchild s",
		"execution top > execution child > step child s",
	}
	for name, c := range map[string]struct {
		headers perdure.Headers
		calls   bool
		above   string
		inTrace string
	}{
		"none":             {nil, false, "", ""},
		"header":           {incoming, false, "? > ", callersTrace},
		"caller":           {nil, true, "call > ", ""},
		"header and call":  {incoming, true, "? > ", callersTrace},
		"header not valid": {perdure.Headers{"traceparent": "x"}, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := recording(withIDs())
			ctx, call := t.Context(), trace.SpanFromContext(t.Context())
			if c.calls {
				ctx, call = p.Tracer("shop").Start(ctx, "call")
			}
			started(t, ctx, p, c.headers, "top", family()...)
			call.End()
			var got []string
			in := map[trace.TraceID]bool{}
			all := treeOf(r.Ended())
			for _, s := range all {
				if s.Name() != "call" {
					got = append(got, strings.TrimPrefix(all.path(s), c.above))
					in[s.SpanContext().TraceID()] = true
				}
			}
			if slices.Sort(got); !slices.Equal(got, tree) || len(in) != 1 {
				t.Errorf("spans %q in %v, want %q", got, in, tree)
			}
			top := all.find(t, c.above+"execution top").SpanContext()
			if id := top.TraceID().String(); id != cmp.Or(c.inTrace, id) {
				t.Errorf("the trace is %s, want %s", id, c.inTrace)
			}
		})
	}
}

// spec: P-8
func TestARunThatAStepStartsIsInTheTraceOfTheStep(t *testing.T) {
	p, r := recording(withIDs())
	other := perdure.Define("other", func(context.Context, int) (int, error) { return 1, nil })
	var eng *perdure.Engine
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "start", func(ctx context.Context) (int, error) {
			run, err := other.Start(ctx, eng, 1)
			if err != nil {
				return 0, err
			}
			return run.Result(ctx)
		})
	})
	eng, err := traced(memory.New(), p)
	stop := serve(t, eng, err, wf, other)
	run, err := wf.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	want := []string{
		"execution w", "execution w > step w start", "execution w > step w start > execution other",
	}
	if got := treeOf(r.Ended()).paths(); !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

// spec: P-8
func TestASignalIsLinkedToItsSender(t *testing.T) {
	p, r := recording(withIDs())
	eng, err := traced(memory.New(), p)
	nod := perdure.NewSignal[int]("nod")
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if _, err := nod.Wait(ctx); err != nil {
			return 0, err
		}
		return nod.Wait(ctx)
	})
	stop := serve(t, eng, err, wf)
	run, err := wf.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, call := p.Tracer("shop").Start(t.Context(), "call")
	call.End()
	for _, c := range []context.Context{ctx, t.Context()} {
		if _, err := nod.Send(c, eng, run.ID(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	var links []string
	all := treeOf(r.Ended())
	for _, s := range r.Ended() {
		if all.path(s) != "execution w > signal w nod" {
			continue
		}
		to := "nobody"
		for _, l := range s.Links() {
			to = all[l.SpanContext.SpanID()].Name()
		}
		links = append(links, to)
	}
	if !slices.Equal(links, []string{"call", "nobody"}) {
		t.Errorf("the signals are linked to %q, in %q", links, all.paths())
	}
}

// spec: P-8
func TestASamplerDecidesForAWholeTrace(t *testing.T) {
	for ratio, want := range map[float64]int{0: 0, 1: 5} {
		p, r := recording(withIDs(), sdktrace.WithSampler(
			sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
		started(t, t.Context(), p, nil, "top", family()...)
		if n := len(r.Ended()); n != want {
			t.Errorf("of %v of the traces: %d spans, want %d", ratio, n, want)
		}
	}
}

// spec: P-8
func TestAProviderWithoutTheIDsHasTheSpansOfARunInOneTrace(t *testing.T) {
	p, r := recording()
	started(t, t.Context(), p, nil, "top", family()...)
	if ids := traceIDs(r.Ended()); len(ids) != 1 || len(r.Ended()) != 5 {
		t.Errorf("%d spans in %d traces", len(r.Ended()), len(ids))
	}
}

// spec: P-8
func TestTheInterceptorOfTheOptionsIsCalledWithTheSpan(t *testing.T) {
	p, _ := recording(withIDs())
	var got trace.SpanContext
	o := perdure.Options{Interceptor: func(ctx context.Context, _ perdure.StepInfo,
		body func(context.Context) error) error {
		got = trace.SpanContextFromContext(ctx)
		return body(ctx)
	}}
	telemetry.Trace(&o, p)
	eng, err := perdure.New(memory.New(), o)
	all := family()
	stop := serve(t, eng, err, all...)
	run, err := eng.Start(t.Context(), "grandchild", []byte("0"))
	if err == nil {
		_, err = run.Result(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if !got.IsValid() || !got.IsSampled() {
		t.Errorf("the span is %v", got)
	}
}

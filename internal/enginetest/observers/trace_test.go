package observers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/observe"
)

type callerKey struct{}

// in returns a context whose call is in that trace.
func in(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, callerKey{}, trace)
}

// traced returns options that know the trace of in, and give runs a trace of their own.
func traced() perdure.Options {
	return perdure.Options{Trace: observe.Trace{
		Caller: func(ctx context.Context) string {
			trace, _ := ctx.Value(callerKey{}).(string)
			return trace
		},
		Run: func(_, startedIn string) string { return cmp.Or(startedIn, "none") + "/run" },
	}}
}

// A traces has the traces of notices and steps, by the workflow.
type traces struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (s *traces) add(parts ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[fmt.Sprint(parts...)] = true
}

// spec: P-8
func TestATraceGoesFromTheCallerToTheRunItsStepsAndItsChildren(t *testing.T) {
	got := traces{seen: map[string]bool{}}
	o := traced()
	o.Trace.Step = func(ctx context.Context, _, startedIn, step string) context.Context {
		return in(ctx, step+" in "+startedIn)
	}
	o.Interceptor = func(ctx context.Context, s perdure.StepInfo,
		body func(context.Context) error) error {
		got.add("of ", s.Run.Workflow, ": ", ctx.Value(callerKey{}))
		return body(ctx)
	}
	o.Observers = []observe.Observer{{
		Kinds: []observe.Kind{observe.RunStarted, observe.StepSucceeded, observe.RunEnded},
		See:   func(n observe.Notice) { got.add(n.Kind, " of ", n.Workflow, " is in ", n.Trace) },
	}}
	step := func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	}
	kid := perdure.Define("kid", step)
	own := perdure.Define("own", step)
	wf := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		if _, err := kid.Child(ctx, 0).Await(ctx); err != nil {
			return 0, err
		}
		_, err := own.Child(ctx, 0, perdure.Headers{"traceparent": "other"}).Await(ctx)
		return 0, err
	})
	w := world.With(t, o, wf, kid, own)
	defer w.End()
	ctx := in(t.Context(), "caller")
	run, err := wf.Start(ctx, w.Engine, 0)
	if err == nil {
		_, err = run.Result(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"of kid: s in caller/run", "of own: s in other",
		"run ended of kid is in caller/run", "run ended of own is in other",
		"run ended of parent is in caller",
		"run started of kid is in caller/run", "run started of own is in other",
		"run started of parent is in caller",
		"step succeeded of kid is in caller/run", "step succeeded of own is in other",
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	if all := slices.Sorted(maps.Keys(got.seen)); !slices.Equal(all, want) {
		t.Errorf("seen:\n%q\nwant\n%q", all, want)
	}
}

// spec: P-8
func TestAStartThatHasATraceKeepsIt(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		info, err := perdure.InfoOf(ctx)
		return info.Headers["traceparent"], err
	})
	w := world.With(t, traced(), wf)
	defer w.End()
	own := perdure.Headers{"traceparent": "own"}
	for _, c := range []struct {
		ctx  context.Context
		opts []perdure.StartOption
		want string
	}{
		{in(t.Context(), "caller"), nil, "caller"},
		{in(t.Context(), "caller"), []perdure.StartOption{own}, "own"},
		{t.Context(), nil, ""},
	} {
		runs, errs := wf.StartAll(c.ctx, w.Engine, []int{1, 2},
			func(int) []perdure.StartOption { return c.opts })
		for i, run := range runs {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if got, err := run.Result(t.Context()); got != c.want || err != nil {
				t.Errorf("run %d is in %q, %v, want %q", i, got, err, c.want)
			}
		}
	}
	if own["traceparent"] != "own" || len(own) != 1 {
		t.Errorf("the caller's headers are %v now", own)
	}
}

// spec: P-8
func TestTheNoticeOfASignalHasTheTraceOfItsSender(t *testing.T) {
	seen := make(chan string, 10)
	o := traced()
	o.Observers = []observe.Observer{{
		Kinds: []observe.Kind{observe.SignalDelivered},
		See:   func(n observe.Notice) { seen <- n.Signal + " in " + n.SentIn },
	}}
	nod := perdure.NewSignal[int]("nod")
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := nod.Wait(ctx)
		if err == nil {
			_, err = nod.Wait(ctx)
		}
		return 0, err
	})
	w := world.With(t, o, wf)
	defer w.End()
	if _, err := perdure.SendWithStart(in(t.Context(), "first"), w.Engine, nod, 1, wf, 0,
		perdure.ID("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := nod.Send(in(t.Context(), "second"), w.Engine, "a", 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nod in first", "nod in second"} {
		if got := <-seen; got != want {
			t.Errorf("seen %q, want %q", got, want)
		}
	}
}

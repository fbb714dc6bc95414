package telemetry_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/telemetry"
)

// nobody takes spans and does nothing with them.
type nobody struct{}

func (nobody) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nobody) Shutdown(context.Context) error                             { return nil }

// instrumented adds what a program with telemetry has: metrics, and spans in batches of that share
// of the traces.
func instrumented(b *testing.B, o *perdure.Options, share float64) {
	seen, err := telemetry.Metrics(metric.NewMeterProvider(
		metric.WithReader(metric.NewManualReader())))
	if err != nil {
		b.Fatal(err)
	}
	o.Observers = append(o.Observers, seen)
	telemetry.Trace(o, sdktrace.NewTracerProvider(sdktrace.WithBatcher(nobody{}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))),
		sdktrace.WithIDGenerator(telemetry.IDs{})))
}

// BenchmarkSteps measures steps that do nothing, ten in a run, many runs at a time: without
// telemetry, and with spans of a tenth of the traces, and of all.
func BenchmarkSteps(b *testing.B) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for i := range 10 {
			if _, err := perdure.Step(ctx, "s", func(context.Context) (int, error) {
				return i, nil
			}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	open := map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return memory.New(), nil },
		"sqlite": func() (store.Store, error) {
			return sqlite.Open(filepath.Join(b.TempDir(), "runs.db"))
		},
	}
	for _, name := range []string{"memory", "sqlite"} {
		for _, with := range []string{"nothing", "a_tenth", "all"} {
			b.Run(name+"/"+with, func(b *testing.B) {
				db, err := open[name]()
				if err != nil {
					b.Fatal(err)
				}
				o := perdure.Options{Logger: slog.New(slog.DiscardHandler)}
				if share, ok := map[string]float64{"a_tenth": 0.1, "all": 1}[with]; ok {
					instrumented(b, &o, share)
				}
				steps(b, db, o, wf)
			})
		}
	}
}

func steps(b *testing.B, db store.Store, o perdure.Options, wf *perdure.Workflow[int, int]) {
	eng, err := perdure.New(db, o)
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	b.ResetTimer()
	runs, errs := wf.StartAll(ctx, eng, make([]int, (b.N+9)/10), nil)
	for i, run := range runs {
		if errs[i] != nil {
			b.Fatal(errs[i])
		}
		if _, err := run.Result(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(10*len(runs))/b.Elapsed().Seconds(), "steps/s")
	b.StopTimer()
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

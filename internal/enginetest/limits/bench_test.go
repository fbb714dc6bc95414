package limits

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// eachStore calls a benchmark with a new store of each kind.
func eachStore(b *testing.B, f func(b *testing.B, s store.Store)) {
	b.Run("sqlite", func(b *testing.B) {
		s, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		f(b, s)
	})
	b.Run("postgres", func(b *testing.B) {
		s, err := postgres.Open(b.Context(), testpg.URL(b))
		if err != nil {
			b.Fatal(err)
		}
		f(b, s)
	})
}

// executing runs an engine with a workflow as long as f goes on.
func executing(b *testing.B, s store.Store, def perdure.Definition,
	f func(ctx context.Context, eng *perdure.Engine)) {
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "bench"})
	if err == nil {
		err = eng.Register(def)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() { stop(); <-done }()
	f(ctx, eng)
}

// inFlight calls start b.N times, so many calls at a time.
func inFlight(b *testing.B, calls int, start func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := start(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkALimitThatIsNotReached executes the runs of the workload "sequential" of perdure bench,
// 256 and 2,048 at a time, without a limit and with one that holds nothing back.
func BenchmarkALimitThatIsNotReached(b *testing.B) {
	for name, opts := range map[string][]perdure.WorkflowOption{
		"without": nil, "with": {limit.Control{Concurrency: 1_000_000}},
	} {
		for _, calls := range []int{256, 2048} {
			b.Run(fmt.Sprint(name, "/", calls), func(b *testing.B) {
				eachStore(b, func(b *testing.B, s store.Store) { sequential(b, s, calls, opts) })
			})
		}
	}
}

// sequential executes runs of five steps whose inputs, results and outputs have 100 bytes.
func sequential(b *testing.B, s store.Store, calls int, opts []perdure.WorkflowOption) {
	payload := strings.Repeat("x", 98)
	def := perdure.Define("w", func(ctx context.Context, in string) (out string, err error) {
		for i := range 5 {
			out, err = perdure.Step(ctx, fmt.Sprint("s", i), func(context.Context) (string, error) {
				return in, nil
			})
			if err != nil {
				break
			}
		}
		return out, err
	}, opts...)
	executing(b, s, def, func(ctx context.Context, eng *perdure.Engine) {
		b.ResetTimer()
		inFlight(b, calls, func() error {
			run, err := def.Start(ctx, eng, payload)
			if err == nil {
				_, err = run.Result(ctx)
			}
			return err
		})
		b.StopTimer()
		b.ReportMetric(5*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	})
}

// BenchmarkRunsThroughSlots measures how many runs in each second pass through 100 slots, when all
// but the first 100 wait in line.
func BenchmarkRunsThroughSlots(b *testing.B) {
	eachStore(b, func(b *testing.B, s store.Store) {
		open, all := make(chan struct{}), make(chan struct{})
		var left atomic.Int64
		left.Store(int64(b.N))
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "do", func(context.Context) (int, error) {
				<-open
				if left.Add(-1) == 0 {
					close(all)
				}
				return 0, nil
			})
		}, limit.Control{Concurrency: 100})
		executing(b, s, def, func(ctx context.Context, eng *perdure.Engine) {
			inFlight(b, 256, func() error {
				_, err := def.Start(ctx, eng, 0)
				return err
			})
			begun := time.Now()
			close(open)
			<-all
			b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "runs/s")
		})
	})
}

package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/postgres"
)

// quick is a workflow of five steps that do nothing.
var quick = perdure.Define("quick", func(ctx context.Context, _ int) (int, error) {
	for i := range 5 {
		if _, err := perdure.Step(ctx, fmt.Sprint(i), func(context.Context) (int, error) {
			return i, nil
		}); err != nil {
			return 0, err
		}
	}
	return 5, nil
})

// BenchmarkStartElsewhere starts runs that another node executes. A start with the ID of a
// run that the other node owns finds that run. A new run, started by a client, is timed until
// its end.
func BenchmarkStartElsewhere(b *testing.B) {
	url := testpg.URL(b)
	waits := perdure.NewSignal[int]("never")
	long := perdure.Define("long", func(ctx context.Context, _ int) (int, error) {
		return waits.Wait(ctx)
	})
	start(b, url, postgres.Options{}, quick, long)
	s, err := postgres.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	client, err := perdure.NewClient(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	if _, err = long.Start(b.Context(), client, 1, perdure.ID("long")); err != nil {
		b.Fatal(err)
	}
	here := start(b, url, postgres.Options{}, long)
	for name, call := range map[string]func() error{
		"owned": func() error {
			_, err := long.Start(b.Context(), here.Engine, 1, perdure.ID("long"))
			return err
		},
		"until its end": func() error {
			run, err := quick.Start(b.Context(), client, 1)
			if err == nil {
				_, err = run.Result(b.Context())
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := call(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkNodes runs one node, and two nodes that share the same load: 256 runs at a time.
func BenchmarkNodes(b *testing.B) {
	for _, nodes := range []int{1, 2, 1, 2} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			url := testpg.URL(b)
			var all []*node
			for range nodes {
				all = append(all, start(b, url, postgres.Options{}, quick))
			}
			b.ResetTimer()
			var busy sync.WaitGroup
			for i := range 256 {
				n := all[i%nodes]
				busy.Go(func() {
					for range max(b.N/256, 1) {
						run, err := quick.Start(b.Context(), n.Engine, 1)
						if err == nil {
							_, err = run.Result(b.Context())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			busy.Wait()
			b.ReportMetric(float64(5*256*max(b.N/256, 1))/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

//go:build unix

package serving

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/store/open"
)

const (
	benchSteps = 10 // of a run
	benchRuns  = 200
)

var benched = perdure.Define("benched", func(ctx context.Context, n int) (int, error) {
	for i := range benchSteps {
		if _, err := perdure.Step(ctx, "add", func(context.Context) (int, error) {
			return n + i, nil
		}); err != nil {
			return 0, err
		}
	}
	return n, nil
})

// BenchmarkServing measures steps in turns: of an engine alone, and of one with the API, metrics
// and a reader of live events.
func BenchmarkServing(b *testing.B) {
	for range 3 {
		b.Run("alone", func(b *testing.B) { bench(b, config.Off) })
		b.Run("served", func(b *testing.B) { bench(b, "127.0.0.1:0") })
	}
}

// bench starts runs by a client in the process of the engine until b.N steps are done.
func bench(b *testing.B, address string) {
	file := filepath.Join(b.TempDir(), "t.db")
	n, live, stop := serveBench(b, file, address)
	defer stop()
	before := used(b)
	b.ResetTimer()
	var all sync.WaitGroup
	var next atomic.Int64
	for range benchRuns {
		all.Go(func() {
			for next.Add(benchSteps) <= int64(b.N) {
				run, err := benched.Start(b.Context(), n.engine, 1)
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
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(used(b)-before)/float64(b.N), "cpu-ns/op")
	if live != nil {
		b.ReportMetric(float64(live.Load()), "events")
	}
}

func serveBench(b *testing.B, file, address string) (*node, *atomic.Int64, func()) {
	c, _, err := config.Load("", nil, map[string]string{
		"store": "sqlite:" + file, "listen.address": address, "log.format": "off",
	})
	if err != nil {
		b.Fatal(err)
	}
	db, err := open.Store(b.Context(), file)
	if err != nil {
		b.Fatal(err)
	}
	url := make(chan string, 1)
	n := &node{store: db, o: Options{
		Config: c, Program: "bench", Workflows: []perdure.Definition{benched}, Log: io.Discard,
		Begun: func(at string) { url <- at }, Ending: func() {},
	}}
	if err := n.prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- n.run(ctx) }()
	var live *atomic.Int64
	if at := <-url; at != "" {
		live = followBench(ctx, b, at)
	}
	return n, live, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		n.close()
		_ = db.Close()
	}
}

// followBench reads live events, and counts them.
func followBench(ctx context.Context, b *testing.B, at string) *atomic.Int64 {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/api/orchestration/events", nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	n := &atomic.Int64{}
	go func() {
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if len(lines.Text()) > 3 && lines.Text()[:3] == "id:" {
				n.Add(1)
			}
		}
	}()
	return n
}

// used returns the processor time of this process: on a busy machine it says more than the clock.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Skip(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

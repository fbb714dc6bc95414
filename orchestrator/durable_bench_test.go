package orchestrator_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/store/sqlite"
)

const subjects, atOnce = 1000, 512

// A bench is an orchestrator on SQLite with synchronous=FULL. Each event changes the state and
// emits one event, which is published.
type bench struct {
	*orchestrator.Durable
	engine *perdure.Engine
	lags   []time.Duration // from the emission to the publisher
	all    chan struct{}   // closed when b.N events are published
}

func newBench(b *testing.B) *bench {
	s, err := sqlite.Open(b.TempDir() + "/events.db")
	if err != nil {
		b.Fatal(err)
	}
	x := &bench{all: make(chan struct{}), Durable: orchestrator.Define(orchestrator.Orchestrator{
		Source: "counter",
		Versions: []orchestrator.Version{{Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				n := 0
				if _, err := t.State(&n); err != nil {
					return err
				}
				t.Emit(event.Event{Type: "counted", Data: fmt.Append(nil, n)})
				return t.Become(n + 1)
			}}},
	})}
	var mu sync.Mutex
	x.engine, err = perdure.New(s, perdure.Options{
		Publisher: func(_ context.Context, e perdure.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if x.lags = append(x.lags, time.Since(e.At)); len(x.lags) == b.N {
				close(x.all)
			}
			return nil
		},
		IdleTimeout: time.Minute,
	})
	if err == nil {
		err = x.engine.Register(x)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.engine.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		stop()
		running.Wait()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return x
}

func (x *bench) on(b *testing.B, i int64) {
	e := event.Event{ID: fmt.Sprint(i), Source: "/bench", Type: "begin",
		Subject: fmt.Sprint(i % subjects), Data: []byte(`{"cents": 100}`)}
	if out, err := x.On(b.Context(), x.engine, e); err != nil || out != orchestrator.EventAccepted {
		b.Errorf("event %d: %s, %v", i, out, err)
	}
}

// BenchmarkEventsOnTheKernel handles events of 1,000 subjects, 512 at a time, until the events that
// follow are published.
func BenchmarkEventsOnTheKernel(b *testing.B) {
	x := newBench(b)
	var next atomic.Int64
	b.ResetTimer()
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				x.on(b, i)
			}
		})
	}
	senders.Wait()
	<-x.all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkOutboxLag handles 2,500 events a second, and measures the time from the emission of an
// event to the publisher.
func BenchmarkOutboxLag(b *testing.B) {
	x := newBench(b)
	b.ResetTimer()
	var senders sync.WaitGroup
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < b.N; <-tick.C {
		for range 25 {
			if i++; i <= b.N {
				n := int64(i)
				senders.Go(func() { x.on(b, n) })
			}
		}
	}
	senders.Wait()
	<-x.all
	b.StopTimer()
	slices.Sort(x.lags)
	for name, at := range map[string]int{"p50-ms": b.N / 2, "p99-ms": b.N * 99 / 100} {
		b.ReportMetric(float64(x.lags[at].Microseconds())/1000, name)
	}
}

package orchestrator_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkEventsOnTheKernel handles events of 1,000 subjects on SQLite with synchronous=FULL, 512
// at a time. Each event changes the state and emits one event, which is published.
func BenchmarkEventsOnTheKernel(b *testing.B) {
	const subjects, atOnce = 1000, 512
	s, err := sqlite.Open(b.TempDir() + "/events.db")
	if err != nil {
		b.Fatal(err)
	}
	d := orchestrator.Define(orchestrator.Orchestrator{
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
	})
	var published atomic.Int64
	all := make(chan struct{})
	engine, err := perdure.New(s, perdure.Options{
		Publisher: func(context.Context, perdure.Event) error {
			if published.Add(1) == int64(b.N) {
				close(all)
			}
			return nil
		},
		IdleTimeout: time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := engine.Register(d); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := engine.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	var next atomic.Int64
	b.ResetTimer()
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				e := event.Event{ID: fmt.Sprint(i), Source: "/bench", Type: "begin",
					Subject: fmt.Sprint(i % subjects), Data: []byte(`{"cents": 100}`)}
				if out, err := d.On(ctx, engine, e); err != nil ||
					out != orchestrator.EventAccepted {
					b.Errorf("event %d: %s, %v", i, out, err)
				}
			}
		})
	}
	senders.Wait()
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	stop()
	running.Wait()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

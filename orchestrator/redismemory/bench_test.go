package redismemory_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/redismemory"
)

// BenchmarkEventsOnRedis handles events of some 1,000 subjects on Redis with appendfsync everysec,
// 128 at a time. Each event changes the state and emits one event.
func BenchmarkEventsOnRedis(b *testing.B) {
	const subjects, atOnce = 1000, 128
	s := testserver.Redis(b, "--appendfsync", "everysec")
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: atOnce})
	defer client.Close()
	var published atomic.Int64
	o := &orchestrator.Orchestrator{
		Source: "counter",
		Memory: redismemory.New[orchestrator.Record](client, redismemory.Options{}),
		Publish: func(_ context.Context, events []event.Event) error {
			published.Add(int64(len(events)))
			return nil
		},
		Versions: []orchestrator.Version{{Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				n := 0
				if _, err := t.State(&n); err != nil {
					return err
				}
				t.Emit(event.Event{Type: "counted", Data: fmt.Append(nil, n)})
				return t.Become(n + 1)
			}}},
	}
	var next atomic.Int64
	b.ResetTimer()
	var senders sync.WaitGroup
	for worker := range atOnce {
		senders.Go(func() {
			// each worker has its own subjects, as a consumer's lanes have
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				e := event.Event{ID: fmt.Sprint(i), Source: "/bench", Type: "begin",
					Subject: fmt.Sprint(worker, " ", i%(subjects/atOnce)),
					Data:    []byte(`{"cents": 100}`)}
				if out, err := o.On(b.Context(), e); err != nil ||
					out != orchestrator.EventHandled {
					b.Errorf("event %d: %s, %v", i, out, err)
				}
			}
		})
	}
	senders.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if published.Load() != int64(b.N) {
		b.Errorf("%d events are published", published.Load())
	}
}

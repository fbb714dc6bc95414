package steps

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkSequential runs 256 runs of five dependent steps at a time. On the memory store it
// shows the overhead of the engine per step.
func BenchmarkSequential(b *testing.B) {
	b.Run("memory", func(b *testing.B) { sequential(b, memory.New()) })
	b.Run("sqlite", func(b *testing.B) {
		s, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		sequential(b, s)
	})
}

func sequential(b *testing.B, s store.Store) {
	type note struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
		Text   string `json:"text"`
	}
	wf := perdure.Define("w", func(ctx context.Context, in note) (note, error) {
		for _, name := range [...]string{"reserve", "charge", "label", "ship", "mail"} {
			v, err := perdure.Step(ctx, name, func(context.Context) (note, error) {
				return in, nil
			})
			if err != nil {
				return v, err
			}
			in = v
		}
		return in, nil
	})
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "bench"})
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() { stop(); <-done }()
	in := note{"0123456789", 1234, strings.Repeat("x", 57)}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for left.Add(-5) > -5 {
				run, err := wf.Start(ctx, eng, in)
				if err == nil {
					_, err = run.Result(ctx)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

package schedule_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkAThousandDueSchedules measures the time from the instant at which 1,000 schedules are
// due until the last of their runs has begun: the mean over the instants, and the longest.
func BenchmarkAThousandDueSchedules(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		s, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		thousandDue(b, s)
	})
	b.Run("postgres", func(b *testing.B) {
		s, err := postgres.Open(b.Context(), testpg.URL(b))
		if err != nil {
			b.Fatal(err)
		}
		thousandDue(b, s)
	})
}

func thousandDue(b *testing.B, s store.Store) {
	const schedules = 1000
	var begun atomic.Int64
	last := make(chan time.Time, 1)
	job := perdure.Define("job", func(ctx context.Context, _ struct{}) (int, error) {
		return perdure.Step(ctx, "step", func(context.Context) (int, error) {
			if begun.Add(1)%schedules == 0 {
				last <- time.Now()
			}
			return 0, nil
		})
	})
	eng, err := perdure.New(s, perdure.Options{})
	if err == nil {
		err = eng.Register(job, schedule.Workflow())
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	spec := schedule.Spec{Workflow: "job", Cron: "*/10 * * * * *"}
	next := time.Now().Truncate(10 * time.Second).Add(10*time.Second + 100*time.Millisecond)
	<-time.After(time.Until(next)) // so that all are set before the first time
	for i := range schedules {
		if err := schedule.Set(ctx, eng, fmt.Sprint("s", i), spec, schedule.Note{}); err != nil {
			b.Fatal(err)
		}
	}
	var longest, total time.Duration
	for b.Loop() {
		at := <-last
		took := at.Sub(at.Truncate(10 * time.Second))
		b.Log(took)
		longest, total = max(longest, took), total+took
	}
	b.ReportMetric(total.Seconds()*1000/float64(b.N), "ms/due")
	b.ReportMetric(longest.Seconds()*1000, "ms-longest")
	stop()
	<-done
	_ = s.Close()
}

package alert_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkAnEndWithARule executes runs of five steps, 256 at a time, on SQLite: without a rule,
// with one that alerts of failures at once, and with one that counts in a row, for which each
// success is told, too. It reports steps per second until the last run has ended, and how long its
// end took to be told then.
func BenchmarkAnEndWithARule(b *testing.B) {
	to := []string{ops}
	for name, rule := range map[string]alert.Rule{
		"none": {}, "at-once": {To: to}, "in-a-row": {To: to, InARow: 1000},
	} {
		for ends, fails := range map[string]bool{"succeed": false, "fail": true} {
			b.Run(name+"/"+ends, func(b *testing.B) { benchEnds(b, rule, fails) })
		}
	}
}

func benchEnds(b *testing.B, rule alert.Rule, fails bool) {
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	wf := five(fails)
	eng, err := perdure.New(s, perdure.Options{
		Build: "bench", Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = eng.Register(wf, alert.Workflow(alert.Options{Mail: &office{}}))
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() { stop(); <-done }()
	if len(rule.To) > 0 {
		if err := alert.Set(ctx, eng, alert.Default, rule, admin.Note{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				run, err := wf.Start(ctx, eng, 0)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := run.Result(ctx); (err != nil) != fails {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(5*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	behind := time.Now()
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		info, err := s.Info(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if info.Outbox == 0 {
			break
		}
	}
	b.ReportMetric(time.Since(behind).Seconds(), "s-behind")
}

// five returns a workflow of five steps, of which the last one may fail.
func five(fails bool) *perdure.Workflow[int, int] {
	return perdure.Define("five", func(ctx context.Context, _ int) (int, error) {
		for i := range 5 {
			if err := perdure.Do(ctx, fmt.Sprint("s", i), func(context.Context) error {
				if fails && i == 4 {
					return errors.New("the disk is full")
				}
				return nil
			}, perdure.NoRetry); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
}

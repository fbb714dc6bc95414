package codec_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	benchRuns  = 200 // at a time
	benchSteps = 10  // of each
)

// BenchmarkBesideClear measures the steps per second on SQLite without a codec and with one, in
// turns, for results of several sizes.
func BenchmarkBesideClear(b *testing.B) {
	for _, size := range []int{10, 500, 20_000} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			text := strings.Repeat("what a step returns, ", size/21+1)[:size]
			def := perdure.Define("bench", func(ctx context.Context, n int) (string, error) {
				for i := range benchSteps {
					if _, err := perdure.Step(ctx, fmt.Sprint("step-", i),
						func(context.Context) (string, error) { return text, nil }); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			clear, sealed := benched(b, def, nil), benched(b, def, sealingByDefault(b))
			var took [2]time.Duration
			turns := 0
			for b.Loop() {
				for i := range 2 { // who is first changes with each turn
					which := (i + turns) % 2
					began := time.Now()
					[]func(){clear, sealed}[which]()
					took[which] += time.Since(began)
				}
				turns++
			}
			steps := float64(turns * benchRuns * benchSteps)
			b.ReportMetric(steps/took[0].Seconds(), "clear-steps/s")
			b.ReportMetric(steps/took[1].Seconds(), "sealed-steps/s")
			b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "sealed/clear")
		})
	}
}

func sealingByDefault(b *testing.B) codec.Codec {
	return codec.New(codec.Options{Keys: keysOf(b, "k")})
}

// benched returns a function that executes runs to their end, on a file of its own.
func benched(b *testing.B, def *perdure.Workflow[int, string], c codec.Codec) func() {
	var s store.Store = ok[*sqlite.Store](b)(sqlite.Open(filepath.Join(b.TempDir(), "bench.db")))
	if c != nil {
		s = ok[store.Store](b)(codec.Wrap(b.Context(), s, c))
	}
	engine, stop := run(b, s, def)
	b.Cleanup(func() {
		stop()
		s.Close()
	})
	ctx := context.Background()
	return func() {
		runs, errs := def.StartAll(ctx, engine, make([]int, benchRuns), nil)
		for i, r := range runs {
			if errs[i] != nil {
				b.Fatal(errs[i])
			}
			if _, err := r.Result(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}

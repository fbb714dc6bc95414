package patterntest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// Steps is the number of steps of each run of [BesideSteps].
const Steps = 5

// BesideSteps executes runs of [Steps] steps that do nothing, 256 at a time, on an engine that is
// not running yet. It alternates between w, which def declares with that many steps, and plain
// sequential steps. It reports the steps per second of w as a share of the plain steps per second,
// as the median over the rounds.
func BesideSteps[O any](
	b *testing.B, eng *perdure.Engine, def perdure.Definition, w *perdure.Workflow[int, O],
) {
	const inFlight, runs, rounds = 256, 4000, 5
	body := func(context.Context) (int, error) { return 1, nil }
	plain := perdure.Define("plain", func(ctx context.Context, _ int) (int, error) {
		for range Steps {
			if _, err := perdure.Step(ctx, "step", body); err != nil {
				return 0, err
			}
		}
		return 1, nil
	})
	if err := eng.Register(plain, def); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	took := func(run func() error) float64 {
		began, slots := time.Now(), make(chan struct{}, inFlight)
		var all sync.WaitGroup
		for range runs {
			slots <- struct{}{}
			all.Go(func() {
				if err := run(); err != nil {
					b.Error(err)
				}
				<-slots
			})
		}
		all.Wait()
		return time.Since(began).Seconds()
	}
	var shares []float64
	for range b.N * rounds {
		alone := took(func() error { return ends(plain, eng) })
		shares = append(shares, alone/took(func() error { return ends(w, eng) }))
	}
	slices.Sort(shares)
	b.ReportMetric(shares[len(shares)/2], "of-plain-steps/s")
}

// ends starts a run and waits for its end.
func ends[O any](w *perdure.Workflow[int, O], eng *perdure.Engine) error {
	run, err := w.Start(context.Background(), eng, 1)
	if err == nil {
		_, err = run.Result(context.Background())
	}
	return err
}

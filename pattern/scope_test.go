package pattern_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
)

// Whether a step waits for its next attempt is true at a moment. On replay the moment has gone: the
// attempt may have failed meanwhile, and the branch may have been cancelled later.
//
// spec: R-24
func TestCancelWaitingDecidesOnce(t *testing.T) {
	const second = time.Second
	hourly := perdure.Retry{Attempts: 9, First: time.Hour, Cap: time.Hour, Factor: 1}
	for name, c := range map[string]struct {
		quick, quickLater, cancels bool
		want                       string
		status                     journal.StepStatus
	}{
		"a step that waits":       {true, true, false, "cancelled", journal.StepIsCancelled},
		"an attempt":              {false, false, false, "goes on", journal.StepIsFailed},
		"the attempt fails later": {false, true, false, "goes on", journal.StepIsFailed},
		"the branch is cancelled": {false, false, true, "goes on", journal.StepIsCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			quick := atomic.Bool{}
			w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
					return perdure.Step(ctx, "tries", func(ctx context.Context) (int, error) {
						if !quick.Load() {
							select {
							case <-ctx.Done():
							case <-time.After(2 * time.Hour):
							}
						}
						return 0, errors.New("no")
					}, hourly)
				})
				if err := perdure.Sleep(ctx, time.Minute); err != nil {
					return "", err
				}
				time.Sleep(time.Millisecond) // the code computes, and the step goes on meanwhile
				cancelled, err := pattern.CancelWaiting(ctx, b, "enough")
				if err == nil {
					err = perdure.Sleep(ctx, time.Minute)
				}
				if err == nil && c.cancels {
					_, err = b.Cancel(ctx, "now")
				}
				if err != nil {
					return "", err
				}
				out := "goes on"
				if cancelled {
					out = "cancelled"
				}
				if err := perdure.Sleep(ctx, 3*time.Hour); err != nil {
					return "", err
				}
				_, err = b.Await(ctx)
				again, failed := pattern.CancelWaiting(ctx, b, "it is over")
				if err == nil || again || failed != nil {
					t.Errorf("it ended with %v, and was cancelled: %v, %v", err, again, failed)
				}
				return out, nil
			})
			for _, crash := range []time.Duration{90 * second, 150 * second, time.Hour} {
				quick.Store(c.quick)
				perduretest.Test(t, func(env *perduretest.Env) {
					run := perduretest.Start(env, w, 1)
					env.Sleep(crash)
					quick.Store(c.quickLater)
					env.Crash()
					run.Returns(c.want)
					s, _ := run.Report().Step("b/tries")
					if s.Status != c.status || s.Attempts != 1 {
						t.Errorf("crash after %v: %v, %d attempts", crash, s.Status, s.Attempts)
					}
				}, w)
			}
		})
	}
}

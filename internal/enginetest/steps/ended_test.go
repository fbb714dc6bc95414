package steps

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
)

// What is asked for with a context that has ended already does not begin, and a replay whose
// context has not ended comes to the same.
//
// spec: L-14
func TestWhatIsAskedForWithAnEndedContextDoesNotBegin(t *testing.T) {
	const times = 30
	var bodies, runs atomic.Int64
	kid := perdure.Define("kid", func(context.Context, int) (int, error) {
		bodies.Add(1)
		return 1, nil
	})
	news := perdure.NewSignal[int]("news")
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		ended, cancel := context.WithCancel(ctx)
		defer cancel()
		if runs.Add(1) == 1 {
			cancel()
		}
		body := func(context.Context) (int, error) {
			bodies.Add(1)
			return 1, nil
		}
		came := map[string]int{}
		count := func(what string, err error) {
			came[fmt.Sprint(what, " ", errors.Is(err, context.Canceled))]++
		}
		for range times {
			_, err := perdure.Step(ended, "step", body)
			count("step", err)
			future := perdure.Async(ended, "async", body)
			_, err = future.Await(ctx)
			count("async", err)
			_, err = perdure.Timer(ended, "timer", time.Minute).Await(ctx)
			count("timer", err)
			count("sleep", perdure.Sleep(ended, time.Minute))
			_, err = news.Wait(ended)
			count("signal", err)
			_, err = kid.Child(ended, 1).Await(ctx)
			count("child", err)
		}
		err := perdure.Sleep(ctx, time.Hour)
		return fmt.Sprint(came), err
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf, kid)
		defer w.End()
		_, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("one"))
		world.NoError(t, err)
		for range times {
			_, err := news.Send(t.Context(), w.Engine, "one", 1)
			world.NoError(t, err)
		}
		synctest.Wait()
		w.Crash()
		time.Sleep(2 * time.Hour)
		out, err := world.OutcomeOf(w, wf, "one")
		want := fmt.Sprint(map[string]int{
			"step true": times, "async true": times, "timer true": times, "sleep true": times,
			"signal true": times, "child true": times,
		})
		if err != nil || out != want || bodies.Load() != 0 || runs.Load() < 2 {
			t.Errorf("%v %s, bodies: %d, runs: %d", err, out, bodies.Load(), runs.Load())
		}
	})
}

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
	"github.com/perdure/perdure/journal"
)

// An operation with a context that has ended already does not begin, and a replay whose context
// has not ended has the same result.
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

// A context that is kept after its run was unloaded ends no goroutine of another run: each
// operation returns an error with a hint. The run itself is unchanged.
//
// spec: L-4, L-14
func TestAContextThatIsKeptEndsNoGoroutineOfAnother(t *testing.T) {
	var kept context.Context
	var future *perdure.Future[int]
	one := func(context.Context) (int, error) { return 1, nil }
	deferred, afterwards := false, 0
	sleeper := perdure.Define("sleeper", func(ctx context.Context, _ int) (int, error) {
		kept = ctx
		future = perdure.Async(ctx, "beside", one)
		if _, err := future.Await(ctx); err != nil {
			return 0, err
		}
		defer func() {
			deferred = true // also when the run is unloaded
			_, _ = perdure.Step(ctx, "late", one)
			afterwards++ // its own goroutine does not come here before the run ends
		}()
		return 7, perdure.Sleep(ctx, time.Hour)
	})
	news, kid := perdure.NewSignal[int]("news"), perdure.Define("kid", world.Nothing)
	use := func(t *testing.T) {
		_, step := perdure.Step(kept, "step", one)
		_, read := future.Await(kept)
		_, wait := news.Wait(kept)
		_, child := kid.Child(kept, 1).Await(kept)
		for what, err := range map[string]error{
			"step": step, "future": read, "sleep": perdure.Sleep(kept, 1), "wait": wait,
			"child": child,
		} {
			var e *perdure.Error
			if !errors.As(err, &e) || e.Code != journal.CodeMisuse || e.Hint == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	other := perdure.Define("other", func(context.Context, int) (bool, error) {
		use(t)
		return true, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, sleeper, other, kid)
		defer w.End()
		run, err := sleeper.Start(t.Context(), w.Engine, 0)
		world.NoError(t, err)
		synctest.Wait()
		if !deferred || afterwards != 0 {
			t.Error("the run has not left, or its goroutine went on", deferred, afterwards)
		}
		came := false
		go func() {
			use(t)
			came = true
		}()
		synctest.Wait()
		if !came {
			t.Error("the goroutine of another has ended")
		}
		if _, out, err := world.Result(w, other, 0); !out || err != nil {
			t.Error("another run:", out, err)
		}
		if out, err := run.Result(t.Context()); out != 7 || err != nil {
			t.Error(out, err)
		}
	})
}

// A client or an engine is asked with a context that has ended: nothing is started or sent, as in a
// call of many.
//
// spec: L-14
func TestWhatClientsAskForWithAnEndedContextDoesNotBegin(t *testing.T) {
	const times = 30
	wf := perdure.Define("w", func(context.Context, int) (int, error) { return 1, nil })
	news := perdure.NewSignal[int]("news")
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		defer w.End()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, c := range map[string]perdure.Caller{"engine": w.Engine, "client": client} {
			for range times {
				_, started := wf.Start(ended, c, 0)
				_, sent := news.Send(ended, c, "nobody", 1)
				for what, err := range map[string]error{"start": started, "signal": sent} {
					world.CodeIs(t, err, journal.CodeUnavailable)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s of the %s: %v", what, name, err)
					}
				}
			}
		}
		synctest.Wait()
		if n := w.Count()[journal.Completed]; n != 0 {
			t.Errorf("%d runs were started", n)
		}
		unread := world.Must[[]perdure.Message](t)(client.Unrouted(t.Context(), 0, 0))
		if len(unread) != 0 {
			t.Errorf("%d signals were sent", len(unread))
		}
	})
}

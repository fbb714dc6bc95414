package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// stoppable returns the sagas that are stopped at every point.
func stoppable() (out []shape) {
	for i, policy := range policies {
		good, bad, odd := shapes()[i], shapes()[1], shapes()[3]
		good.policy, bad.policy, odd.policy = policy, policy, policy
		good.handler, bad.handler, odd.handler = "continue", "continue", "retry"
		bad.fails, bad.undoFail = map[string]int{"b": 1, "d": forever},
			map[string]int{"b": forever, "c": 1}
		odd.undoFail = map[string]int{"e[1]": 2}
		out = append(out, good, bad, odd)
	}
	return out
}

// stop begins a saga and calls stop, which stops the saga and returns the status that the saga must
// end with; 0 if it was not stopped.
func (w *world) stop(env *perduretest.Env, s shape, def *saga.Saga[string],
	stop func(id string) perdure.RunStatus) {
	w.reset()
	run := perduretest.Start(env, def.Workflow, "input")
	by := stop(run.RunID())
	_, _ = run.Result()
	env.Settle()
	r, ended, letters := w.look(env, def, run.RunID())
	w.mu.Lock()
	defer w.mu.Unlock()
	var effects []string
	for id := range w.there {
		effects = append(effects, id)
	}
	slices.Sort(effects)
	var found []string
	if by != 0 {
		found = s.stopped(ended, by).stopDiffers(s, r, letters, effects)
	} else {
		e, err := s.expect(ended)
		e.blames(r)
		if found = e.differs(s, r, letters, effects); err != nil {
			found = []string{err.Error()}
		}
	}
	for _, f := range append(found, w.wrong...) {
		env.Errorf("%v: %s", s, f)
	}
}

// cancel cancels a run, and reports whether the cancel was refused.
func cancel(env *perduretest.Env, id string) (refused bool) {
	err := env.Do(func(eng *perdure.Engine) error {
		return eng.Cancel(env.Context(), id, "enough")
	})
	if refused = errors.Is(err, &perdure.Error{Code: perdure.CodeWrongState}); err != nil &&
		!refused {
		env.Fatal(err)
	}
	return refused
}

// cancelAfter cancels a run after a while. It returns CANCELLED unless the cancel was refused. It
// must be refused while the run compensates.
func cancelAfter(env *perduretest.Env, after time.Duration) func(id string) perdure.RunStatus {
	return func(id string) perdure.RunStatus {
		env.Sleep(after)
		d, err := env.Engine().Describe(env.Context(), id)
		if err != nil {
			env.Fatal(err)
		}
		before, refused := d.Head.Status, cancel(env, id)
		switch {
		case (before == journal.Compensating || before.IsTerminal()) &&
			before != journal.Cancelled && !refused:
			env.Errorf("a saga that was %v was cancelled", before)
		case refused && !before.IsDecided() && !before.IsTerminal():
			env.Errorf("a saga that was %v could not be cancelled", before)
		}
		if refused {
			return 0
		}
		return perdure.StatusCancelled
	}
}

// spec: F-29, L-10, L-12
func TestASagaThatIsCancelledAtAnyPointIsUndone(t *testing.T) {
	for _, s := range stoppable() {
		for after := time.Duration(
			0); after < 300*time.Millisecond; after += 3500 * time.Microsecond {
			w := &world{}
			def := w.build(s)
			perduretest.Test(t, func(env *perduretest.Env) {
				w.stop(env, s, def, cancelAfter(env, after))
			}, def)
			if t.Failed() {
				t.Fatalf("cancelled after %v", after)
			}
		}
	}
}

// spec: F-6, F-29
func TestASagaThatTimesOutAtAnyPointIsUndone(t *testing.T) {
	for _, s := range stoppable() {
		for s.timeout = time.Microsecond; s.timeout <
			300*time.Millisecond; s.timeout += 3500 * time.Microsecond {
			w := &world{}
			def := w.build(s)
			perduretest.Test(t, func(env *perduretest.Env) {
				w.stop(env, s, def, func(id string) perdure.RunStatus {
					return outcome(env, def, id)
				})
			}, def)
			if t.Failed() {
				t.Fatalf("timed out after %v", s.timeout)
			}
		}
	}
}

// outcome waits for the end of a run. It returns TIMED_OUT if the run has timed out. The run must
// time out if the timeout passed before compensation began or, without compensation, before the
// end.
func outcome(env *perduretest.Env, def *saga.Saga[string], id string) perdure.RunStatus {
	run := perduretest.Get(env, def.Workflow, id)
	_, _ = run.Result()
	var report report.Run
	var compensating time.Time
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		if report, err = eng.Report(env.Context(), id); err != nil {
			return err
		}
		entries, err := eng.History(env.Context(), id, 0, 0)
		for _, e := range entries {
			if e.Status == journal.Compensating && compensating.IsZero() {
				compensating = e.At
			}
		}
		return err
	}); err != nil {
		env.Fatal(err)
	}
	if compensating.IsZero() {
		compensating = report.Ended
	}
	deadline := report.Started.Add(timeoutOf(env, def))
	timedOut := report.Status == perdure.StatusTimedOut
	if timedOut != !deadline.After(compensating) && !deadline.Equal(compensating) {
		env.Errorf("the deadline is %v, its undo began at %v, and is %v", deadline, compensating,
			report.Status)
	}
	if report.Status == perdure.StatusTimedOut {
		return perdure.StatusTimedOut
	}
	return 0
}

func timeoutOf(env *perduretest.Env, def *saga.Saga[string]) time.Duration {
	for _, w := range env.Engine().Workflows() {
		if w.Name == def.Name() {
			return w.Timeout
		}
	}
	return 0
}

// spec: F-29, L-10
func TestASagaThatIsCancelledIsUndoneWhereverItCrashes(t *testing.T) {
	for i, s := range stoppable() {
		if i%3 == 0 {
			continue
		}
		for _, after := range []time.Duration{10, 25, 40, 60, 90} {
			after *= time.Millisecond
			t.Run(fmt.Sprintf("%v after %v", s, after), func(t *testing.T) {
				w := &world{}
				def := w.build(s)
				perduretest.Setup{Workflows: []perdure.Definition{def}, Crashes: 8}.CrashEverywhere(
					t, func(env *perduretest.Env) any {
						w.stop(env, s, def, func(id string) perdure.RunStatus {
							env.Sleep(after)
							cancel(env, id)
							run := perduretest.Get(env, def.Workflow, id)
							if _, err := run.Result(); errors.Is(
								err, &perdure.Error{Code: perdure.CodeCancelled}) {
								return perdure.StatusCancelled
							}
							return 0
						})
						return nil
					})
			})
		}
	}
}

// A slowLimiter keeps the workflow's code busy for a while whenever a step has ended.
type slowLimiter struct{ backpressure.Limit }

func (s slowLimiter) Begin() backpressure.Limiter { return s }

func (slowLimiter) Ended(error, time.Time) { time.Sleep(50 * time.Millisecond) }

// A result that was recorded after the cancel of the run, and that its code has not read, counts as
// a step that is done.
//
// spec: F-29, L-10
func TestAStepThatEndsWhileItsSagaIsBeingCancelledIsUndone(t *testing.T) {
	undone := map[string]int{}
	def := saga.New[int]("saga").Backpressure(slowLimiter{})
	for i, id := range []string{"a", "b", "c"} {
		saga.Add(def, id, func(ctx context.Context, _ int) (string, error) {
			return id, sleep(ctx, time.Duration(i+1)*20*time.Millisecond)
		}).Undo(func(_ context.Context, _ int, out string) error {
			undone[out]++
			return nil
		})
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, def.Workflow, 1)
		time.Sleep(30 * time.Millisecond) // the code is busy from 20 on, b ends at 40
		if err := env.Engine().Cancel(env.Context(), run.ID(), "enough"); err != nil {
			env.Fatal(err)
		}
		run.Fails(&perdure.Error{Code: perdure.CodeCancelled})
		r, err := env.Engine().Report(env.Context(), run.ID())
		if err != nil {
			env.Fatal(err)
		}
		got := fmt.Sprint(undone)
		for _, s := range r.Steps {
			got += " " + s.ID + " " + string(s.Status)
		}
		if want := "map[a:1 b:1 c:1] a COMPENSATED b COMPENSATED c COMPENSATED"; got != want {
			env.Errorf("%s, want %s", got, want)
		}
	}, def)
}

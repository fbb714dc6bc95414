package saga_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// A breaker over the clones of a step opens before all of them have failed: the other clones are
// refused, and after a crash the same clones are. Steps that are done are undone.
//
// spec: P-12, F-33
func TestABreakerSparesAStepOverAList(t *testing.T) {
	var mu sync.Mutex
	executed := map[int]bool{}
	def := saga.New[int]("saga").Backpressure(backpressure.CircuitBreaker{
		Failures: 2, Recovery: time.Hour,
	})
	before := saga.Add(def, "before", nothing).Undo(func(context.Context, int, int) error {
		return nil
	})
	saga.AddEach(def, "call", func(int) []int { return []int{0, 1, 2, 3, 4, 5} },
		func(_ context.Context, n int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			executed[n] = true
			if n == 0 {
				return 0, nil
			}
			return 0, errBroken
		}).After(before)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		clear(executed)
		run := perduretest.Start(env, def.Workflow, 1)
		_, _ = run.Result()
		var r saga.Result
		if err := env.Do(func(eng *perdure.Engine) error {
			report, err := eng.Report(env.Context(), run.ID())
			r = def.ResultOf(report)
			return err
		}); err != nil {
			env.Fatal(err)
		}
		refused := 0
		for _, s := range r.Failed() {
			if open := (*backpressure.OpenError)(nil); errors.As(s.Err, &open) {
				refused++
			}
		}
		mu.Lock()
		defer mu.Unlock()
		began := slices.Sorted(maps.Keys(executed))
		if len(r.FailedSteps()) != 5 || refused == 0 || refused+len(began) != 6 ||
			!slices.Equal(r.CompensatedSteps(), []string{"before"}) {
			env.Errorf("%v failed, %d of them refused, %v have begun, %v are undone",
				r.FailedSteps(), refused, began, r.CompensatedSteps())
		}
		return nil
	}, def)
}

// spec: P-12, F-8
func TestAnInvalidPolicyIsRefused(t *testing.T) {
	def := saga.New[int]("saga").Backpressure(backpressure.Limit(-1))
	saga.Add(def, "a", nothing)
	if err := newEngine(t).Register(def); err == nil ||
		!strings.Contains(err.Error(), "backpressure: ") {
		t.Errorf("registered: %v", err)
	}
	def = saga.New[int]("odd").Backpressure((*odd)(nil))
	saga.Add(def, "a", nothing)
	if err := newEngine(t).Register(def); err == nil ||
		!strings.Contains(err.Error(), "backpressure: panic: ") {
		t.Errorf("registered: %v", err)
	}
}

// odd is a policy that reads its own state.
type odd struct{ backpressure.Limit }

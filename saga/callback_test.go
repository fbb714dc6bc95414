package saga_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// A callback that ends its goroutine leaves the saga's error as it is.
//
// spec: F-9
func TestACallbackThatEndsItsGoroutineChangesNothing(t *testing.T) {
	exit := func(context.Context, error) (bool, error) { runtime.Goexit(); return true, nil }
	step := func(context.Context, string) error { runtime.Goexit(); return nil }
	for _, async := range []bool{false, true} {
		def := saga.New[int]("saga").On(pattern.Callback{Async: async, Failure: exit}).
			On(pattern.Callback{Async: async, Step: step})
		a := saga.Add(def, "a", func(context.Context, int) (int, error) { return 1, nil })
		saga.Add(def, "b", func(context.Context, int) (int, error) {
			return 0, perdure.Permanent(errBroken)
		}).After(a)
		perduretest.Test(t, func(env *perduretest.Env) {
			r, err := def.Execute(env.Context(), env.Engine(), 1)
			if err != nil || r.Status != perdure.StatusFailed || !errors.Is(r.Err, errBroken) &&
				r.Err.Error() != "step b failed: "+errBroken.Error() {
				env.Errorf("async %v: %v, %v; %v", async, r.Status, r.Err, err)
			}
		}, def)
	}
}

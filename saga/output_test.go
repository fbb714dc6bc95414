package saga_test

import (
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// spec: F-34
func TestTheOutputOfASagaIsThatOfAStep(t *testing.T) {
	for want, of := range map[string]int{"1": 0, `["x","y"]`: 1, "": 2} {
		def := saga.New[int]("saga")
		steps := []saga.Dependency{
			saga.Add(def, "a", func(context.Context, int) (int, error) { return 1, nil }),
			saga.AddEach(def, "b", func(int) []string { return []string{"x", "y"} },
				func(_ context.Context, s string) (string, error) { return s, nil }),
			nil,
		}
		if steps[of] != nil {
			def.Output(steps[of])
		}
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			out, err := perduretest.Start(env, def.Workflow, 1).Result()
			if string(out) != want || err != nil {
				env.Errorf("it gives %s, %v, want %s", out, err, want)
			}
			return nil
		}, def)
	}
}

// spec: F-34
func TestASagaThatHasFailedHasNoOutput(t *testing.T) {
	def := saga.New[int]("saga").On(pattern.Callback{
		Failure: func(context.Context, error) (bool, error) { return true, nil },
	})
	a := saga.Add(def, "a", func(context.Context, int) (int, error) { return 1, nil })
	saga.Add(def, "b", func(context.Context, int) (int, error) { return 0, errBroken }).After(a)
	def.Output(a)
	perduretest.Test(t, func(env *perduretest.Env) {
		if out, err := perduretest.Start(env, def.Workflow, 1).Result(); len(out) > 0 ||
			err != nil {
			env.Errorf("suppressed, it gives %s, %v", out, err)
		}
	}, def)
}

// spec: F-8
func TestAnOutputIsAStepOfTheSaga(t *testing.T) {
	other, def := saga.New[int]("other"), saga.New[int]("saga")
	foreign := saga.Add(other, "a", nothing)
	saga.Add(def, "a", nothing)
	def.Output(foreign)
	err := newEngine(t).Register(def)
	if err == nil || !strings.Contains(err.Error(), "output: step a is one of saga other") {
		t.Errorf("registered: %v", err)
	}
}

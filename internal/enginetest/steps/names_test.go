package steps

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
)

// An error that a step returns to workflow code names the step and its key, once: also for an
// option that is not valid, and for a result that does not encode.
func TestTheErrorOfAStepNamesTheStepOnce(t *testing.T) {
	fails := func(context.Context) (any, error) { return nil, errors.New("no paper") }
	mute := func(context.Context) (any, error) { return make(chan int), nil }
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		var texts []string
		for _, c := range []struct {
			fn   func(context.Context) (any, error)
			opts []perdure.StepOption
		}{
			{fails, []perdure.StepOption{perdure.Key("b"), perdure.NoRetry}},
			{mute, []perdure.StepOption{perdure.RenamedFrom("mute"), perdure.NoRetry}},
			{fails, []perdure.StepOption{perdure.Retry{Attempts: -1}}},
			{fails, []perdure.StepOption{perdure.Key("a b")}},
		} {
			_, err := perdure.Step(ctx, "pack", c.fn, c.opts...)
			texts = append(texts, err.Error())
		}
		_, err := perdure.NewSignal[int]("paid").Wait(ctx, perdure.Within(-1))
		return append(texts, err.Error()), nil
	})
	want := []string{
		"step pack[b]: no paper",
		"perdure: step pack: a value of type chan int does not encode: " +
			"json: unsupported type: chan int",
		"perdure: step pack: retry: Attempts -1 is not valid: at least 1",
		`perdure: step pack: key "a b" is not valid (allowed are 1 to 255 of A-Z a-z 0-9 . _ : -)`,
		"perdure: wait for paid: Within: -1ns is not valid: it must be above 0",
	}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		got, err := world.Start(w, wf, 0).Result(t.Context())
		if err != nil || len(got) != len(want) {
			t.Fatal(got, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("error %d:\n%s\nand should be\n%s", i, got[i], want[i])
			}
		}
	}, wf)
}

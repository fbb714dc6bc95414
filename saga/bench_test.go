package saga_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/saga"
)

// BenchmarkSagaBesideSteps measures a saga whose steps have compensations beside plain sequential
// steps.
func BenchmarkSagaBesideSteps(b *testing.B) {
	def := saga.New[int]("saga")
	var before []saga.Dependency
	for i := range patterntest.Steps {
		before = []saga.Dependency{saga.Add(def, fmt.Sprint("step-", i), nothing).After(before...).
			Undo(func(context.Context, int, int) error { return nil })}
	}
	patterntest.BesideSteps(b, def, def.Workflow)
}

package machine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/machine"
)

// BenchmarkMachineBesideSteps measures a machine beside plain sequential steps.
func BenchmarkMachineBesideSteps(b *testing.B) {
	def := machine.New[int]("machine", "step-0")
	for i := range patterntest.Steps {
		s := machine.Add(def, fmt.Sprint("step-", i), machine.Do(
			func(context.Context, int) (int, error) { return 1, nil }))
		if i+1 < patterntest.Steps {
			s.To(fmt.Sprint("step-", i+1))
		}
	}
	patterntest.BesideSteps(b, def, def.Workflow)
}

package patterns

import (
	"context"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store/memory"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// spec: P-13
func TestAPatternThatIsSwitchedOffIsNotRegistered(t *testing.T) {
	body := func(context.Context, int) (int, error) { return 0, nil }
	of := map[journal.Pattern]*perdure.Workflow[int, int]{
		journal.PatternWorkflow: perdure.Define("workflow", body),
		journal.PatternSaga:     perdure.Define("saga", body, pattern.Saga),
		journal.PatternTCC:      perdure.Define("tcc", body, pattern.TCC),
	}
	for off := range of {
		eng, err := perdure.New(memory.New(), perdure.Options{Off: []journal.Pattern{off}})
		if err != nil {
			t.Fatal(err)
		}
		for pattern, wf := range of {
			if err := eng.Register(wf); pattern == off {
				world.CodeIs(t, err, journal.CodeInvalid)
			} else {
				world.NoError(t, err)
			}
		}
	}
}

// The engine's own workflows are of the pattern WORKFLOW, and are registered if that is off.
//
// spec: P-13
func TestOwnWorkflowsAreThereWhateverIsOff(t *testing.T) {
	eng := world.Must[*perdure.Engine](t)(perdure.New(memory.New(), perdure.Options{
		Off: []journal.Pattern{journal.PatternWorkflow},
	}))
	world.NoError(t, eng.Register(schedule.Workflow(), batch.Workflow(),
		alert.Workflow(alert.Options{})))
	world.CodeIs(t, eng.Register(perdure.Define("w", func(context.Context, int) (int, error) {
		return 0, nil
	})), journal.CodeInvalid)
}

// spec: P-10
func TestTheNameOfAnAddressIsNoNameOfAWorkflow(t *testing.T) {
	engine, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	if err != nil {
		t.Fatal(err)
	}
	err = engine.Register(perdure.Define("instances", func(context.Context, int) (int, error) {
		return 0, nil
	}))
	if journal.CodeOf(err) != journal.CodeInvalid {
		t.Errorf("it is registered: %v", err)
	}
}

package play

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/schedule"
)

// Ticks is the name of the workflow that schedules start.
const Ticks = "tick"

// TickSpec returns the spec of a schedule of ticks.
func TickSpec(name string, every time.Duration, o schedule.Overlap) schedule.Spec {
	in, _ := json.Marshal(name)
	return schedule.Spec{
		Workflow: Ticks, Every: every, Overlap: o, CatchUp: schedule.All, Input: in,
	}
}

// TickLabel returns the label of the effect of a run that a schedule has started.
func TickLabel(name, id string) string { return name + "/" + id + "/tick" }

// defineTick returns a workflow of one step.
func (e *Env) defineTick() *perdure.Workflow[string, time.Time] {
	return perdure.Define(Ticks, func(ctx context.Context, name string) (time.Time, error) {
		t, is, err := schedule.TimesOf(ctx)
		if err != nil {
			return time.Time{}, err
		}
		if !is || t.Schedule != name {
			return time.Time{}, perdure.Fail(ctx, ErrMeant)
		}
		info, err := perdure.InfoOf(ctx)
		if err != nil {
			return time.Time{}, err
		}
		_, err = perdure.Step(ctx, "do", e.effect(TickLabel(name, info.WorkflowID)), brisk)
		return t.Time, err
	}, keep)
}

package saga

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/report"
)

// Composed tells how a run of a composition went. Its steps are at alias/step.
type Composed struct {
	report.Run
	of *composed
}

// Member gives what is known of the saga of an alias: its steps, and what was undone of
// them. The rest of it is of the whole run.
func (c Composed) Member(alias string) Result {
	p := c.of.plans[alias]
	return Result{renamed(c.Run, func(id string) (string, bool) {
		step, is := strings.CutPrefix(id, alias+"/")
		if is && p != nil {
			step = p.cloneID(step)
		}
		return step, is
	})}
}

// MemberStatus says where the saga of an alias is: PENDING, RUNNING, DONE, SKIPPED where
// its condition did not hold, FAILED, also where it is undone then, COMPENSATED where it
// was done and another one failed, or COMPENSATION_FAILED.
func (c Composed) MemberStatus(alias string) report.StepStatus {
	if own, found := c.Step(alias); found { // it did not begin
		return own.Status
	}
	r := c.Member(alias)
	is := func(all ...report.StepStatus) bool {
		return slices.ContainsFunc(r.Steps, func(s report.Step) bool {
			return slices.Contains(all, s.Status)
		})
	}
	switch {
	case len(r.Steps) == 0:
		return report.StepIsPending
	case is(report.StepIsCompensationFailed):
		return report.StepIsCompensationFailed
	case len(r.FailedSteps()) > 0:
		return report.StepIsFailed
	case is(report.StepIsCompensated):
		return report.StepIsCompensated
	}
	for _, s := range r.Steps {
		if !s.Status.IsDone() {
			return s.Status
		}
	}
	return report.StepIsDone
}

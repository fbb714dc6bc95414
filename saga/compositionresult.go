package saga

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/report"
)

// Composed is the result of a run of a composition. The IDs of its steps are alias/step.
type Composed struct {
	report.Run
}

// Member returns the result of one member: the steps of its saga and their compensations, by the
// IDs that they have in the saga. All other fields are about the whole run.
func (c Composed) Member(alias string) Result {
	r := c.Run
	r.Steps = nil
	for _, s := range c.Steps {
		var is bool
		if s.ID, is = strings.CutPrefix(s.ID, alias+"/"); is {
			r.Steps = append(r.Steps, s)
		}
	}
	if c.Undo == nil {
		return Result{r}
	}
	u := *c.Undo
	u.Steps, u.All = nil, true
	for _, s := range c.Undo.Steps {
		var is bool
		if s.ID, is = strings.CutPrefix(s.ID, alias+"/"); is {
			u.Steps, u.All = append(u.Steps, s), u.All && s.Undone
		}
	}
	r.Undo = &u
	return Result{r}
}

// MemberStatus returns the status of a member. PENDING, RUNNING and DONE are as for a step. SKIPPED
// means that its condition did not hold. FAILED means that its saga has failed, even if it was
// undone then. COMPENSATED means that it was done, and was undone because another member failed.
// COMPENSATION_FAILED means that one of its compensations has failed.
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

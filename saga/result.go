package saga

import (
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// A Result tells how a run of a saga went. Steps over lists have their clones' IDs.
type Result struct {
	perdure.Report
}

// FirstFailed is the ID of the step that failed first; empty where none has.
func (r Result) FirstFailed() string {
	if failed := r.FailedSteps(); len(failed) > 0 {
		return failed[0]
	}
	return ""
}

// FailedSteps gives the IDs of the steps that have failed, the first first.
func (r Result) FailedSteps() []string {
	failed := r.Failed()
	failed = slices.DeleteFunc(failed, func(s perdure.StepReport) bool { return s.Status == perdure.StepIsCompensationFailed })
	slices.SortStableFunc(failed, func(a, b perdure.StepReport) int { return a.Ended.Compare(b.Ended) })
	return idsOf(failed)
}

// CompensatedSteps gives the IDs of the steps that were undone.
func (r Result) CompensatedSteps() []string { return idsOf(r.Compensated()) }

func idsOf(steps []perdure.StepReport) []string {
	var ids []string
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	return ids
}

// result gives the report with the IDs that clones have.
func (p *plan) result(r perdure.Report) Result {
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].ID = p.cloneID(r.Steps[i].ID)
	}
	if r.Undo != nil {
		u := *r.Undo
		u.Steps = slices.Clone(u.Steps)
		for i := range u.Steps {
			u.Steps[i].ID = p.cloneID(u.Steps[i].ID)
		}
		r.Undo = &u
	}
	return Result{r}
}

// cloneID gives the ID of the step that an operation is: id[key] is id#key or id:key.
func (p *plan) cloneID(path string) string {
	id, key, found := strings.Cut(strings.TrimSuffix(path, "]"), "[")
	t := p.byID[id]
	if !found || t == nil || t.each == nil {
		return path
	}
	return id + t.each.separator() + key
}

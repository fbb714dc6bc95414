package saga

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure/report"
)

// An Execution is a [Result] or a [Part]. [Step.Of] finds results in it.
type Execution interface {
	resultOf(id string) json.RawMessage
	resultsOf(prefix string) map[string]json.RawMessage
}

// A Result is the outcome of a run of a saga. Clones of steps over lists have their own IDs.
type Result struct {
	report.Run
}

// FirstFailed returns the first ID of FailedSteps; empty if no step has failed.
func (r Result) FirstFailed() string {
	if failed := r.FailedSteps(); len(failed) > 0 {
		return failed[0]
	}
	return ""
}

// FailedSteps returns the IDs of the steps that have failed, in the order in which they began.
func (r Result) FailedSteps() []string {
	return idsOf(slices.DeleteFunc(r.Failed(), func(s report.Step) bool {
		return s.Status == report.StepIsCompensationFailed
	}))
}

// CompensatedSteps returns the IDs of the steps that were undone, in the order in which the steps
// began.
func (r Result) CompensatedSteps() []string { return idsOf(r.Compensated()) }

func idsOf(steps []report.Step) []string {
	var ids []string
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	return ids
}

func (r Result) resultOf(id string) json.RawMessage {
	s, _ := r.Step(id)
	return s.Result
}

func (r Result) resultsOf(prefix string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, s := range r.Steps {
		if strings.HasPrefix(s.ID, prefix) && s.Result != nil {
			out[s.ID] = s.Result
		}
	}
	return out
}

// result returns the report with the IDs of clones instead of the paths of operations.
func (p *plan) result(r report.Run) Result {
	return Result{renamed(r, func(id string) (string, bool) { return p.cloneID(id), true })}
}

// renamed returns the report with new IDs. It leaves out the steps for which name returns false.
func renamed(r report.Run, name func(id string) (string, bool)) report.Run {
	var steps []report.Step
	for _, s := range r.Steps {
		if id, has := name(s.ID); has {
			s.ID = id
			steps = append(steps, s)
		}
	}
	r.Steps = steps
	if r.Undo == nil {
		return r
	}
	u := *r.Undo
	u.Steps, u.All = nil, true
	for _, s := range r.Undo.Steps {
		if id, has := name(s.ID); has {
			s.ID = id
			u.Steps, u.All = append(u.Steps, s), u.All && s.Undone
		}
	}
	r.Undo = &u
	return r
}

// cloneID returns the ID of the step for the path of an operation: id[key] becomes id#key or
// id:key.
func (p *plan) cloneID(path string) string {
	id, key, found := strings.Cut(strings.TrimSuffix(path, "]"), "[")
	t := p.byID[id]
	if !found || t == nil || t.each == nil {
		return path
	}
	return id + t.each.separator() + key
}

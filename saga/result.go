package saga

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure/report"
)

// An Execution is a [Result], or a [Part]: what [Step.Of] finds results in.
type Execution interface {
	resultOf(id string) json.RawMessage
	resultsOf(prefix string) map[string]json.RawMessage
}

// A Result tells how a run of a saga went. Steps over lists have their clones' IDs.
type Result struct {
	report.Run
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
	return idsOf(slices.DeleteFunc(r.Failed(), func(s report.Step) bool {
		return s.Status == report.StepIsCompensationFailed
	}))
}

// CompensatedSteps gives the IDs of the steps that were undone, in the order of their
// starts.
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

// result gives the report with the IDs that clones have.
func (p *plan) result(r report.Run) Result {
	return Result{renamed(r, func(id string) (string, bool) { return p.cloneID(id), true })}
}

// renamed gives the report with other IDs, of those steps that have one.
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

// cloneID gives the ID of the step that an operation is: id[key] is id#key or id:key.
func (p *plan) cloneID(path string) string {
	id, key, found := strings.Cut(strings.TrimSuffix(path, "]"), "[")
	t := p.byID[id]
	if !found || t == nil || t.each == nil {
		return path
	}
	return id + t.each.separator() + key
}

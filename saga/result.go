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

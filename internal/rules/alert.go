package rules

import (
	"encoding/json"
	"slices"
)

// An alert is the part of an alert rule that decides which ends of runs are counted.
type alert struct {
	Off  bool     `json:"off"`
	Ends []string `json:"ends"` // statuses
	rule []byte   // the whole rule
}

func (x *Rules) putAlert(workflow string, value []byte) {
	a := &alert{rule: value}
	if json.Unmarshal(value, a) == nil {
		x.alerts[workflow] = a
	}
}

// Alert returns the alert rule of a workflow, which is that of its name, or else the default; nil
// if there is none, or if it is switched off.
func (x *Rules) Alert(workflow string) []byte {
	if a := x.alertOf(workflow); a != nil {
		return a.rule
	}
	return nil
}

// Alerts reports whether an alert rule counts the ends of a workflow with that status.
func (x *Rules) Alerts(workflow, status string) bool {
	a := x.alertOf(workflow)
	return a != nil && slices.Contains(a.Ends, status)
}

func (x *Rules) alertOf(workflow string) *alert {
	if len(x.alerts) == 0 || IsOwn(workflow) {
		return nil
	}
	a := x.alerts[workflow]
	if a == nil {
		a = x.alerts[""]
	}
	if a == nil || a.Off {
		return nil
	}
	return a
}

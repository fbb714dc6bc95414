package api

import (
	"maps"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Description is a run with everything that is known about it.
type Description struct {
	Outcome
	// the reason why it does not go on by itself
	Why    string    `json:"why,omitempty"`
	Steps  []Step    `json:"steps,omitempty"`
	Waits  []Wait    `json:"waits,omitempty"`
	Unread []Message `json:"unread,omitempty"` // messages that the run has not taken
	// the input, or the payload that replaced it
	Payload    Data              `json:"payload,omitzero"`
	Published  map[string]Data   `json:"published,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Versions   map[string]int    `json:"versions,omitempty"`
	// paths of recorded operations that this build's code has not asked for
	Unused      []string `json:"unused,omitempty"`
	Entries     int64    `json:"entries"`
	Build       string   `json:"build,omitempty"` // the build that wrote last
	Predecessor string   `json:"predecessor,omitempty"`
	Successor   string   `json:"successor,omitempty"`
}

// A Step is a step or branch of a run.
type Step struct {
	Path     string    `json:"path"`
	Status   string    `json:"status"`
	Attempts int       `json:"attempts"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Due      time.Time `json:"due,omitzero"` // when the next attempt begins
	Error    *Error    `json:"error,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// A Wait is something that a run waits for.
type Wait struct {
	Kind    string    `json:"kind"` // signal, timer, child, decision
	Path    string    `json:"path"`
	Since   time.Time `json:"since"`
	Due     time.Time `json:"due,omitzero"`
	Child   string    `json:"child,omitempty"`
	Choices []string  `json:"choices,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// DescriptionOf returns the description of a run by its head and the snapshot of its journal, with
// the messages that it has not taken. The caller fills in the other fields.
func DescriptionOf(h journal.Head, s journal.Snapshot) Description {
	d := Description{
		Outcome: Outcome{Run: RunOf(h)},
		Payload: s.Payload, Attributes: s.Attributes, Headers: s.Headers, Versions: s.Versions,
		Unused:  s.Unused,
		Entries: s.Seq, Build: s.Build, Predecessor: string(s.Predecessor),
		Successor: string(s.Successor),
	}
	if h.Status.IsTerminal() {
		d.Error = ErrorOf(s.Failure)
	}
	for _, step := range s.Steps {
		d.Steps = append(d.Steps, Step{
			Path: step.Path, Status: string(step.Status), Attempts: step.Attempts,
			Started: utc(step.Started),
			Ended:   utc(step.Ended), Due: utc(step.Due), Error: ErrorOf(step.Failure),
			Reason: step.Reason,
		})
	}
	for _, w := range s.Waits {
		d.Waits = append(d.Waits, Wait{
			Kind: string(w.Kind), Path: w.Path, Since: utc(w.Since), Due: utc(w.Due),
			Child: string(w.Child), Choices: w.Choices, Reason: w.Reason,
		})
	}
	if len(s.Published) > 0 {
		d.Published = map[string]Data{}
		for name := range maps.Keys(s.Published) {
			d.Published[name] = s.Published[name].Data
		}
	}
	return d
}

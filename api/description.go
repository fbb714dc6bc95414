package api

import (
	"maps"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Description is all that is known of a run.
type Description struct {
	Outcome
	Why        string            `json:"why,omitempty"` // why it does not go on by itself now
	Steps      []Step            `json:"steps,omitempty"`
	Waits      []Wait            `json:"waits,omitempty"`
	Unread     []Message         `json:"unread,omitempty"` // messages that it has not taken
	Payload    Data              `json:"payload,omitzero"` // its input, or what replaced it
	Published  map[string]Data   `json:"published,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Versions   map[string]int    `json:"versions,omitempty"`
	// paths of recorded operations that this build's code has not asked for
	Unused      []string `json:"unused,omitempty"`
	Entries     int64    `json:"entries"`
	Build       string   `json:"build,omitempty"` // that wrote last
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
	Due      time.Time `json:"due,omitzero"` // of the next attempt
	Error    *Error    `json:"error,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// A Wait is what a run waits for.
type Wait struct {
	Kind    string    `json:"kind"` // signal, timer, child, decision
	Path    string    `json:"path"`
	Since   time.Time `json:"since"`
	Due     time.Time `json:"due,omitzero"`
	Child   string    `json:"child,omitempty"`
	Choices []string  `json:"choices,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// DescriptionOf tells of a run by its head, the fold of its journal, and what it
// has not taken. The rest is the caller's to fill in.
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

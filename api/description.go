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
	Streams    map[string]int64  `json:"streams,omitempty"` // the bytes that count, by name
	Attributes map[string]string `json:"attributes,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Versions   map[string]int    `json:"versions,omitempty"`
	// paths of recorded operations that this build's code has not asked for
	Unused      []string `json:"unused,omitempty"`
	Entries     int64    `json:"entries"`
	Build       string   `json:"build,omitempty"`  // the build that wrote last
	Parent      string   `json:"parent,omitempty"` // the run whose child it is
	Predecessor string   `json:"predecessor,omitempty"`
	Successor   string   `json:"successor,omitempty"`
	// the run that it goes on from, and the run that goes on from it, by an operator's action
	Origin   *Origin `json:"origin,omitempty"`
	GoesOnAs *Origin `json:"goes_on_as,omitempty"`
	// the operator who has suspended or ended it, and why and how
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Mode   string `json:"mode,omitempty"`
	// paths of the steps whose effects are there and could be undone
	Undoable []string `json:"undoable,omitempty"`
}

// An Origin is a link between two runs of which one goes on from the other one.
type Origin struct {
	RunID    string `json:"run_id"` // the run at the other end of the link
	Action   string `json:"action"`
	Step     string `json:"step,omitempty"` // the step that was skipped, or from which on it was forked
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
	NewInput bool   `json:"new_input,omitempty"`
	Undoes   string `json:"undoes,omitempty"` // the completed run whose effects are undone
}

// OriginOf returns the form of a link; nil if there is none.
func OriginOf(o journal.Origin) *Origin {
	if o.Run == "" {
		return nil
	}
	return &Origin{
		RunID: string(o.Run), Action: string(o.Action), Step: o.Step, By: o.By, Reason: o.Reason,
		NewInput: o.NewInput, Undoes: string(o.Undoes),
	}
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
	By       string    `json:"by,omitempty"` // the operator who has skipped it
}

// A Wait is something that a run waits for.
type Wait struct {
	Kind    string    `json:"kind"` // signal, timer, child, decision, slot, retry
	Path    string    `json:"path"`
	Since   time.Time `json:"since"`
	Due     time.Time `json:"due,omitzero"`
	Child   string    `json:"child,omitempty"`
	Choices []string  `json:"choices,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// WaitOf returns the form of a wait.
func WaitOf(w journal.Wait) Wait {
	return Wait{
		Kind: string(w.Kind), Path: w.Path, Since: utc(w.Since), Due: utc(w.Due),
		Child: string(w.Child), Choices: w.Choices, Reason: w.Reason,
	}
}

// DescriptionOf returns the description of a run by its head and the snapshot of its journal, with
// the messages that it has not taken. The caller fills in the other fields.
func DescriptionOf(h journal.Head, s journal.Snapshot) Description {
	d := Description{
		Outcome: Outcome{Run: RunOf(h)},
		Payload: s.Payload, Attributes: s.Attributes, Headers: s.Headers, Versions: s.Versions,
		Unused:  s.Unused,
		Entries: s.Seq, Build: s.Build, Parent: string(h.ParentID()),
		Predecessor: string(s.Predecessor),
		Successor:   string(s.Successor), Origin: OriginOf(s.Origin),
		By: s.By, Reason: s.Reason, Mode: string(s.Mode), Undoable: s.Undoable(),
	}
	if h.Status.IsTerminal() {
		d.Error = ErrorOf(s.Failure)
	}
	for _, step := range s.Steps {
		d.Steps = append(d.Steps, Step{
			Path: step.Path, Status: string(step.Status), Attempts: step.Attempts,
			Started: utc(step.Started),
			Ended:   utc(step.Ended), Due: utc(step.Due), Error: ErrorOf(step.Failure),
			Reason: step.Reason, By: step.By,
		})
	}
	for _, w := range s.Waits {
		d.Waits = append(d.Waits, WaitOf(w))
	}
	if len(s.Published) > 0 {
		d.Published = map[string]Data{}
		for name := range maps.Keys(s.Published) {
			d.Published[name] = s.Published[name].Data
		}
	}
	if len(s.Streams) > 0 {
		d.Streams = map[string]int64{}
		for name, of := range s.Streams {
			d.Streams[name] = of.Bytes()
		}
	}
	return d
}

package perdure

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// About is what the author of a workflow says of it, for people and tools. It is an option
// of a workflow.
type About struct {
	Version     string
	Description string
	Trigger     string          // the type of event that starts it
	IDField     string          // the field of that event, or of the input, that is its workflow ID
	Input       json.RawMessage // the contract of its input, as JSON Schema
	Graph       *definition.Graph
}

func (a About) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Outline = definition.Outline{
		Version: a.Version, Description: a.Description, Trigger: a.Trigger, IDField: a.IDField,
		Input: a.Input,
		Graph: a.Graph,
	}
	return nil
}

// examine gives what the definition says of itself, and all issues, and completes it.
func examine(w *sealed.Workflow) (definition.Outline, []definition.Issue) {
	about, issues := w.Outline, []definition.Issue(nil)
	if w.Declared != nil {
		about, issues = w.Declared()
		about = about.Over(w.Outline)
	}
	issues = slices.Concat(w.Odd.Definition, issues, w.Odd.Timeouts, w.Odd.Retries, w.Odd.Replays)
	for _, do := range w.Later {
		do(w)
	}
	if about.Graph != nil {
		w.Layers = about.Graph.Layers()
	}
	return about, append(issues, about.Check()...)
}

// Check returns all that is wrong, or odd, with a definition of any pattern, as Register
// finds it, without an engine. It is called when the definition is complete.
func Check(d Definition) []definition.Issue {
	w, err := definitionOf(d)
	if err != nil {
		return []definition.Issue{
			{Severity: definition.SeverityError, Message: err.Error(), Err: err},
		}
	}
	_, issues := w.Examined()
	return slices.Clone(issues)
}

// A Registered is a workflow as an engine knows it.
type Registered struct {
	Name      string
	Pattern   journal.Pattern
	Timeout   time.Duration
	Retention *Retention // nil for the engine's
	Listeners int
	Outline   definition.Outline
}

// Workflows gives the workflows that the engine knows, by name.
func (e *Engine) Workflows() []Registered {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Registered
	for _, name := range slices.Sorted(maps.Keys(e.known)) {
		w := e.known[name]
		about, _ := w.Examined()
		out = append(out, Registered{
			Name: name, Pattern: w.Pattern, Timeout: w.Timeout,
			Retention: (*Retention)(w.Retention), Listeners: len(w.Listeners), Outline: about,
		})
	}
	return out
}

// Retention says for how long runs are kept after their end. It is an option of an
// engine, and of a workflow for its runs. It is kept with each run from its start, or,
// where a run was started by one that does not know the workflow, from the first claim
// by an engine that does: another setting counts for new runs only. A run is kept at least
// as long as it stands for its workflow ID ([Dedup]); open ones always are.
type Retention struct {
	Period   time.Duration // 0 is 7 days, below 0 for ever
	ByStatus map[RunStatus]time.Duration
}

func (r Retention) ApplyToWorkflow(w *sealed.Workflow) error {
	if err := r.check("define " + w.Name); err != nil {
		return err
	}
	w.Retain, w.Retention = r.kernel(), (*sealed.Retention)(&r)
	return nil
}

func (r Retention) check(op string) error {
	for s := range r.ByStatus {
		if !s.IsTerminal() {
			return failure.Invalid(op, "a run that is %v is kept", s)
		}
	}
	return nil
}

func (r Retention) kernel() journal.Retention {
	return journal.NewRetention(or(r.Period, defaultRetention), r.ByStatus)
}

// Purge removes now what is kept no longer: runs, and unrouted signals that have
// expired. It says how many. The engine does it by itself too, see Options.CleanUp.
func (e *Engine) Purge(ctx context.Context) (runs, signals int, err error) { return e.k.Purge(ctx) }

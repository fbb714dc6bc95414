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

// About describes a workflow for people and tools. It is an option of a workflow.
type About struct {
	Version     string
	Description string
	Trigger     string          // the type of event that starts it
	IDField     string          // the field of that event or of the input that has its workflow ID
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

// examine completes a definition, and returns its outline and all issues.
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

// Check returns everything that is wrong, or odd, with a definition of any pattern: the same
// issues that Register finds. It needs no engine. Call it when the definition is complete.
func Check(d Definition) []definition.Issue {
	w, err := definitionOf(d)
	if err != nil {
		return []definition.Issue{definition.Wrong("", err)}
	}
	_, issues := w.Examined()
	return slices.Clone(issues)
}

// A Registered is a workflow that an engine has registered.
type Registered struct {
	Name      string
	Pattern   journal.Pattern
	Timeout   time.Duration
	Retention *Retention // nil for the engine's
	Listeners int
	Outline   definition.Outline
}

// Workflows returns the workflows that the engine has registered, by name, without the engine's
// own.
func (e *Engine) Workflows() []Registered {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Registered
	cfg := e.k.Config()
	for _, name := range slices.Sorted(maps.Keys(e.known)) {
		w := e.known[name]
		if w.Own {
			continue
		}
		about, _ := w.Examined()
		out = append(out, Registered{
			Name: name, Pattern: w.Pattern, Timeout: max(cfg.TimeoutOf(&w.Workflow), 0),
			Retention: (*Retention)(w.Retention), Listeners: len(w.Listeners), Outline: about,
		})
	}
	return out
}

// Retention sets how long runs are kept after their end. It is an option of an engine, and of a
// workflow for its runs. It is recorded with each run at its start, so a changed setting applies to
// new runs only. If the run was started by a client that does not know the workflow, it is recorded
// when the first engine that knows it claims the run. A run is kept at least as long as it holds
// its workflow ID ([Dedup]), and one that goes on from another run by an operator's action at least
// as long as that run. Open runs are always kept.
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
			return failure.Invalid(op, "status %v is not valid: allowed are those of runs that "+
				"have ended", s)
		}
	}
	return nil
}

func (r Retention) kernel() journal.Retention {
	return journal.NewRetention(or(r.Period, defaultRetention), r.ByStatus)
}

// Purge removes the runs that are no longer kept and the unrouted signals that have expired. It
// returns the number of each. The engine also does this by itself: see Options.CleanUp.
func (e *Engine) Purge(ctx context.Context) (runs, signals int, err error) { return e.k.Purge(ctx) }

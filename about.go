package perdure

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// About is what a definition says of itself, for people and tools. It is an option
// of a workflow.
type About struct {
	Version     string          `json:"version,omitempty"`
	Description string          `json:"description,omitempty"`
	Trigger     string          `json:"trigger,omitempty"`  // the type of event that starts it
	IDField     string          `json:"id_field,omitempty"` // the field of that event, or of the input, that is its workflow ID
	Input       json.RawMessage `json:"input,omitempty"`    // the contract of its input, as JSON Schema
	Graph       *Graph          `json:"graph,omitempty"`
	DryRuns     bool            `json:"dry_runs,omitempty"`  // of a declaration: it can be walked through without doing anything, see [DryRun]
	Mode        Mode            `json:"mode,omitempty"`      // of a declaration: how its runs are started; empty where that is as the caller likes
	Pressured   bool            `json:"pressured,omitempty"` // of a declaration: it does things under a pressure, see [PressureName]
}

func (a About) workflow(w *workflow) error {
	w.about = a
	return nil
}

// over gives a, and for what it leaves empty what b says.
func (a About) over(b About) About {
	a.Version, a.Description = cmp.Or(a.Version, b.Version), cmp.Or(a.Description, b.Description)
	a.Trigger, a.IDField = cmp.Or(a.Trigger, b.Trigger), cmp.Or(a.IDField, b.IDField)
	if a.Input == nil {
		a.Input = b.Input
	}
	a.Graph = cmp.Or(a.Graph, b.Graph)
	return a
}

func (a About) check() []Issue {
	var issues []Issue
	if a.Input != nil && !json.Valid(a.Input) {
		issues = append(issues, Issue{Severity: IssueError, Where: "input", Message: "the contract of the input is not JSON"})
	}
	if a.Graph != nil {
		issues = append(issues, a.Graph.Check()...)
	}
	return issues
}

// Declared is an option of a workflow that is made of a declaration: it gives what the
// declaration says of itself, and all that is wrong with it. It is called once, when
// the workflow is registered, checked, or started with a [Mode], for the first time. What it leaves empty is as an [About]
// beside it says; the graph and the contract are checked in any case.
type Declared func() (About, []Issue)

func (d Declared) workflow(w *workflow) error {
	if d == nil {
		return invalid("define "+w.Name, "a declaration needs a function")
	}
	w.declared = d
	return nil
}

// examine gives what the definition says of itself, and all issues, and completes it.
func (w *workflow) examine() (About, []Issue) {
	about, issues := w.about, []Issue(nil)
	about.DryRuns, about.Pressured, about.Mode = false, false, "" // only a declaration says them
	if w.declared != nil {
		about, issues = w.declared()
		about = about.over(w.about)
	}
	issues = slices.Concat(issues, w.odd.timeout, w.odd.retry, w.odd.replays)
	if w.calling != nil {
		for _, l := range w.calling().Listeners() {
			_ = l.workflow(w) // one that is made of callbacks has nothing wrong
		}
	}
	if about.Graph != nil {
		w.Layers = about.Graph.Layers()
	}
	return about, append(issues, about.check()...)
}

// Check returns all that is wrong, or odd, with a definition of any pattern, as Register
// finds it, without an engine. It is called when the definition is complete.
func Check(d Definition) []Issue {
	if d == nil {
		return []Issue{{Severity: IssueError, Message: "a nil workflow"}}
	}
	w, err := d.definition()
	if err != nil {
		return []Issue{{Severity: IssueError, Message: err.Error(), Err: err}}
	}
	_, issues := w.examined()
	return slices.Clone(issues)
}

// A Registered is a workflow as an engine knows it.
type Registered struct {
	Name      string
	Pattern   journal.Pattern
	Timeout   time.Duration
	Retention *Retention // nil for the engine's
	Listeners int
	About     About
}

// Workflows gives the workflows that the engine knows, by name.
func (e *Engine) Workflows() []Registered {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Registered
	for _, name := range slices.Sorted(maps.Keys(e.known)) {
		w := e.known[name]
		about, _ := w.examined()
		out = append(out, Registered{
			Name: name, Pattern: w.Pattern, Timeout: w.Timeout, Retention: w.retention, Listeners: len(w.Listeners), About: about,
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
	ByStatus map[journal.Status]time.Duration
}

func (r Retention) workflow(w *workflow) error {
	if err := r.check("define " + w.Name); err != nil {
		return err
	}
	w.Retain, w.retention = r.kernel(), &r
	return nil
}

func (r Retention) check(op string) error {
	for s := range r.ByStatus {
		if !s.IsTerminal() {
			return invalid(op, "a run that is %v is kept", s)
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

package perdure

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/kernel"
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
}

// A Graph is what a definition is known to do before it runs.
type Graph struct {
	Nodes []Node `json:"nodes"`
}

// A Node is one step of a graph.
type Node struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"` // the nodes that must have ended before
}

// stuck gives a node that follows itself, or one that does; empty where there is
// none.
func (g Graph) stuck() string {
	ended := map[string]bool{}
	for left := g.Nodes; len(left) > 0; {
		var blocked []Node
		for _, n := range left {
			if slices.ContainsFunc(n.After, func(before string) bool { return !ended[before] }) {
				blocked = append(blocked, n)
			} else {
				ended[n.Name] = true
			}
		}
		if len(blocked) == len(left) {
			return left[0].Name
		}
		left = blocked
	}
	return ""
}

func (a About) workflow(w *workflow) error {
	if a.Input != nil && !json.Valid(a.Input) {
		return invalid("define "+w.Name, "the contract of its input is not JSON")
	}
	if a.Graph != nil {
		known := map[string]bool{}
		for _, n := range a.Graph.Nodes {
			if n.Name == "" || known[n.Name] {
				return invalid("define "+w.Name, "a node of its graph has no name of its own: %q", n.Name)
			}
			known[n.Name] = true
		}
		for _, n := range a.Graph.Nodes {
			for _, before := range n.After {
				if !known[before] {
					return invalid("define "+w.Name, "node %s of its graph follows %s, which is not there", n.Name, before)
				}
			}
		}
		if n := a.Graph.stuck(); n != "" {
			return invalid("define "+w.Name, "node %s of its graph can never begin: what it follows goes in a circle", n)
		}
	}
	w.about = a
	return nil
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
		out = append(out, Registered{
			Name: name, Pattern: w.Pattern, Timeout: w.Timeout, Retention: w.retention, Listeners: len(w.Listeners), About: w.about,
		})
	}
	return out
}

// Retention says for how long runs are kept after their end. It is an option of an
// engine, and of a workflow for its runs. A run is kept at least as long as it
// stands for its workflow ID ([Dedup]); open ones always are.
type Retention struct {
	Period   time.Duration // 0 is 7 days, below 0 for ever
	ByStatus map[journal.Status]time.Duration
}

func (r Retention) workflow(w *workflow) error {
	if err := r.check("define " + w.Name); err != nil {
		return err
	}
	k := r.kernel()
	w.Retain, w.retention = &k, &r
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

func (r Retention) kernel() kernel.Retention {
	return kernel.Retention{Period: or(r.Period, defaultRetention), ByStatus: r.ByStatus}
}

// Purge removes now what is kept no longer: runs, and unrouted signals that have
// expired. It says how many. The engine does it by itself too, see Options.CleanUp.
func (e *Engine) Purge(ctx context.Context) (runs, signals int, err error) { return e.k.Purge(ctx) }

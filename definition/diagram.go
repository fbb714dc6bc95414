package definition

import (
	"fmt"
	"slices"
	"strings"
)

// A Diagram is the part of a step machine that is known before it runs: its states, and where each
// may lead.
type Diagram struct {
	First  string  `json:"first"`
	States []State `json:"states"`
	// OnError are the states that go on after a failure of any other one.
	OnError []string `json:"on_error,omitempty"`
}

// A State is one step of a machine.
type State struct {
	Name string `json:"name"`
	Undo bool   `json:"undo,omitempty"` // it has a compensation
	To   []Edge `json:"to,omitempty"`
}

// An Edge leads from one state to another one.
type Edge struct {
	To    string `json:"to,omitempty"`    // empty for the end
	Label string `json:"label,omitempty"` // error or split; empty for none
}

// Mermaid returns the diagram in the language of Mermaid. States that a run has visited are
// highlighted.
func (d Diagram) Mermaid(visited ...string) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	ids := map[string]string{}
	for i, s := range d.States {
		ids[s.Name] = fmt.Sprintf("s%d", i)
		name := mermaidName(s.Name)
		if s.Undo {
			name += " (undo)"
		}
		fmt.Fprintf(&b, "    state \"%s\" as s%d\n", name, i)
	}
	line := func(from, to, label string) {
		fmt.Fprintf(&b, "    %s --> %s", from, to)
		if label != "" {
			b.WriteString(": " + label)
		}
		b.WriteByte('\n')
	}
	if ids[d.First] != "" {
		line("[*]", ids[d.First], "")
	}
	d.edges(func(from State, e Edge) {
		to := "[*]"
		if e.To != "" {
			to = ids[e.To]
		}
		line(ids[from.Name], to, e.Label)
	})
	for i, s := range d.States {
		if slices.Contains(visited, s.Name) {
			fmt.Fprintf(&b, "    class s%d visited\n", i)
		}
	}
	if len(visited) > 0 {
		b.WriteString("    classDef visited fill:#cfe8cf,stroke:#2e7d32\n")
	}
	return b.String()
}

// DOT returns the diagram in the language of Graphviz. States that a run has visited are filled.
func (d Diagram) DOT(title string, visited ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n\trankdir=LR\n\tnode [shape=box, style=rounded]\n",
		dotName(title))
	fmt.Fprintf(&b, "\t\"[*]\" [shape=point]\n\t\"[end]\" [shape=doublecircle, label=\"\"]\n")
	for _, s := range d.States {
		label := s.Name
		if s.Undo {
			label += "\n(undo)"
		}
		fill := ""
		if slices.Contains(visited, s.Name) {
			fill = ", style=\"rounded,filled\", fillcolor=\"#cfe8cf\""
		}
		fmt.Fprintf(&b, "\t%s [label=%s%s]\n", dotName(s.Name), dotName(label), fill)
	}
	if d.state(d.First) {
		fmt.Fprintf(&b, "\t\"[*]\" -> %s\n", dotName(d.First))
	}
	d.edges(func(from State, e Edge) {
		to := "[end]"
		if e.To != "" {
			to = e.To
		}
		fmt.Fprintf(&b, "\t%s -> %s", dotName(from.Name), dotName(to))
		if e.Label != "" {
			fmt.Fprintf(&b, " [label=%s, style=dashed]", dotName(e.Label))
		}
		b.WriteByte('\n')
	})
	return b.String() + "}\n"
}

// state reports whether there is a state of that name.
func (d Diagram) state(name string) bool {
	return slices.ContainsFunc(d.States, func(s State) bool { return s.Name == name })
}

// edges calls draw for each edge between existing states. A state that goes on after failures of
// any other one has an edge from each state without such an edge of its own.
func (d Diagram) edges(draw func(from State, e Edge)) {
	for _, s := range d.States {
		own := false
		for _, e := range s.To {
			if e.To == "" || d.state(e.To) {
				draw(s, e)
			}
			own = own || e.Label == "error"
		}
		for _, to := range d.OnError {
			if !own && to != s.Name && d.state(to) {
				draw(s, Edge{to, "error"})
			}
		}
	}
}

package perdure

import (
	"fmt"
	"slices"
	"strings"
)

// A Graph is what a definition is known to do before it runs: steps, and which of them
// come before which.
type Graph struct {
	Nodes []Node `json:"nodes"`
}

// A Node is one step of a graph.
type Node struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"` // the nodes that must have ended before
	Order int      `json:"order,omitempty"` // sorts the nodes of one layer; equal ones are as declared
}

// Layers sorts the nodes: each layer has those whose predecessors are all in layers
// before it (Kahn's algorithm). Of a graph that [Graph.Check] complains of, it gives
// the layers that there are.
func (g Graph) Layers() [][]string {
	index := make(map[string]int, len(g.Nodes))
	for i := range g.Nodes {
		index[g.Nodes[i].Name] = i
	}
	left := make([]int, len(g.Nodes)) // predecessors that are in no layer yet
	next := make([][]int, len(g.Nodes))
	var ready []int
	for i := range g.Nodes {
		for _, before := range g.Nodes[i].After {
			left[i]++ // also for one that is not there: such a node never begins
			if j, known := index[before]; known {
				next[j] = append(next[j], i)
			}
		}
		if left[i] == 0 {
			ready = append(ready, i)
		}
	}
	var layers [][]string
	for len(ready) > 0 {
		slices.Sort(ready)
		slices.SortStableFunc(ready, func(a, b int) int { return g.Nodes[a].Order - g.Nodes[b].Order })
		layer := make([]string, len(ready))
		var then []int
		for at, i := range ready {
			layer[at] = g.Nodes[i].Name
			for _, j := range next[i] {
				if left[j]--; left[j] == 0 {
					then = append(then, j)
				}
			}
		}
		layers, ready = append(layers, layer), then
	}
	return layers
}

// Check says what is wrong with the graph: nothing in it, a node without a name or with
// one that another has, one that follows itself or something that is not there, and
// nodes that follow each other in a circle, which is named.
func (g Graph) Check() []Issue {
	if len(g.Nodes) == 0 {
		return []Issue{topologyIssue("", "there are no steps")}
	}
	var issues []Issue
	known := make(map[string]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		switch {
		case n.Name == "":
			issues = append(issues, topologyIssue("", "a step has no name"))
		case known[n.Name]:
			issues = append(issues, topologyIssue(n.Name, "two steps have this name"))
		}
		known[n.Name] = true
	}
	for _, n := range g.Nodes {
		for _, before := range n.After {
			switch {
			case before == n.Name:
				issues = append(issues, topologyIssue(n.Name, "it follows itself"))
			case !known[before]:
				issues = append(issues, topologyIssue(n.Name, fmt.Sprintf("it follows %s, which is not there", quoted(before))))
			}
		}
	}
	if len(issues) == 0 {
		if circle := g.circle(); circle != nil {
			issues = append(issues, topologyIssue(circle[0], "a circle: "+strings.Join(circle, " → ")))
		}
	}
	return issues
}

// circle gives nodes that follow each other, each before those that follow it, and the
// first again at the end; nil where there are none.
func (g Graph) circle() []string {
	sorted := map[string]bool{}
	for _, layer := range g.Layers() {
		for _, name := range layer {
			sorted[name] = true
		}
	}
	before := map[string]string{} // a predecessor that is in no layer either
	at := ""
	for _, n := range g.Nodes {
		if sorted[n.Name] {
			continue
		}
		i := slices.IndexFunc(n.After, func(name string) bool { return !sorted[name] })
		before[n.Name], at = n.After[i], n.Name
	}
	if at == "" {
		return nil
	}
	seen := map[string]bool{}
	for ; !seen[at]; at = before[at] {
		seen[at] = true
	}
	circle := []string{at}
	for name := before[at]; name != at; name = before[name] {
		circle = append(circle, name)
	}
	slices.Reverse(circle)
	return append(circle, circle[0])
}

// DOT gives the graph as Graphviz draws it.
func (g Graph) DOT(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n\trankdir=LR\n\tnode [shape=box]\n", dotName(title))
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "\t%s\n", dotName(n.Name))
	}
	for _, n := range g.Nodes {
		for _, before := range n.After {
			fmt.Fprintf(&b, "\t%s -> %s\n", dotName(before), dotName(n.Name))
		}
	}
	return b.String() + "}\n"
}

func dotName(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// Mermaid gives the graph as Mermaid draws it.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	at := map[string]int{}
	for i, n := range g.Nodes {
		at[n.Name] = i
		fmt.Fprintf(&b, "    n%d[\"%s\"]\n", i, strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(n.Name))
	}
	for i, n := range g.Nodes {
		for _, before := range n.After {
			fmt.Fprintf(&b, "    n%d --> n%d\n", at[before], i)
		}
	}
	return b.String()
}

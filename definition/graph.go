package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/perdure/perdure/internal/failure"
)

// A Graph is the part of a definition that is known before it runs: its steps, and their order.
type Graph struct {
	Nodes []Node `json:"nodes"`
}

// A Node is one step of a graph.
type Node struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"` // the nodes that must have ended before
	// Order sorts the nodes of one layer. Nodes with equal Order stay as declared.
	Order int `json:"order,omitempty"`
	// When is the condition under which the node runs, as text; empty if it always does.
	When string `json:"when,omitempty"`
	Undo bool   `json:"undo,omitempty"` // it has a compensation
}

// Layers sorts the nodes into layers: all predecessors of a node are in layers before its own
// (Kahn's algorithm). For a graph with issues of [Graph.Check], it returns only the layers that
// exist: nodes that follow a circle, or a missing node, are in no layer.
func (g Graph) Layers() [][]string {
	before := g.before()
	left := make([]int, len(g.Nodes)) // number of predecessors that are in no layer yet
	next := make([][]int, len(g.Nodes))
	var ready []int
	for i := range g.Nodes {
		left[i] = len(before[i])
		for _, j := range before[i] {
			if j != missing {
				next[j] = append(next[j], i)
			}
		}
		if left[i] == 0 {
			ready = append(ready, i)
		}
	}
	var layers [][]string
	for len(ready) > 0 {
		slices.SortFunc(ready, func(a, b int) int {
			return cmp.Or(cmp.Compare(g.Nodes[a].Order, g.Nodes[b].Order), cmp.Compare(a, b))
		})
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

// missing is the index of a node that does not exist.
const missing = -1

// before returns, for each node, the indexes of the nodes that it follows, each existing one
// once.
func (g Graph) before() [][]int {
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if _, known := index[n.Name]; !known {
			index[n.Name] = i
		}
	}
	all := make([][]int, len(g.Nodes))
	// the node that was last found to follow a node, counted from 1
	last := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, name := range n.After {
			at, known := index[name]
			switch {
			case !known:
				all[i] = append(all[i], missing)
			case last[at] != i+1:
				last[at] = i + 1
				all[i] = append(all[i], at)
			}
		}
	}
	return all
}

// Check returns everything that is wrong with the graph: no nodes; a node without a name, or with
// the name of another node; a node that follows itself or a missing node; and nodes that follow
// each other in a circle. A circle is shown in the order in which its nodes would run. Of circles
// that share a node, Check may name only one.
func (g Graph) Check() []Issue {
	if len(g.Nodes) == 0 {
		return []Issue{topologyIssue("", "there are no steps")}
	}
	var issues []Issue
	count := make(map[string]int, len(g.Nodes))
	for _, n := range g.Nodes {
		count[n.Name]++
		switch {
		case n.Name == "":
			issues = append(issues, topologyIssue("", "a step has no name"))
		case count[n.Name] == 2:
			issues = append(issues, topologyIssue(n.Name, "two steps have this name"))
		}
	}
	for _, n := range g.Nodes {
		for _, before := range n.After {
			switch {
			case before == n.Name:
				issues = append(issues, topologyIssue(n.Name, "it follows itself"))
			case count[before] == 0:
				issues = append(issues, topologyIssue(n.Name,
					fmt.Sprintf("it follows %s, which is not there", failure.Quoted(before))))
			}
		}
	}
	for _, circle := range g.circles() {
		issues = append(issues, topologyIssue(g.Nodes[circle[0]].Name, "a circle: "+g.path(circle)))
	}
	return issues
}

// circles returns the circles of the graph: in each, every node comes after the node before it,
// and the first after the last. No node is in two of them, and the graph without them has no
// circles. The search goes from each node to its predecessors, and removes a circle from its path
// when it finds one.
func (g Graph) circles() [][]int {
	before := g.before() // the predecessors that are left to visit
	const isNew, isOver = 0, -1
	// the position in the path, counted from 1, or one of these constants
	at := make([]int, len(g.Nodes))
	var circles [][]int
	for start := range g.Nodes {
		var path []int
		enter := func(i int) {
			path = append(path, i)
			at[i] = len(path)
		}
		if at[start] == isNew {
			enter(start)
		}
		for len(path) > 0 {
			i := path[len(path)-1]
			if len(before[i]) == 0 {
				at[i], path = isOver, path[:len(path)-1]
				continue
			}
			j := before[i][0]
			before[i] = before[i][1:]
			switch {
			case j == missing || j == i || at[j] == isOver:
			case at[j] == isNew:
				enter(j)
			default:
				circle := slices.Clone(path[at[j]-1:])
				path = path[:at[j]-1]
				for _, k := range circle {
					at[k] = isOver
				}
				slices.Reverse(circle[1:])
				circles = append(circles, circle)
			}
		}
	}
	return circles
}

const maxPath = 20 // maximum number of nodes of a circle that are named

// path names the nodes in order, and then the first node again.
func (g Graph) path(nodes []int) string {
	names := make([]string, 0, maxPath+2)
	for _, i := range nodes[:min(len(nodes), maxPath)] {
		names = append(names, g.Nodes[i].Name)
	}
	if more := len(nodes) - maxPath; more > 0 {
		names = append(names, fmt.Sprintf("(%d more)", more))
	}
	return strings.Join(append(names, names[0]), " → ")
}

// DOT returns the graph in the language of Graphviz. Edges to missing nodes are left out.
func (g Graph) DOT(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n\trankdir=LR\n\tnode [shape=box]\n", dotName(title))
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "\t%s\n", dotName(n.Name))
	}
	g.edges(func(from, to int) {
		fmt.Fprintf(&b, "\t%s -> %s\n", dotName(g.Nodes[from].Name), dotName(g.Nodes[to].Name))
	})
	return b.String() + "}\n"
}

// edges calls draw once for each edge between existing nodes.
func (g Graph) edges(draw func(from, to int)) {
	for to, before := range g.before() {
		for _, from := range before {
			if from != missing {
				draw(from, to)
			}
		}
	}
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)

func dotName(s string) string { return `"` + dotEscapes.Replace(s) + `"` }

// Mermaid returns the graph in the language of Mermaid. Edges to missing nodes are left out.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "    n%d[\"%s\"]\n", i, mermaidName(n.Name))
	}
	g.edges(func(from, to int) { fmt.Fprintf(&b, "    n%d --> n%d\n", from, to) })
	return b.String()
}

// mermaidName replaces characters that are special in Mermaid by their numbers.
func mermaidName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsControl(r):
			b.WriteByte(' ')
		case strings.ContainsRune("\"#&<>`%\\;", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return cmp.Or(b.String(), " ") // Mermaid does not accept an empty name
}

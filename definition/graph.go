package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/perdure/perdure/internal/failure"
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
	// sorts the nodes of one layer; equal ones are as declared
	Order int `json:"order,omitempty"`
}

// Layers sorts the nodes: each layer has those whose predecessors are all in layers
// before it (Kahn's algorithm). Of a graph that [Graph.Check] complains of, it gives
// the layers that there are: what follows a circle, or something that is not there, is
// in none.
func (g Graph) Layers() [][]string {
	before := g.before()
	left := make([]int, len(g.Nodes)) // predecessors that are in no layer yet
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

// missing stands for a node that is not there.
const missing = -1

// before gives the nodes that each node follows, each of them that is there once.
func (g Graph) before() [][]int {
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if _, known := index[n.Name]; !known {
			index[n.Name] = i
		}
	}
	all := make([][]int, len(g.Nodes))
	last := make([]int, len(g.Nodes)) // who was found to follow a node last, counted from 1
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

// Check says all that is wrong with the graph: nothing in it, a node without a name or
// with one that another has, one that follows itself or something that is not there, and
// nodes that follow each other in a circle, which is named in the order in which they
// would run. Of circles that have a node in common it may name only one.
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

// circles gives nodes that follow each other, each after the one before it and the
// first after the last. No node is in two of them, and the graph without them has none.
// It goes from each node to those before it, and takes a circle that it meets off its
// path.
func (g Graph) circles() [][]int {
	before := g.before() // what is left to look at
	const isNew, isOver = 0, -1
	at := make([]int, len(g.Nodes)) // the place in the path, counted from 1, or one of these
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

const maxPath = 20 // nodes of a circle that are named

// path names nodes one after the other, and the first again.
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

// DOT gives the graph as Graphviz draws it. What is not there is not drawn.
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

// edges gives the edges between nodes that are there, each once.
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

// Mermaid gives the graph as Mermaid draws it. What is not there is not drawn.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "    n%d[\"%s\"]\n", i, mermaidName(n.Name))
	}
	g.edges(func(from, to int) { fmt.Fprintf(&b, "    n%d --> n%d\n", from, to) })
	return b.String()
}

// mermaidName writes what means something to Mermaid by its number.
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
	return cmp.Or(b.String(), " ") // it takes no empty name
}

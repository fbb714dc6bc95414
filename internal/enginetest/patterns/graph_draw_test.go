package patterns

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/perdure/perdure/definition"
)

// hostile has names with a meaning in the languages in which graphs are drawn.
var hostile = []string{
	"plain", "try:debit", "with space", `"`, `a"b`, `\`, `\\`, `a\`, `a\"`, `\n`, `\N`, "a\nb",
	"a\r\nb", "\t", "[x]", "{x}", "(x)", `"]`, "]", "-->", "n0", "end",
	"<b>x</b>", "<", "&lt;", "#quot;", "#34;", "#", ";", "%%", "%%{init: {}}%%", "`md`", "// x",
	"/* x */", "subgraph", "digraph", "->", `" -> "`, "é→日本", "|x|", "style:x",
}

// chainOf returns nodes with these names. Each node follows two earlier nodes, and names one of
// them twice.
func chainOf(names []string) definition.Graph {
	var g definition.Graph
	for i, name := range names {
		n := definition.Node{Name: name}
		if i > 0 {
			n.After = []string{names[i-1], names[i/2], names[i-1]}
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

// edgesOf returns the edges of a graph in the form that drawings have.
func edgesOf(g definition.Graph) []string {
	var out []string
	for _, n := range g.Nodes {
		for _, before := range n.After {
			out = append(out, fmt.Sprintf("%q %q", before, n.Name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A drawing has the nodes and the edges that were read from a drawn graph.
type drawing struct{ nodes, edges []string }

func (d drawing) check(t *testing.T, what string, g definition.Graph) {
	t.Helper()
	var names []string
	for _, n := range g.Nodes {
		names = append(names, n.Name)
	}
	if !slices.Equal(d.nodes, names) {
		t.Errorf("%s has the nodes\n%q, want\n%q", what, d.nodes, names)
	}
	if slices.Sort(d.edges); !slices.Equal(d.edges, edgesOf(g)) {
		t.Errorf("%s has the edges\n%q, want\n%q", what, d.edges, edgesOf(g))
	}
}

// These match a quoted string of DOT: Graphviz knows \" and, in labels, \\, \n and \r.
var (
	dotString = `"((?:[^"\\\n]|\\["\\nr])*)"`
	dotLine   = regexp.MustCompile(`^\t` + dotString + `(?: -> ` + dotString + `)?$`)
	dotTitle  = regexp.MustCompile(`^digraph ` + dotString + ` \{$`)
)

func readDOT(t *testing.T, text string) (title string, d drawing) {
	t.Helper()
	value := func(s string) string {
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r").Replace(s)
	}
	lines := strings.Split(text, "\n")
	first, last := dotTitle.FindStringSubmatch(lines[0]), lines[len(lines)-2:]
	if first == nil || lines[1] != "\trankdir=LR" || lines[2] != "\tnode [shape=box]" ||
		last[0] != "}" || last[1] != "" {
		t.Fatalf("it is no DOT:\n%s", text)
	}
	for _, line := range lines[3 : len(lines)-2] {
		m := dotLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			t.Errorf("the line %q is no DOT", line)
		case strings.Contains(line, `" -> "`) && m[2] != "":
			d.edges = append(d.edges, fmt.Sprintf("%q %q", value(m[1]), value(m[2])))
		default:
			d.nodes = append(d.nodes, value(m[1]))
		}
	}
	return value(first[1]), d
}

var (
	mermaidNode   = regexp.MustCompile("^    n(\\d+)\\[\"([^\"\\\\<>`%&\r]+)\"\\]$")
	mermaidEdge   = regexp.MustCompile(`^    n(\d+) --> n(\d+)$`)
	mermaidEntity = regexp.MustCompile(`#(\w*);?`)
)

func readMermaid(t *testing.T, text string) (d drawing) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if lines[0] != "flowchart LR" || lines[len(lines)-1] != "" {
		t.Fatalf("it is no Mermaid:\n%s", text)
	}
	name := func(number string) string {
		n, err := strconv.Atoi(number)
		if err != nil || n >= len(d.nodes) {
			t.Fatalf("there is no node %s:\n%s", number, text)
		}
		return d.nodes[n]
	}
	for _, line := range lines[1 : len(lines)-1] {
		if m := mermaidNode.FindStringSubmatch(line); m != nil {
			if m[1] != fmt.Sprint(len(d.nodes)) {
				t.Errorf("node %s comes after %d others", m[1], len(d.nodes))
			}
			d.nodes = append(d.nodes, mermaidEntity.ReplaceAllStringFunc(
				m[2], func(s string) string {
					n, err := strconv.Atoi(strings.Trim(s, "#;"))
					if err != nil || !strings.HasSuffix(s, ";") {
						t.Errorf("%s in %q is nothing", s, line)
					}
					return string(rune(n))
				}))
		} else if m := mermaidEdge.FindStringSubmatch(line); m != nil {
			d.edges = append(d.edges, fmt.Sprintf("%q %q", name(m[1]), name(m[2])))
		} else {
			t.Errorf("the line %q is no Mermaid", line)
		}
	}
	return d
}

// oneLined returns a name in the form that Mermaid gets it.
func oneLined(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, name)
}

// Each node and each edge is drawn once, even if its name has a meaning in the language.
//
// spec: F-2
func TestNamesThatMeanSomethingElsewhereAreDrawn(t *testing.T) {
	g := chainOf(hostile)
	if issues := g.Check(); len(issues) > 0 {
		t.Fatal(issues)
	}
	for _, want := range hostile {
		title, d := readDOT(t, g.DOT(want))
		if title != want {
			t.Errorf("the title is %q, want %q", title, want)
		}
		d.check(t, "DOT", g)
	}
	shown := make([]string, len(hostile))
	for i, name := range hostile {
		shown[i] = oneLined(name)
	}
	readMermaid(t, g.Mermaid()).check(t, "Mermaid", chainOf(shown))
}

// A graph that Check refuses is drawn as far as it exists.
//
// spec: F-2
func TestAGraphThatIsWrongIsDrawn(t *testing.T) {
	g := definition.Graph{
		Nodes: []definition.Node{
			{Name: "a", After: []string{"gone", "b"}},
			{Name: "b", After: []string{"a", "b"}},
			{After: []string{"gone"}},
		},
	}
	for _, d := range []struct{ name, got, want string }{
		{
			"DOT", g.DOT("t"), "digraph \"t\" {\n\trankdir=LR\n\tnode [shape=box]\n\t\"a\"\n" +
				"\t\"b\"\n\t\"\"\n\t\"b\" -> \"a\"\n\t\"a\" -> \"b\"\n\t\"b\" -> \"b\"\n}\n",
		},
		{
			"Mermaid", g.Mermaid(), "flowchart LR\n    n0[\"a\"]\n    n1[\"b\"]\n    n2[\" \"]\n" +
				"    n1 --> n0\n    n0 --> n1\n    n1 --> n1\n",
		},
	} {
		if d.got != d.want {
			t.Errorf("as %s it is\n%s\nwant\n%s", d.name, d.got, d.want)
		}
	}
}

package patterns

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// randomGraph returns nodes that follow only earlier nodes in a hidden order. They are declared in
// another order.
func randomGraph(rng *rand.Rand, nodes int) definition.Graph {
	g := definition.Graph{Nodes: make([]definition.Node, nodes)}
	for i := range g.Nodes {
		n := definition.Node{Name: fmt.Sprint("n", i), Order: rng.IntN(3) - 1}
		for range rng.IntN(4) * min(i, 1) {
			n.After = append(n.After, fmt.Sprint("n", rng.IntN(i))) // sometimes the same node twice
		}
		g.Nodes[i] = n
	}
	rng.Shuffle(nodes, func(i, j int) { g.Nodes[i], g.Nodes[j] = g.Nodes[j], g.Nodes[i] })
	return g
}

// modelLayers computes the result of Layers in another way: a node is one layer after the longest
// path to it.
func modelLayers(g definition.Graph) [][]string {
	at := map[string]definition.Node{}
	for _, n := range g.Nodes {
		at[n.Name] = n
	}
	depths := map[string]int{}
	var depth func(name string) int
	depth = func(name string) int {
		if d, known := depths[name]; known {
			return d
		}
		d := 0
		for _, before := range at[name].After {
			d = max(d, depth(before)+1)
		}
		depths[name] = d
		return d
	}
	var layers [][]definition.Node
	for _, n := range g.Nodes {
		d := depth(n.Name)
		for len(layers) <= d {
			layers = append(layers, nil)
		}
		layers[d] = append(layers[d], n)
	}
	var out [][]string
	for _, layer := range layers {
		slices.SortStableFunc(layer, func(a, b definition.Node) int {
			return cmp.Compare(a.Order, b.Order)
		})
		var names []string
		for _, n := range layer {
			names = append(names, n.Name)
		}
		out = append(out, names)
	}
	return out
}

// spec: F-2
func TestANodeIsOneLayerAfterTheLongestWayToIt(t *testing.T) {
	rng := world.Seeded(t)
	for range 500 {
		g := randomGraph(rng, 1+rng.IntN(40))
		if issues := g.Check(); len(issues) > 0 {
			t.Fatalf("%+v: %v", g, issues)
		}
		if got, want := g.Layers(), modelLayers(g); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%+v: the layers are %q, want %q", g, got, want)
		}
	}
}

// spec: F-2
func TestOrderSortsWithinALayerOnly(t *testing.T) {
	g := definition.Graph{Nodes: []definition.Node{
		{Name: "late", After: []string{"z"}, Order: math.MinInt},
		{Name: "z", Order: math.MaxInt}, {Name: "b"}, {Name: "a"}, {Name: "y", Order: math.MinInt},
	}}
	if got, want := g.Layers(), [][]string{{"y", "b", "a", "z"}, {"late"}}; !slices.EqualFunc(got,
		want, slices.Equal) {
		t.Errorf("the layers are %q, want %q", got, want)
	}
}

// spec: F-2, F-8
func TestAGraphIsToldAllThatIsWrongWithItAtOnce(t *testing.T) {
	node := func(name string, after ...string) definition.Node {
		return definition.Node{Name: name, After: after}
	}
	long := []definition.Node{node("x0", "x99")}
	longest := "ERROR: x0: a circle: x0"
	for i := 1; i < 100; i++ {
		long = append(long, node(fmt.Sprint("x", i), fmt.Sprint("x", i-1)))
		if i < 20 {
			longest += fmt.Sprint(" → x", i)
		}
	}
	for _, c := range []struct {
		name   string
		nodes  []definition.Node
		want   []string
		layers [][]string
	}{
		{"nothing", nil, []string{"ERROR: there are no steps"}, nil},
		{
			"no names",
			[]definition.Node{node(""), node("", "")},
			[]string{
				"ERROR: a step has no name", "ERROR: a step has no name",
				"ERROR: it follows itself",
			},
			[][]string{{""}, {""}},
		},
		{"three of a name", []definition.Node{node("a"), node("a"), node("a")}, []string{
			"ERROR: a: two steps have this name",
		}, [][]string{{"a", "a", "a"}}},
		{
			"itself",
			[]definition.Node{node("a"), node("b", "a", "b")},
			[]string{"ERROR: b: it follows itself"},
			[][]string{{"a"}},
		},
		{"not there", []definition.Node{node("a", "b", "c"), node("d", "a"), node("e")}, []string{
			`ERROR: a: it follows "b", which is not there`,
			`ERROR: a: it follows "c", which is not there`,
		}, [][]string{{"e"}}},
		{
			"two",
			[]definition.Node{node("a", "b"), node("b", "a")},
			[]string{"ERROR: a: a circle: a → b → a"},
			nil,
		},
		{"a circle in its direction", []definition.Node{
			node("start"), node("a", "c", "start"), node("b", "a"), node("c", "b"),
			node("end", "c"),
		},
			[]string{"ERROR: a: a circle: a → b → c → a"}, [][]string{{"start"}}},
		{"everything", []definition.Node{
			node("a", "b"), node("b", "a"), node(""), node("d", "d"), node("d"), node("e", "gone"),
			node("f", "g", "h"), node("g", "f"), node("h", "i"), node("i", "h"),
		}, []string{
			"ERROR: a step has no name", "ERROR: d: two steps have this name",
			"ERROR: d: it follows itself", `ERROR: e: it follows "gone", which is not there`,
			"ERROR: a: a circle: a → b → a", "ERROR: f: a circle: f → g → f",
			"ERROR: h: a circle: h → i → h",
		}, nil},
		{"a long circle", long, []string{longest + " → (80 more) → x0"}, nil},
		{"a name in lines", []definition.Node{node("a\nb\r", "a\nb\r")}, []string{
			`ERROR: a\nb\r: it follows itself`,
		}, nil},
	} {
		g := definition.Graph{Nodes: c.nodes}
		var got []string
		for _, i := range g.Check() {
			got = append(got, i.String())
			world.CodeIs(t, i.Err, journal.CodeTopology)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the issues are\n%q, want\n%q", c.name, got, c.want)
		}
		if layers := g.Layers(); c.layers != nil && !slices.EqualFunc(layers, c.layers,
			slices.Equal) {
			t.Errorf("%s: the layers are %q, want %q", c.name, layers, c.layers)
		}
	}
}

// Circles are added to graphs without circles. Each circle that Check names exists, no two have a
// node in common, and without their nodes no circle is left.
//
// spec: F-2
func TestEveryCircleIsFoundAndIsOne(t *testing.T) {
	rng := world.Seeded(t)
	found := 0
	for range 1000 {
		g := randomGraph(rng, 2+rng.IntN(20))
		for range 1 + rng.IntN(3) {
			addCircle(rng, g)
		}
		if rng.IntN(2) == 0 {
			n := &g.Nodes[rng.IntN(len(g.Nodes))]
			n.After = append(n.After, "gone", n.Name)
		}
		after := map[string][]string{}
		for _, n := range g.Nodes {
			after[n.Name] = slices.DeleteFunc(slices.Clone(n.After), func(s string) bool {
				return s == n.Name || s == "gone"
			})
		}
		n := 0
		for _, issue := range g.Check() {
			_, names, is := strings.Cut(issue.Message, "a circle: ")
			if !is {
				continue
			}
			n++
			circle := strings.Split(names, " → ")
			for i, name := range circle[1:] {
				if before := circle[i]; !slices.Contains(after[name], before) {
					t.Fatalf("%+v: %s: %s does not follow %s, or is in another circle too", g,
						names, name, before)
				}
			}
			if circle[0] != circle[len(circle)-1] || len(circle) < 3 || issue.Where != circle[0] {
				t.Fatalf("%+v: %v is no circle", g, issue)
			}
			for _, name := range circle[1:] {
				delete(after, name)
			}
		}
		if n == 0 || !acyclic(after) {
			t.Fatalf("%+v: after %d circles there is another one: %v", g, n, after)
		}
		found += n
	}
	if found < 1100 {
		t.Errorf("only %d circles in all: there are never two", found)
	}
}

// addCircle makes a few nodes follow each other.
func addCircle(rng *rand.Rand, g definition.Graph) {
	order := rng.Perm(len(g.Nodes))[:2+rng.IntN(min(len(g.Nodes)-1, 5))]
	for i, at := range order {
		n := &g.Nodes[at]
		n.After = append(n.After, g.Nodes[order[(i+1)%len(order)]].Name)
	}
}

// acyclic removes nodes that follow nothing until there is no such node. It reports whether no node
// is left.
func acyclic(after map[string][]string) bool {
	for {
		n := len(after)
		maps.DeleteFunc(after, func(_ string, before []string) bool {
			return !slices.ContainsFunc(before, func(b string) bool {
				_, left := after[b]
				return left
			})
		})
		if len(after) == n {
			return n == 0
		}
	}
}

// One graph of 16,000 nodes takes about as long as 16 graphs of 1,000 nodes, and not 16 times as
// long.
//
// spec: F-2
func TestLargeGraphsTakeNoMoreThanTheirSize(t *testing.T) {
	rng := world.Seeded(t)
	name := func(i int) string { return fmt.Sprint("n", i) }
	shapes := map[string]func(i, n int) []string{
		"a chain":    func(i, n int) []string { return []string{name(i - 1)} },
		"one layer":  func(i, n int) []string { return nil },
		"all of one": func(i, n int) []string { return []string{name(0)} },
		"random": func(i, n int) []string {
			return []string{name(rng.IntN(i)), name(rng.IntN(i)), name(rng.IntN(i))}
		},
		"one circle": func(i, n int) []string { return []string{name(i - 1)} },
		"circles":    func(i, n int) []string { return []string{name(i ^ 1), name(i - 1)} },
		"returning":  func(i, n int) []string { return []string{name(0), name((i + 1) % n)} },
	}
	for shape, after := range shapes {
		took := func(n, times int) time.Duration {
			g := definition.Graph{Nodes: make([]definition.Node, n)}
			for i := range g.Nodes {
				g.Nodes[i].Name = name(i)
				if i > 0 {
					g.Nodes[i].After = after(i, n)
				}
			}
			switch shape {
			case "one circle":
				g.Nodes[0].After = []string{name(n - 1)}
			case "returning":
				g.Nodes[0].After = []string{name(1)}
			}
			began := time.Now()
			for range times {
				issues, layers := g.Check(), g.Layers()
				g.DOT(shape)
				g.Mermaid()
				if whole := len(slices.Concat(layers...)) == n; whole != (len(issues) == 0) {
					t.Fatalf("%s of %d nodes: %d issues, %d layers", shape, n, len(issues),
						len(layers))
				}
			}
			return time.Since(began)
		}
		world.TryThrice(t, func() error {
			small, large := took(1_000, 16), took(16_000, 1)
			t.Logf("%s: %v for 16 times 1,000 nodes, %v for 16,000", shape, small, large)
			if large > 8*small {
				return fmt.Errorf("%s: as many nodes take %.0f times as long in one graph", shape,
					float64(large)/float64(small))
			}
			return nil
		})
	}
}

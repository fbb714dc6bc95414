package program

import (
	"slices"
	"strconv"
)

// A Flow is a declared flow: the shape of a graph, a saga or a TCC. Programs with the flow define
// how its steps go.
type Flow struct {
	Name    string
	Pattern string // graph, saga, tcc, sagas or tccs: a composition
	Steps   []Node
}

// A Node is a step of a flow, or a participant.
type Node struct {
	After []int // by index
	Undo  bool
	Way   string // special features
}

// A Deed defines how a step of a declared flow goes.
type Deed struct {
	Fails   int    `json:"fails,omitempty"` // number of failed attempts before it succeeds
	Odd     string `json:"odd,omitempty"`   // how these fail
	Bad     bool   `json:"bad,omitempty"`   // it fails for good
	UndoBad bool   `json:"undo_bad,omitempty"`
}

// Flows are the declared flows, which nodes know by name.
var Flows = []Flow{
	{
		"graph-chain",
		"graph",
		[]Node{{nil, true, ""}, {[]int{0}, true, "variable"}, {[]int{1}, false, ""}},
	},
	{
		"graph-diamond",
		"graph",
		[]Node{
			{nil, true, ""},
			{[]int{0}, true, "branch"},
			{[]int{0}, true, ""},
			{[]int{1, 2}, false, "timer"},
		},
	},
	{
		"graph-wide",
		"graph",
		[]Node{
			{nil, true, ""},
			{nil, true, "signal"},
			{nil, false, "when"},
			{[]int{0, 1}, true, "child"},
		},
	},
	{
		"graph-gated",
		"graph",
		[]Node{{nil, true, "with"}, {[]int{0}, true, "any"}, {[]int{0}, true, "all"}, {
			[]int{1, 2},
			false,
			"output",
		}},
	},
	{
		"graph-loose",
		"graph",
		[]Node{{nil, true, ""}, {nil, false, "async"}, {[]int{0}, false, "detached"}, {
			[]int{2},
			false,
			"failing",
		}, {[]int{3}, false, ""}},
	},
	{"graph-again", "graph", []Node{{nil, true, ""}, {[]int{0}, false, "output"}}},
	{
		"saga-chain",
		"saga",
		[]Node{{nil, true, "key"}, {[]int{0}, true, "variable"}, {[]int{1}, true, ""}},
	},
	{
		"saga-wide",
		"saga",
		[]Node{{nil, true, ""}, {nil, true, ""}, {[]int{0}, true, ""}, {[]int{1, 2}, false, ""}},
	},
	{
		"saga-robust",
		"saga",
		[]Node{{nil, true, "with"}, {[]int{0}, true, "output"}, {[]int{1}, true, ""}},
	},
	{"saga-fast", "saga", []Node{{nil, true, ""}, {[]int{0}, true, ""}, {[]int{1}, false, ""}}},
	{
		"saga-insistent",
		"saga",
		[]Node{{nil, true, ""}, {[]int{0}, true, ""}, {[]int{1}, false, ""}},
	},
	{"saga-park", "saga", []Node{{nil, true, ""}, {[]int{0}, true, ""}, {[]int{1}, false, ""}}},
	{
		"saga-each",
		"each",
		[]Node{{nil, true, "each"}, {[]int{0}, true, "outputs"}, {[]int{1}, false, "output"}},
	},
	{"tcc-two", "tcc", []Node{{nil, true, ""}, {nil, true, ""}}},
	{"tcc-three", "tcc", []Node{{nil, true, ""}, {nil, true, ""}, {nil, true, ""}}},
	{"tcc-with", "tcc", []Node{{nil, true, "with"}, {nil, true, "optional"}, {nil, true, ""}}},
	{"tcc-money", "tcc", []Node{{nil, true, "money"}, {nil, true, "money"}}},
	{"sagas", "sagas", []Node{{nil, true, ""}, {[]int{0}, true, ""}}},
	{
		"sagas-mapped",
		"sagas",
		[]Node{{nil, true, "shared"}, {[]int{0}, true, "mapped"}, {[]int{1}, true, "optional"}, {
			[]int{2},
			true,
			"when",
		}},
	},
	{"tccs", "tccs", []Node{{nil, true, ""}, {[]int{0}, true, ""}}},
	{
		"tccs-loose",
		"tccs",
		[]Node{{nil, true, ""}, {[]int{0}, true, "optional"}, {[]int{1}, true, ""}},
	},
}

// IsAgain reports whether the flow continues as new once.
func (f Flow) IsAgain() bool { return f.Name == "graph-again" }

// NeedsTx reports whether steps of the flow have transactions of their own.
func (f Flow) NeedsTx() bool {
	return slices.ContainsFunc(f.Steps, func(n Node) bool { return n.Way == "money" })
}

// GivesUp reports whether a failed compensation prevents others.
func (f Flow) GivesUp() bool { return f.Name == "saga-fast" || f.Name == "saga-insistent" }

// Parks reports whether an operator decides about a failed compensation.
func (f Flow) Parks() bool { return f.Name == "saga-park" }

// FlowOf returns the flow with that name.
func FlowOf(name string) (Flow, bool) {
	i := slices.IndexFunc(Flows, func(f Flow) bool { return f.Name == name })
	if i < 0 {
		return Flow{}, false
	}
	return Flows[i], true
}

// Layers returns the indexes of the steps, layer by layer.
func (f Flow) Layers() (out [][]int) {
	depth := make([]int, len(f.Steps))
	for i, n := range f.Steps {
		for _, a := range n.After {
			depth[i] = max(depth[i], depth[a]+1)
		}
		for len(out) <= depth[i] {
			out = append(out, nil)
		}
		out[depth[i]] = append(out[depth[i]], i)
	}
	return out
}

// deeds returns how each step of a flow goes. At most one fails for good.
func (m *maker) deeds(name string) []Deed {
	f, _ := FlowOf(name)
	out := make([]Deed, len(f.Steps))
	for i, n := range f.Steps {
		if m.IntN(3) == 0 && !slices.Contains(settled, n.Way) {
			out[i].Fails, out[i].Odd = 1+m.IntN(2), m.odd()
		}
		out[i].UndoBad = n.Undo && f.Pattern == "saga" && m.IntN(6) == 0
	}
	if m.IntN(2) == 0 {
		i := m.IntN(len(out))
		if way := f.Steps[i].Way; way != "when" && !slices.Contains(settled, way) {
			out[i] = Deed{Bad: true}
		}
	}
	return out
}

// settled are the ways of steps that do not fail.
var settled = []string{"child", "branch", "async", "detached", "failing", "each"}

// clones returns the labels of a step's effects of one name: a step over a list has one for each
// item.
func clones(n Node, what string) []string {
	if n.Way == "each" {
		return []string{what + "0", what + "1"}
	}
	return []string{what}
}

// flow foresees the result of a declared flow.
func (o *oracle) flow(p *Program) {
	f, _ := FlowOf(p.Flow)
	if o.flowRound(p, f) && f.IsAgain() {
		o.round++
		o.flowRound(p, f)
	}
}

// flowRound foresees one run of a flow. It reports whether the run succeeds.
func (o *oracle) flowRound(p *Program, f Flow) bool {
	do := func(i int, what string) {
		for _, w := range clones(f.Steps[i], what) {
			o.must(Label(o.instance, i, o.round, w))
		}
	}
	var done []int
	bad := false
	layers := f.Layers()
	if f.Pattern != "graph" && f.Pattern != "saga" {
		layers = nil // members and participants go one after the other
		for i := range f.Steps {
			layers = append(layers, []int{i})
		}
	}
	for _, layer := range layers {
		if bad {
			break
		}
		for _, i := range layer {
			way := f.Steps[i].Way
			switch way {
			case "signal":
				o.send(o.instance, "go", 1)
			case "all":
				o.send(o.instance, "all", 1)
			}
			switch {
			case p.Deeds[i].Bad:
				bad = bad || way != "optional"
				continue
			case way == "when":
				continue
			case way == "async": // it ends at the latest with the rest
				o.may(Label(o.instance, i, o.round, "do"))
				continue
			}
			do(i, "do")
			done = append(done, i)
		}
	}
	tcc := f.Pattern == "tcc" || f.Pattern == "tccs"
	o.Ends = []string{"COMPLETED"}
	switch {
	case bad && tcc:
		o.Ends = []string{"CANCELED"}
	case bad:
		o.Ends = []string{"FAILED"}
	case tcc:
		o.Ends = []string{"CONFIRMED"}
	}
	for _, i := range done {
		switch {
		case tcc && bad && f.Pattern == "tccs":
			do(i, "confirm")
			do(i, "cancel")
		case tcc && bad:
			do(i, "cancel")
		case tcc:
			do(i, "confirm")
		case bad && f.Steps[i].Undo && !p.Deeds[i].UndoBad:
			do(i, "undo")
		case (bad || o.maybe) && p.Deeds[i].UndoBad && f.Parks():
			name := "undo:step" + strconv.Itoa(i)
			o.Messages = append(o.Messages, Message{
				To: o.instance, Name: name, What: "decide", Choice: "skip", Key: o.instance + name,
			})
		}
	}
	if bad && f.GivesUp() {
		o.givenUp(p, done)
	}
	if !o.maybe {
		return !bad
	}
	for i := range f.Steps {
		for _, what := range []string{"do", "undo", "confirm", "cancel"} {
			for _, w := range clones(f.Steps[i], what) {
				o.may(Label(o.instance, i, o.round, w))
			}
		}
	}
	return !bad
}

// givenUp leaves those steps of a chain alone that would be undone after the first one whose
// compensation fails.
func (o *oracle) givenUp(p *Program, done []int) {
	fails := -1
	for _, i := range done {
		if p.Deeds[i].UndoBad {
			fails = i
		}
	}
	for i := range fails {
		label := Label(o.instance, i, o.round, "undo")
		delete(o.Effects, label)
		o.may(label)
	}
}

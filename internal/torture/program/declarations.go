package program

import (
	"slices"
	"strconv"
	"strings"
)

// A Declaration is the shape of a declared workflow: a graph, a saga, a TCC or a machine. A program
// that names it defines how its steps go.
type Declaration struct {
	Name    string
	Pattern string // graph, saga, tcc, machine, sagas or tccs: a composition
	Steps   []Node
}

// A Node is a step of a declaration, or a participant.
type Node struct {
	After []int // by index
	Undo  bool
	Way   string // special features
}

// A Deed defines how a step of a declaration goes.
type Deed struct {
	Fails   int    `json:"fails,omitempty"` // number of failed attempts before it succeeds
	Odd     string `json:"odd,omitempty"`   // how these fail
	Bad     bool   `json:"bad,omitempty"`   // it fails for good
	UndoBad bool   `json:"undo_bad,omitempty"`
	// its compensation fails for good until an operator has mended it
	UndoBroken bool `json:"undo_broken,omitempty"`
	// its confirm or cancel fails for good, and an operator decides so: see [Decisions]
	Confirm string `json:"confirm,omitempty"`
	Cancel  string `json:"cancel,omitempty"`
	// of the step of a machine
	Calls    []string `json:"calls,omitempty"`    // its actions before the last one: see [Calls]
	Last     string   `json:"last,omitempty"`     // see [Lasts]
	Next     []int    `json:"next,omitempty"`     // what may be next; -1 is the end
	Branches []int    `json:"branches,omitempty"` // the steps that branches begin with
}

// Decisions are those of an operator about a confirm or a cancel that has failed for good: to try
// again, after what is broken was mended; that it is done by hand; or that it stays failed.
var Decisions = []string{"retry", "handled", "skip"}

// Stuck returns the decision about a phase of a participant; empty if the phase succeeds.
func (d Deed) Stuck(phase string) string {
	return map[string]string{"confirm": d.Confirm, "cancel": d.Cancel}[phase]
}

// Declarations are the declared workflows that programs name.
var Declarations = []Declaration{
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
	{"tcc-park", "tcc", []Node{{nil, true, "with"}, {nil, true, ""}, {nil, true, ""}}},
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
	{"tccs-park", "tccs", []Node{{nil, true, ""}, {[]int{0}, true, ""}, {[]int{1}, true, ""}}},
	{
		"machine",
		"machine",
		[]Node{
			{nil, true, ""},
			{nil, true, "caught"},
			{nil, true, "do"},
			{nil, true, "route"},
			{nil, true, ""},
			{nil, true, ""},
		},
	},
	{
		"machine-catching",
		"machine",
		[]Node{
			{nil, true, ""},
			{nil, true, "route"},
			{nil, true, "meant"},
			{nil, false, ""},
			{nil, true, ""},
		},
	},
	{
		"tccs-loose",
		"tccs",
		[]Node{{nil, true, ""}, {[]int{0}, true, "optional"}, {[]int{1}, true, ""}},
	},
}

// IsAgain reports whether the declaration continues as new once.
func (d Declaration) IsAgain() bool { return d.Name == "graph-again" }

// NeedsTx reports whether steps of the declaration have transactions of their own.
func (d Declaration) NeedsTx() bool {
	return slices.ContainsFunc(d.Steps, func(n Node) bool { return n.Way == "money" })
}

// GivesUp reports whether a failed compensation prevents others.
func (d Declaration) GivesUp() bool { return d.Name == "saga-fast" || d.Name == "saga-insistent" }

// IsLimited reports whether few runs of the declaration are open at a time.
func (d Declaration) IsLimited() bool {
	switch d.Name {
	case "graph-again", "graph-chain", "saga-chain", "saga-park", "saga-each", "tcc-two":
		return true
	}
	return false
}

// Parks reports whether an operator decides about a failed compensation, confirm or cancel.
func (d Declaration) Parks() bool { return strings.HasSuffix(d.Name, "-park") }

// DeclarationOf returns the declaration with that name.
func DeclarationOf(name string) (Declaration, bool) {
	i := slices.IndexFunc(Declarations, func(d Declaration) bool { return d.Name == name })
	if i < 0 {
		return Declaration{}, false
	}
	return Declarations[i], true
}

// Layers returns the indexes of the steps, layer by layer.
func (d Declaration) Layers() (out [][]int) {
	depth := make([]int, len(d.Steps))
	for i, n := range d.Steps {
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

// deeds returns how each step of a declaration goes. At most one fails for good.
func (m *maker) deeds(name string) []Deed {
	d, _ := DeclarationOf(name)
	out := make([]Deed, len(d.Steps))
	for i, n := range d.Steps {
		if m.IntN(3) == 0 && !slices.Contains(settled, n.Way) {
			out[i].Fails, out[i].Odd = 1+m.IntN(2), m.odd()
		}
		out[i].UndoBad = n.Undo && d.Pattern == "saga" && m.IntN(6) == 0
	}
	if m.IntN(2) == 0 {
		i := m.IntN(len(out))
		if way := d.Steps[i].Way; way != "when" && !slices.Contains(settled, way) {
			out[i] = Deed{Bad: true}
		}
	}
	for i := range out {
		if d.Parks() && d.isTCC() {
			out[i].Confirm, out[i].Cancel = m.decision(), m.decision()
		}
	}
	return out
}

// decision returns one of the decisions of an operator, or often none.
func (m *maker) decision() string {
	if m.IntN(2) == 0 {
		return ""
	}
	return Decisions[m.IntN(len(Decisions))]
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

// declared foresees the result of a declaration.
func (o *oracle) declared(p *Program) {
	d, _ := DeclarationOf(p.Workflow)
	done := o.declaredRound(p, d)
	if !p.isBad() && d.IsAgain() {
		o.round++
		done = o.declaredRound(p, d)
	}
	o.then(p, d, done)
}

// declaredRound foresees one run of a declaration. It returns the steps that are done.
func (o *oracle) declaredRound(p *Program, d Declaration) (done []int) {
	if d.isTCC() {
		return o.tcc(p, d)
	}
	do := func(i int, what string) {
		for _, w := range clones(d.Steps[i], what) {
			o.must(Label(o.instance, i, o.round, w))
		}
	}
	bad := false
	layers := d.Layers()
	if d.Pattern != "graph" && d.Pattern != "saga" {
		layers = nil // members and participants go one after the other
		for i := range d.Steps {
			layers = append(layers, []int{i})
		}
	}
	for _, layer := range layers {
		if bad {
			break
		}
		for _, i := range layer {
			way := d.Steps[i].Way
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
	o.Ends = []string{"COMPLETED"}
	if bad {
		o.Ends = []string{"FAILED"}
	}
	for _, i := range done {
		switch {
		case bad && d.Steps[i].Undo && !p.Deeds[i].UndoBad:
			do(i, "undo")
		case (bad || o.maybe) && p.Deeds[i].UndoBad && d.Parks():
			name := "undo:step" + strconv.Itoa(i)
			o.Messages = append(o.Messages, Message{
				To: o.instance, Name: name, What: "decide", Choice: "skip", Key: o.instance + name,
			})
		}
	}
	if bad && d.GivesUp() {
		o.givenUp(p, done)
	}
	if o.maybe {
		o.mayAll(d)
	}
	return done
}

// mayAll allows every effect of a declaration.
func (o *oracle) mayAll(d Declaration) {
	for i := range d.Steps {
		for _, what := range []string{"do", "undo", "confirm", "cancel"} {
			for _, w := range clones(d.Steps[i], what) {
				o.may(Label(o.instance, i, o.round, w))
			}
		}
	}
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

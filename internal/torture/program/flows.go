package program

import "slices"

// A Flow is a declared flow: the shape of a graph, a saga or a TCC. Programs of it say
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
	Way   string // what else it is
}

// A Deed says how a step of a declared flow goes.
type Deed struct {
	Fails   int    `json:"fails,omitempty"` // attempts, before it succeeds
	Odd     string `json:"odd,omitempty"`   // how these fail
	Bad     bool   `json:"bad,omitempty"`   // it fails for good
	UndoBad bool   `json:"undo_bad,omitempty"`
}

// Flows are the declared flows, which nodes know by name.
var Flows = []Flow{
	{"graph-chain", "graph", []Node{{nil, true, ""}, {[]int{0}, true, "variable"}, {[]int{1}, false, ""}}},
	{"graph-diamond", "graph", []Node{{nil, true, ""}, {[]int{0}, true, "branch"}, {[]int{0}, true, ""}, {[]int{1, 2}, false, "timer"}}},
	{"graph-wide", "graph", []Node{{nil, true, ""}, {nil, true, "signal"}, {nil, false, "when"}, {[]int{0, 1}, true, "child"}}},
	{"saga-chain", "saga", []Node{{nil, true, "key"}, {[]int{0}, true, "variable"}, {[]int{1}, true, ""}}},
	{"saga-wide", "saga", []Node{{nil, true, ""}, {nil, true, ""}, {[]int{0}, true, ""}, {[]int{1, 2}, false, ""}}},
	{"tcc-two", "tcc", []Node{{nil, true, ""}, {nil, true, ""}}},
	{"tcc-three", "tcc", []Node{{nil, true, ""}, {nil, true, ""}, {nil, true, ""}}},
	{"sagas", "sagas", []Node{{nil, true, ""}, {[]int{0}, true, ""}}},
	{"tccs", "tccs", []Node{{nil, true, ""}, {[]int{0}, true, ""}}},
}

// FlowOf returns the flow of a name.
func FlowOf(name string) (Flow, bool) {
	i := slices.IndexFunc(Flows, func(f Flow) bool { return f.Name == name })
	if i < 0 {
		return Flow{}, false
	}
	return Flows[i], true
}

// Layers are the indexes of the steps, layer by layer.
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

// deeds says how each step of a flow goes. At most one fails for good.
func (m *maker) deeds(name string) []Deed {
	f, _ := FlowOf(name)
	out := make([]Deed, len(f.Steps))
	for i, n := range f.Steps {
		if m.IntN(3) == 0 && n.Way != "branch" && n.Way != "child" {
			out[i].Fails, out[i].Odd = 1+m.IntN(2), m.odd()
		}
		out[i].UndoBad = n.Undo && f.Pattern == "saga" && m.IntN(6) == 0
	}
	if m.IntN(2) == 0 {
		i := m.IntN(len(out))
		if way := f.Steps[i].Way; way != "child" && way != "when" && way != "branch" {
			out[i] = Deed{Bad: true}
		}
	}
	return out
}

// flow is what the oracle says of a declared flow.
func (o *oracle) flow(p *Program) {
	f, _ := FlowOf(p.Flow)
	do := func(i int, what string) { o.must(Label(o.instance, i, 0, what)) }
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
			if way == "signal" {
				o.send(o.instance, "go", 1)
			}
			switch {
			case p.Deeds[i].Bad:
				bad = true
				continue
			case way == "when":
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
		}
	}
	if !o.maybe {
		return
	}
	for i := range f.Steps {
		for _, what := range []string{"do", "undo", "confirm", "cancel"} {
			o.may(Label(o.instance, i, 0, what))
		}
	}
}

package program

import (
	"math/rand/v2"
	"slices"
)

// Limits restrict generated programs.
type Limits struct {
	Tx       bool   // the store takes part in transactions of the user
	Workflow string // only programs with this workflow; empty for all
	// reports which ways and odd errors are left out; nil for none
	Avoid func(k Kind, what string) bool
}

// weights are the frequencies of the kinds.
var weights = []struct {
	kind Kind
	n    int
	deep bool // has bodies
}{
	{Step, 14, false}, {Loop, 4, false}, {Async, 5, false}, {Tx, 8, false}, {Branches, 12, true},
	{Shared, 8, false},
	{Blocked, 1, false}, {Nap, 5, false}, {Wait, 8, false}, {Gather, 3, false}, {Child, 6, true},
	{Park, 2, false},
	{Read, 4, false}, {State, 6, false}, {Scope, 3, true}, {Part, 8, false}, {Walk, 2, false},
	{Code, 2, false}, {Held, 8, false}, {Broken, 4, true}, {Callback, 4, false},
	{Update, 3, false}, {Approval, 3, false},
}

// A maker makes one program.
type maker struct {
	*rand.Rand
	limits Limits
	next   int
	broken bool // it has something that an operator mends
	// it has sagas or TCCs, which the failure of what surrounds them undoes, or callbacks that are
	// failed, which a retry waits for once more
	parted  bool
	blocked bool // its code blocks outside the engine
	// a timer of it is cancelled from outside: not beside code that blocks, in whose replay that is
	// lost
	outside bool
	within  int // what is made is in something that may not fail
}

// Generate returns the program of a seed.
func Generate(seed uint64, l Limits) *Program {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 7)), limits: l}
	p := &Program{Seed: seed, Workflow: "code", End: "returns"}
	if name := m.workflow(); name != "code" {
		p.Workflow = name
		if d, _ := DeclarationOf(name); d.IsMachine() {
			m.machine(p, d)
		} else {
			p.Deeds = m.deeds(name)
		}
		p.Start, p.Acts = m.start(Starts[:4]), m.acts()
		p.Then = m.then(p)
		return p
	}
	p.Start = m.start(Starts)
	p.Body = m.block(1, 2+m.IntN(5))
	if m.IntN(4) == 0 {
		p.Body = append(p.Body, m.rush())
	}
	if m.broken {
		return p // it is retried: other programs have the acts of operators beside that
	}
	switch m.IntN(8) {
	case 0:
		p.Rounds = 1 + m.IntN(2)
	case 1, 2:
		p.End = Ends[m.IntN(len(Ends))]
	}
	p.Clean = []string{"", "", "finally", "odd", "cancel"}[m.IntN(5)]
	p.Acts = m.acts()
	return p
}

func (m *maker) workflow() string {
	if m.limits.Workflow != "" {
		return m.limits.Workflow
	}
	if m.IntN(3) > 0 {
		return "code"
	}
	f := Declarations[m.IntN(len(Declarations))]
	if f.NeedsTx() && !m.limits.Tx {
		return "code"
	}
	return f.Name
}

// start returns one of the ways to start a program that the store can do.
func (m *maker) start(ways []string) string {
	way := ways[m.IntN(len(ways))]
	if (&Program{Start: way}).StartsInTx() && !m.limits.Tx {
		return ""
	}
	return way
}

func (m *maker) acts() (out []string) {
	for range m.IntN(3) {
		out = append(out, Acts[m.IntN(len(Acts))])
	}
	return out
}

// block makes n operations, and those in them; depth counts from 1.
func (m *maker) block(depth, n int) (out Block) {
	for range n {
		out = append(out, m.op(depth))
	}
	return out
}

func (m *maker) op(depth int) *Op {
	m.next++
	o := &Op{ID: m.next, N: 1 + m.IntN(3)}
	for o.Way == "" {
		o.Kind = m.kind(depth)
		o.Way = m.way(o.Kind)
	}
	if o.Kind == Shared {
		o.N++
	}
	if o.Kind == Code && depth > 1 {
		o.Way = "panics" // an error of a branch is that of its future
	}
	if o.Kind == Broken && depth > 1 && o.Way != "child" {
		o.Way = "plain" // the run fails by the operation around it
	}
	if o.Kind == Step && o.Way == "odd" {
		o.Odd = m.odd()
	}
	bodies := map[Kind]int{Branches: 2 + m.IntN(2), Child: 1, Scope: 1}[o.Kind]
	m.parted = m.parted || o.Kind == Part || o.Kind == Callback && o.Way == "fail" ||
		o.Kind == Step && o.Way == "undo"
	m.blocked = m.blocked || o.Kind == Blocked
	m.outside = m.outside || o.Kind == Nap && o.Way == "outside"
	if o.Kind == Broken {
		m.broken = true
		bodies = map[string]int{"child": 1}[o.Way]
	}
	safe := o.Kind == Child && o.Way != "await" || o.Kind == Branches && o.Way == "cancel" ||
		o.Kind == Broken
	if safe {
		m.within++
	}
	for range bodies {
		o.Bodies = append(o.Bodies, m.block(depth+1, 1+m.IntN(3)))
	}
	if safe {
		m.within--
	}
	return o
}

// rush makes children that do steps at one time, so that groups are large and runs learn of one
// while the next one is committed; and beside these, steps in transactions, which begin between the
// two.
func (m *maker) rush() *Op {
	one := func(kind Kind, way string, n int, bodies ...Block) *Op {
		m.next++
		return &Op{ID: m.next, Kind: kind, Way: way, N: n, Bodies: bodies}
	}
	var children []Block
	for i := range 24 {
		bodies := []Block{{one(Loop, "keyed", 8)}, {one(Loop, "counted", 8)}}
		if m.limits.Tx && i%4 == 0 {
			var b Block
			for range 4 {
				b = append(b, one(Tx, "locks", 1), one(Loop, "counted", 2))
			}
			bodies = append(bodies, b)
		}
		children = append(children, Block{
			one(Child, "await", 1, Block{one(Branches, "await", 1, bodies...)}),
		})
	}
	return one(Branches, "await", 1, children...)
}

func (m *maker) kind(depth int) Kind {
	sum := 0
	for _, w := range weights {
		sum += w.n
	}
	for {
		k := m.IntN(sum)
		for _, w := range weights {
			if k -= w.n; k >= 0 {
				continue
			}
			if w.deep && depth >= 3 || w.kind == Tx && !m.limits.Tx ||
				w.kind == Broken && (m.broken || m.parted || m.within > 0) ||
				w.kind == Part && m.broken || w.kind == Blocked && m.outside {
				break
			}
			return w.kind
		}
	}
}

// way returns one of the ways that are allowed; empty for none.
func (m *maker) way(k Kind) string {
	ways := slices.DeleteFunc(slices.Clone(Ways[k]), func(w string) bool {
		return m.limits.Avoid != nil && m.limits.Avoid(k, w) || w == "outside" && m.blocked ||
			k == Callback && w == "fail" && m.broken || k == Step && w == "undo" && m.broken
	})
	if len(ways) == 0 {
		return ""
	}
	return ways[m.IntN(len(ways))]
}

func (m *maker) odd() string {
	odds := slices.DeleteFunc(slices.Clone(Odds), func(o string) bool {
		return m.limits.Avoid != nil && m.limits.Avoid(Step, o)
	})
	return odds[m.IntN(len(odds))]
}

package program

import "slices"

// Variants returns programs that must have the same result as this one, by the change that was
// made: a sleep between its operations, and its plain steps each as a child.
func (p *Program) Variants() map[string]*Program {
	next := 0
	p.Body.All(func(o *Op) { next = max(next, o.ID) })
	extra := func(k Kind, way string, bodies ...Block) *Op {
		next++
		return &Op{ID: next, Kind: k, Way: way, N: 1, Bodies: bodies}
	}
	slept, grown := *p, *p
	slept.Body, grown.Body = nil, nil
	for _, o := range p.Body {
		slept.Body = append(slept.Body, extra(Nap, "sleep"), o)
		if o.Kind == Step && slices.Contains(alone, o.Way) {
			o = extra(Child, "await", Block{o})
		}
		grown.Body = append(grown.Body, o)
	}
	return map[string]*Program{"sleep": &slept, "child": &grown}
}

// alone are the ways of steps that can be those of a child.
var alone = []string{"plain", "odd", "big", "late", "announced", "around"}

// Calm reports whether the program has one possible result only: nothing of it is cut off at any
// time.
func (p *Program) Calm() bool {
	cut := p.IsCut() || p.Workflow != "code"
	// An operator who resumes a parked run may mend what is broken before the run comes to it.
	cut = cut || p.Has(Step, "parking") && p.Has(Broken, "")
	cut = cut || p.Has(Held, "within")
	for _, k := range []Kind{Async, Branches, Child} {
		cut = cut || p.Has(k, "cancel") || p.Has(k, "ends")
	}
	return !cut
}

package dag

import (
	"reflect"
	"slices"

	"github.com/perdure/perdure"
)

// A plan is a definition that is complete: it is never changed.
type plan struct {
	*definition
	byID   map[string]*step
	layers [][]string
	graph  perdure.Graph
	issues []perdure.Issue
}

// plan completes the definition.
func (d *definition) plan() *plan {
	p := &plan{definition: d, byID: map[string]*step{}}
	for _, s := range d.steps {
		p.graph.Nodes = append(p.graph.Nodes, perdure.Node{Name: s.id, After: s.after, Order: s.order})
		p.byID[s.id] = s
	}
	p.issues = append(p.graph.Check(), d.issues...)
	for _, s := range d.steps {
		p.issues = append(p.issues, p.check(s)...)
		slices.SortStableFunc(s.gates, func(a, b gate) int { return a.kind() - b.kind() })
	}
	switch d.mode {
	case Sync, Async, Both:
	default:
		p.complain("mode", "there is no mode %q", string(d.mode))
	}
	p.issues = append(p.issues, d.calls.Check(func(id string) bool { return p.byID[id] != nil })...)
	p.layers = p.graph.Layers()
	return p
}

func (p *plan) complain(where, format string, args ...any) {
	d := definition{}
	d.complain(where, format, args...)
	p.issues = append(p.issues, d.issues...)
}

// check says what is wrong with a step.
func (p *plan) check(s *step) []perdure.Issue {
	issues := append([]perdure.Issue(nil), s.issues...)
	if !perdure.ValidName(s.id) {
		issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: s.id, Message: "this cannot be an ID: 1 to 255 of A-Z a-z 0-9 . _ : -"})
	}
	issues = append(issues, s.checkGates()...)
	if s.condition != nil {
		if err := s.condition.Check(); err != nil {
			issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: s.id + ".when", Message: err.Error(), Err: err})
		}
	}
	types := perdure.GivenTypes{Input: p.input, Result: func(id string) (reflect.Type, bool) {
		other := p.byID[id]
		if other == nil {
			return nil, false
		}
		return other.result, true
	}}
	for what, check := range map[string]func(perdure.GivenTypes) []perdure.Issue{"": s.check, "undo.": s.undoCheck} {
		if check == nil {
			continue
		}
		for _, i := range check(types) {
			i.Where = s.id + "." + what + i.Where
			issues = append(issues, i)
		}
	}
	return issues
}

// declare is what the definition says of itself when it is registered.
func (d *definition) declare() (perdure.About, []perdure.Issue) {
	p := d.compile()
	return perdure.About{Graph: &p.graph}, p.issues
}

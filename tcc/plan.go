package tcc

import (
	"reflect"
	"slices"

	"github.com/perdure/perdure"
)

// A plan is a definition that is complete: it is never changed.
type plan struct {
	*definition
	inOrder []*participant
	graph   perdure.Graph
	issues  []perdure.Issue
}

// plan completes the definition.
func (d *definition) plan() *plan {
	p := &plan{definition: d, inOrder: slices.Clone(d.participants)}
	slices.SortStableFunc(p.inOrder, func(a, b *participant) int { return a.order - b.order })
	byID := map[string]*participant{}
	for i, one := range p.inOrder {
		n := perdure.Node{Name: one.id, Order: one.order}
		if i > 0 && p.inOrder[i-1].id != one.id {
			n.After = []string{p.inOrder[i-1].id}
		}
		p.graph.Nodes = append(p.graph.Nodes, n)
		byID[one.id] = one
	}
	p.issues = append(p.graph.Check(), d.issues...)
	types := perdure.GivenTypes{Input: d.input, Tried: func(id string) (reflect.Type, bool) {
		if byID[id] == nil {
			return nil, false
		}
		return byID[id].result, true
	}}
	for _, one := range p.inOrder {
		p.issues = append(p.issues, one.issues(types)...)
	}
	p.issues = append(p.issues, d.calls.Check(func(id string) bool { return byID[id] != nil })...)
	return p
}

// issues says what is wrong with a participant.
func (p *participant) issues(types perdure.GivenTypes) []perdure.Issue {
	var issues []perdure.Issue
	if !perdure.ValidName(p.id) {
		issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: p.id, Message: "this cannot be an ID: 1 to 255 of A-Z a-z 0-9 . _ : -"})
	}
	for _, phase := range []perdure.Phase{perdure.PhaseTry, perdure.PhaseConfirm, perdure.PhaseCancel} {
		if p.call[phase] == nil {
			issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: p.id + "." + string(phase), Message: "the phase has no function"})
			continue
		}
		if check := p.check[phase]; check != nil {
			for _, i := range check(types) {
				i.Where = p.id + "." + string(phase) + "." + i.Where
				issues = append(issues, i)
			}
		}
	}
	return issues
}

// declare is what the definition says of itself when it is registered.
func (d *definition) declare() (perdure.About, []perdure.Issue) {
	p := d.compile()
	return perdure.About{Graph: &p.graph}, p.issues
}

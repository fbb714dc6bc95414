package tcc

import (
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
)

// A plan is a complete definition. It never changes.
type plan struct {
	*declaration
	inOrder []*participant
	graph   definition.Graph
	issues  []definition.Issue // except those of the graph
}

// phases has the phases of a participant, in order.
var phases = []perdure.Phase{perdure.PhaseTry, perdure.PhaseConfirm, perdure.PhaseCancel}

// plan completes the definition.
func (d *declaration) plan() *plan {
	whole := *d
	p := &plan{declaration: &whole}
	whole.calls = slices.Clone(d.calls)
	for _, one := range d.participants {
		p.inOrder = append(p.inOrder, one.frozen(&whole))
	}
	slices.SortStableFunc(p.inOrder, func(a, b *participant) int { return a.order - b.order })
	byID := map[string]*participant{}
	for i, one := range p.inOrder {
		n := definition.Node{Name: one.id, Order: one.order}
		if i > 0 && byID[one.id] == nil {
			n.After = []string{p.inOrder[i-1].id}
		}
		p.graph.Nodes = append(p.graph.Nodes, n)
		byID[one.id] = one
	}
	p.issues = slices.Clone(d.issues)
	for i, one := range p.inOrder {
		p.issues = append(p.issues, p.check(i, one)...)
	}
	p.issues = append(p.issues, d.calls.Check(func(id string) bool { return byID[id] != nil })...)
	return p
}

// types returns the types that arguments of a phase are made of. In the try phase, these include
// only the results of earlier tries.
func (p *plan) types(phase perdure.Phase, i int) pattern.SourceTypes {
	before := p.inOrder
	if phase == perdure.PhaseTry {
		before = before[:i]
	}
	return pattern.SourceTypes{Input: p.input, Tried: func(id string) (reflect.Type, bool) {
		at := slices.IndexFunc(before, func(o *participant) bool { return o.id == id })
		if at < 0 {
			return nil, false
		}
		return before[at].result, true
	}}
}

// check returns the issues of the i-th participant.
func (p *plan) check(i int, one *participant) []definition.Issue {
	var issues []definition.Issue
	checkName := func(where, what, name, prefix string) {
		if err := pattern.CheckName(what, name, prefix); err != nil {
			issues = append(issues, definition.Issue{
				Severity: definition.SeverityError, Where: where, Message: err.Error(),
			})
		}
	}
	checkName(one.id, "ID", one.id, perdure.PhaseConfirm.Of(""))
	if e := one.event; e != nil && e.Type != "" {
		checkName(one.id+".event", "event type", e.Type, "")
	}
	for _, phase := range phases {
		where := one.id + "." + strings.ToLower(string(phase))
		if one.call[phase] == nil {
			issues = append(issues, definition.Issue{
				Severity: definition.SeverityError, Where: where,
				Message: "the phase has no function",
			})
			continue
		}
		if check := one.check[phase]; check != nil {
			for _, issue := range check(p.types(phase, i)) {
				issue.Where = within(where, issue.Where)
				issues = append(issues, issue)
			}
		}
	}
	return issues
}

// within returns the place of a part in a definition.
func within(where, part string) string { return strings.TrimSuffix(where+"."+part, ".") }

// all returns all issues of the definition.
func (p *plan) all() []definition.Issue { return slices.Concat(p.graph.Check(), p.issues) }

// declare returns the outline and the issues of the definition when it is registered.
func (d *declaration) declare() (definition.Outline, []definition.Issue) {
	p := d.compile()
	return definition.Outline{Graph: &p.graph}, p.issues
}

// callbacks returns the callbacks of the definition.
func (d *declaration) callbacks() pattern.Callbacks { return d.compile().calls }

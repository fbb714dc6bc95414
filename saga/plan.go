package saga

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/perdure/perdure"
)

// A plan is a definition that is complete: it is never changed.
type plan struct {
	*definition
	byID   map[string]*step
	layers [][]string
	graph  perdure.Graph
	issues []perdure.Issue
	undoes bool // some step has a compensation
}

// plan completes the definition.
func (d *definition) plan() *plan {
	p := &plan{definition: d, byID: map[string]*step{}}
	for _, t := range d.steps {
		p.graph.Nodes = append(p.graph.Nodes, perdure.Node{Name: t.id, After: t.after, Order: t.order})
		p.byID[t.id] = t
		p.undoes = p.undoes || t.undo != nil
	}
	p.issues = p.graph.Check()
	for _, t := range d.steps {
		p.issues = append(p.issues, p.check(t)...)
	}
	if message := d.policy.issue(); message != "" {
		p.issues = append(p.issues, perdure.Issue{Severity: perdure.IssueError, Where: "policy", Message: message})
	}
	if d.handler == nil {
		p.issues = append(p.issues, perdure.Issue{Severity: perdure.IssueError, Where: "handler", Message: "a nil handler"})
	}
	p.issues = append(p.issues, d.calls.Check(func(id string) bool { return p.byID[id] != nil })...)
	p.layers = p.graph.Layers()
	return p
}

// check says what is wrong with a step.
func (p *plan) check(t *step) []perdure.Issue {
	issues := append([]perdure.Issue(nil), t.issues...)
	if !perdure.ValidName(t.id) {
		issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: t.id, Message: "this cannot be an ID: 1 to 255 of A-Z a-z 0-9 . _ : -"})
	}
	for _, i := range t.check(p.types(t, nil)) {
		i.Where = t.id + "." + i.Where
		issues = append(issues, i)
	}
	if t.undoCheck != nil {
		for _, i := range t.undoCheck(p.types(t, t.result)) {
			i.Where = t.id + ".undo." + i.Where
			issues = append(issues, i)
		}
	}
	if t.undo == nil && (t.critical || t.undoRetry != nil || t.undoTimeout > 0) {
		issues = append(issues, perdure.Issue{Severity: perdure.IssueWarning, Where: t.id + ".undo", Message: "it says how to compensate, and has no compensation"})
	}
	return issues
}

// types is what is known of what arguments of a step are made of; own is the result of
// the step, for its compensation.
func (p *plan) types(t *step, own reflect.Type) perdure.GivenTypes {
	in := p.input
	switch {
	case t.each != nil, p.input == reflect.TypeFor[Inputs]():
		in = nil
	}
	return perdure.GivenTypes{
		Input: in,
		Result: func(id string) (reflect.Type, bool) {
			if id == ownResult && own != nil {
				return own, true
			}
			other := p.byID[id]
			if other == nil {
				return nil, false
			}
			return other.result, true
		},
		Undone: func(id string) (reflect.Type, bool) {
			other := p.byID[id]
			if other == nil || other.undo == nil {
				return nil, false
			}
			return other.undoResult, true
		},
	}
}

// declare is what the definition says of itself when it is registered.
func (d *definition) declare() (perdure.About, []perdure.Issue) {
	p := d.compile()
	return perdure.About{Graph: &p.graph}, p.issues
}

// inputOf gives the input of a step.
func (p *plan) inputOf(t *step, input json.RawMessage) json.RawMessage {
	if p.input != reflect.TypeFor[Inputs]() {
		return input
	}
	in, err := perdure.Decode[Inputs](input)
	if err != nil {
		return nil
	}
	return in[t.id]
}

// run is the workflow: a whole run of the saga.
func (p *plan) run(ctx context.Context, input json.RawMessage) error {
	x := p.begin(ctx, input)
	if err := perdure.OnCancel(ctx, "compensate", x.undoAll); err != nil {
		return err
	}
	if err := x.forward(ctx); err != nil {
		return err
	}
	if len(x.failed) == 0 {
		return x.calls.Wait(ctx)
	}
	err := x.backward(ctx)
	if over := perdure.Over(ctx); over != nil {
		return over
	}
	suppressed, e := x.calls.Failed(ctx, err, x.failedSteps()...)
	if e == nil {
		e = x.calls.Wait(ctx)
	}
	switch {
	case e != nil:
		return e
	case suppressed:
		return nil
	}
	return perdure.Fail(ctx, err)
}

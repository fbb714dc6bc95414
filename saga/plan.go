package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
)

// A plan is a complete definition: a copy that never changes.
type plan struct {
	*declaration
	byID   map[string]*step
	layers [][]string
	graph  definition.Graph
	issues []definition.Issue // except those of the graph
}

// plan completes the definition.
func (d *declaration) plan() *plan {
	own := *d
	own.steps, own.calls = nil, slices.Clone(d.calls)
	p := &plan{declaration: &own, byID: map[string]*step{}, issues: slices.Clone(d.issues)}
	for _, t := range d.steps {
		t = t.copy()
		own.steps = append(own.steps, t)
		p.graph.Nodes = append(p.graph.Nodes, definition.Node{
			Name: t.id, After: t.afterIDs(), Order: t.order, Undo: t.undo != nil,
		})
		p.byID[t.id] = t
	}
	for _, t := range own.steps {
		p.check(t)
	}
	if own.policy != "" && !own.policy.valid() {
		p.complain("policy", "there is no policy %q", string(own.policy))
	}
	if own.output != nil && own.output.of != d {
		p.complain("output", "step %s is one of saga %s", own.output.id, own.output.of.name)
	}
	if own.handles && own.handler == nil {
		p.complain("handler", "a nil handler")
	}
	p.issues = append(p.issues, backpressure.Check("backpressure", own.backpressure)...)
	p.issues = append(p.issues, own.calls.Check(func(id string) bool {
		return p.byID[id] != nil
	})...)
	p.layers = p.graph.Layers()
	return p
}

func (p *plan) complain(where, format string, args ...any) {
	p.issues = append(p.issues, definition.Issue{
		Severity: definition.SeverityError, Where: where, Message: fmt.Sprintf(format, args...),
	})
}

// hasInputs reports whether each step has an input of its own.
func (d *declaration) hasInputs() bool { return d.input == reflect.TypeFor[Inputs]() }

// unknownInputs returns an error if there are inputs of steps that the saga does not have.
func (p *plan) unknownInputs(input json.RawMessage) error {
	in, err := pattern.Decode[Inputs](input)
	if err != nil {
		return nil // the run fails with it
	}
	var unknown []string
	for _, id := range slices.Sorted(maps.Keys(in)) {
		if p.byID[id] == nil {
			unknown = append(unknown, strconv.Quote(id))
		}
	}
	if unknown == nil {
		return nil
	}
	return &perdure.Error{
		Code: perdure.CodeInvalid, Op: "start " + p.name,
		Message: "the inputs name steps that the saga does not have: " +
			strings.Join(unknown, ", "),
		Hint: "its steps are " + strings.Join(slices.Sorted(maps.Keys(p.byID)), ", "),
	}
}

// check adds an issue for everything that is wrong with a step.
func (p *plan) check(t *step) {
	p.issues = append(p.issues, t.issues...)
	p.checkNames(t)
	for _, before := range t.after {
		if before.of != p.key {
			p.complain(t.id+".after", "step %s is one of saga %s", before.id, before.of.name)
		}
	}
	for _, i := range t.check(p.types(t, nil)) {
		i.Where = where(t.id, i.Where)
		p.issues = append(p.issues, i)
	}
	if t.undoCheck != nil {
		for _, i := range t.undoCheck(p.types(t, t.one)) {
			i.Where = where(t.id, "undo", i.Where)
			p.issues = append(p.issues, i)
		}
	}
	if t.undo == nil && (t.critical || t.undoRetry != nil || t.undoTimeout > 0) {
		p.issues = append(p.issues, definition.Issue{
			Severity: definition.SeverityWarning, Where: t.id + ".undo",
			Message: "it says how to compensate, and has no compensation",
		})
	}
}

// reserved has the prefixes that IDs of steps cannot have, and ownNames has other IDs that they
// cannot have. Sagas use these names for their own records.
var (
	reserved = []string{undone(""), "perdure:"}
	ownNames = []string{"compensate", "compensation", "composition"}
)

// checkNames adds an issue for each wrong name of a step.
func (p *plan) checkNames(t *step) {
	p.checkName(t.id, "ID", t.id, undone(""))
	for _, begin := range reserved {
		if strings.HasPrefix(t.id, begin) {
			p.complain(t.id, "an ID cannot begin with %q", begin)
		}
	}
	if slices.Contains(ownNames, t.id) {
		p.complain(t.id, "ID %q is reserved for records of sagas: choose another", t.id)
	}
	if strings.HasSuffix(t.key, "]") {
		p.complain(t.id+".key", "a key must not end with ]: those of clones do")
	}
	if t.variable != "" {
		p.checkName(t.id+".variable", "variable", t.variable, "")
	}
	if e := t.event; e != nil && e.Type != "" {
		p.checkName(t.id+".event", "event type", e.Type, "")
	}
}

// checkName adds an issue if a name, with prefix before it, is not valid.
func (p *plan) checkName(where, what, name, prefix string) {
	if err := pattern.CheckName(what, name, prefix); err != nil {
		p.complain(where, "%v", err)
	}
}

// where joins the parts of a place with dots; it leaves empty parts out.
func where(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ".")
}

// types returns the types that arguments of a step are made of. For a compensation, own is the
// result type of its own step; else it is nil.
func (p *plan) types(t *step, own reflect.Type) pattern.SourceTypes {
	in := p.input
	if t.each != nil || p.hasInputs() {
		in = nil
	}
	return pattern.SourceTypes{
		Input: in,
		Result: func(id string) (reflect.Type, bool) {
			other := p.byID[id]
			switch {
			case other == nil:
				return nil, false
			case own != nil && id == t.id:
				return own, true
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

// declare returns the outline and the issues of the definition when it is registered.
func (d *declaration) declare() (definition.Outline, []definition.Issue) {
	p := d.compile()
	return definition.Outline{Graph: &p.graph, Backpressure: true}, p.issues
}

// callbacks returns the callbacks of the definition.
func (d *declaration) callbacks() pattern.Callbacks { return d.compile().calls }

// run is the workflow: a whole run of the saga.
func (p *plan) run(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	if err := p.events.Begin(ctx); err != nil {
		return nil, err
	}
	x := p.begin(input)
	if err := perdure.OnCancel(ctx, "compensate", x.cleanUp); err != nil {
		return nil, err
	}
	if err := x.forward(ctx); err != nil {
		return nil, err
	}
	if len(x.failed) == 0 {
		if err := x.calls.Wait(ctx); err != nil {
			return nil, err
		}
		var err error
		if x.back, err = pattern.RollsBack(ctx); err != nil {
			return nil, err
		}
		if x.back {
			return nil, x.rollBack(ctx)
		}
		return x.output(), nil
	}
	why, over := x.backward(ctx)
	if over != nil || why == nil {
		return nil, over
	}
	return nil, perdure.Fail(ctx, why)
}

// output returns the output of the saga.
func (x *execution) output() json.RawMessage {
	if x.declaration.output == nil {
		return nil
	}
	return x.results[x.declaration.output.id]
}

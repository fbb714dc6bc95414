package dag

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
)

// A plan is a complete definition: it is never changed.
type plan struct {
	declared
	byID   map[string]*step
	layers [][]string
	layer  map[string]int // of each step, counted from 1; 0 if it is in no layer
	graph  definition.Graph
}

// newPlan completes the declarations.
func newPlan(d declared) *plan {
	p := &plan{declared: d.copied(), byID: map[string]*step{}, layer: map[string]int{}}
	for _, s := range p.steps {
		p.graph.Nodes = append(p.graph.Nodes, definition.Node{
			Name: s.id, After: s.after, Order: s.order, When: textOf(s.condition),
			Undo: s.undo != nil,
		})
		p.byID[s.id] = s
	}
	p.layers = p.graph.Layers()
	for i, ids := range p.layers {
		for _, id := range ids {
			p.layer[id] = i + 1
		}
	}
	for _, s := range p.steps {
		p.checkStep(s)
	}
	switch p.mode {
	case Sync, Async, Both:
	default:
		p.complain("mode", "there is no mode %q", string(p.mode))
	}
	if p.output != "" && p.byID[p.output] == nil {
		p.complain("output", "there is no step %s", p.output)
	}
	p.issues = append(p.issues, backpressure.Check("backpressure", p.backpressure)...)
	p.issues = append(p.issues, p.calls.Check(func(id string) bool { return p.byID[id] != nil })...)
	return p
}

// textOf returns a condition as text; empty for none.
func textOf(c pattern.Condition) string {
	if c == nil {
		return ""
	}
	if text, is := c.(fmt.Stringer); is {
		return text.String()
	}
	return "a condition in Go"
}

// ownWords begin the names of the operations that belong to a step. No step has a name that begins
// with them.
var ownWords = []string{"gate:", "in:", childWord, "undo:", "perdure:"}

const childWord = "child:" // the longest word

// checkStep adds the defects of a step to the issues.
func (p *plan) checkStep(s *step) {
	s.checkID()
	s.checkTimes()
	s.checkGates()
	s.checkNames()
	if s.condition != nil {
		if err := s.condition.Check(); err != nil {
			s.issues = append(s.issues, definition.Wrong(s.where("when"), err))
		}
	}
	if s.check != nil {
		s.take("", s.check(p.types(s, true)))
	}
	if s.undoCheck != nil {
		s.take("undo", s.undoCheck(p.types(s, false)))
	}
	p.issues = append(p.issues, s.issues...)
}

func (s *step) checkID() {
	if !s.checkName("", "ID", s.id, childWord) {
		return
	}
	for _, word := range ownWords {
		if strings.HasPrefix(s.id, word) {
			s.complain("", "an ID cannot begin with %s", word)
		}
	}
	if s.id == ownResult {
		s.complain("", "ID %q is reserved: a compensation finds the result of its step under it",
			s.id)
	}
}

// types returns the types of the sources of a step's argument, or of the argument of its
// compensation if forward is false.
func (p *plan) types(s *step, forward bool) pattern.SourceTypes {
	types := pattern.SourceTypes{Input: p.input, Result: func(id string) (reflect.Type, bool) {
		if !forward && id == ownResult {
			return s.result, true
		}
		other := p.byID[id]
		if other == nil {
			return nil, false
		}
		if forward && p.layer[id] >= p.layer[s.id] {
			s.note(definition.SeverityWarning, "",
				"it takes the result of %s, which is in no layer before", id)
		}
		return other.result, true
	}}
	if !forward {
		types.Undone = func(id string) (reflect.Type, bool) {
			other := p.byID[id]
			if other == nil || other.undo == nil {
				return nil, false
			}
			return other.undone, true
		}
	}
	return types
}

// sortGates sorts gates by their kinds.
func sortGates(gates []gate) {
	slices.SortStableFunc(gates, func(a, b gate) int { return cmp.Compare(a.kind, b.kind) })
}

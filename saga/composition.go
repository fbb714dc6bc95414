package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Composition is a definition that is made of sagas, which are its members. They run as parts of
// one run and share its headers and variables. The path of a member's step is alias/step.
//
// A member that fails undoes itself. If it is not optional, the other members of its layer run to
// their ends, no later member begins, and the members that are done are undone. If a handler stops
// this ([FailSaga]), the remaining members stay as they are and have no verdict.
//
// A Composition is built like a [Saga]. It is a [perdure.Workflow] too.
type Composition[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *composition
}

// A composition is a [Composition] without its types.
type composition struct {
	name    string
	input   reflect.Type
	members []*member
	policy  Policy
	calls   pattern.Callbacks
	events  pattern.ExecutionEvents

	compile func() *compositionPlan // once
}

// Compose begins the definition of a composition. The timeout among the options limits a whole run.
// Without a timeout, the limit is [DefaultTimeout].
func Compose[I any](name string, opts ...perdure.WorkflowOption) *Composition[I] {
	d := &composition{name: name, input: reflect.TypeFor[I](), policy: StrictSequential}
	d.compile = sync.OnceValue(d.plan)
	return &Composition[I]{
		def: d, Workflow: define[I](name, opts, d.declare, d.callbacks, func() runner {
			return d.compile()
		}),
	}
}

// Policy sets the order in which members that are done are undone. The default is
// [StrictSequential]: one member after the other, beginning with the member that ended last.
// [GroupedParallel] undoes layer by layer, all members of a layer at once. [BestEffortParallel]
// undoes all members at once. The steps of a member are undone by the policy of its own saga.
func (c *Composition[I]) Policy(p Policy) *Composition[I] {
	c.def.policy = p
	return c
}

// On adds a callback. For it the steps are the members, and their IDs are the aliases.
func (c *Composition[I]) On(b pattern.Callback) *Composition[I] {
	c.def.calls = append(c.def.calls, b)
	return c
}

// Publish sends the publisher an event under a topic for each start and each end of an execution.
// Whether there are events for steps depends on the saga of each member.
func (c *Composition[I]) Publish(topic string) *Composition[I] {
	c.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return c
}

// Graph returns the graph of the members; its DOT and Mermaid methods draw it. Call it when the
// declaration is complete.
func (c *Composition[I]) Graph() definition.Graph { return c.def.compile().graph }

// Execute starts a run, waits for its end and returns its result. A composition that has failed is
// not an error here: the result has the failure.
func (c *Composition[I]) Execute(ctx context.Context, to perdure.Caller, in I,
	opts ...perdure.StartOption) (Composed, error) {
	r, err := execute(ctx, c.Workflow, to, in, opts)
	if err != nil {
		return Composed{}, err
	}
	return c.ResultOf(r), nil
}

// ResultOf returns the result of a run of this composition, made from the run's report.
func (c *Composition[I]) ResultOf(r report.Run) Composed { return Composed{r} }

// A compositionPlan is a complete definition: a copy that never changes.
type compositionPlan struct {
	*composition
	byAlias map[string]*member
	plans   map[string]*plan
	layers  [][]string
	graph   definition.Graph
	issues  []definition.Issue // except those of the graph
}

// plan completes the definition.
func (d *composition) plan() *compositionPlan {
	own := *d
	own.members, own.calls = nil, slices.Clone(d.calls)
	c := &compositionPlan{
		composition: &own,
		byAlias:     map[string]*member{},
		plans:       map[string]*plan{},
	}
	for _, m := range d.members {
		copied := *m
		copied.after, copied.issues = slices.Clone(m.after), slices.Clone(m.issues)
		own.members = append(own.members, &copied)
		c.byAlias[m.alias] = &copied
		node := definition.Node{Name: m.alias}
		for _, before := range m.after {
			node.After = append(node.After, before.alias)
		}
		c.graph.Nodes = append(c.graph.Nodes, node)
		c.check(d, &copied)
	}
	switch own.policy {
	case StrictSequential, GroupedParallel, BestEffortParallel:
	default:
		c.issues = append(c.issues, definition.Issue{
			Severity: definition.SeverityError, Where: "policy",
			Message: fmt.Sprintf("policy %q is not valid: allowed for members are %s, %s and %s",
				own.policy, StrictSequential, GroupedParallel, BestEffortParallel),
		})
	}
	c.issues = append(c.issues, own.calls.Check(func(id string) bool {
		return c.byAlias[id] != nil
	})...)
	c.layers = c.graph.Layers()
	return c
}

// check adds an issue for everything that is wrong with a member.
func (c *compositionPlan) check(d *composition, m *member) {
	for _, before := range m.after {
		if before.of != d {
			m.complain("after", "member %s is one of composition %s", before.alias, before.of.name)
		}
	}
	if err := pattern.CheckName("alias", m.alias, undone("")); err != nil {
		m.complain("", "%v", err)
	}
	if slices.Contains(ownNames, m.alias) {
		m.complain("", "alias %q is reserved for records of compositions: choose another", m.alias)
	}
	if m.when != nil {
		if err := m.when.Check(); err != nil {
			m.issues = append(m.issues, definition.Wrong(where(m.alias, "when"), err))
		}
	}
	m.checkInput(d.input)
	c.issues = append(c.issues, m.issues...)
	if m.compile == nil {
		return
	}
	p := m.compile()
	c.plans[m.alias] = p
	if id := p.tooLong(m.alias + "."); id != "" {
		c.issues = append(c.issues, definition.Issue{
			Severity: definition.SeverityError, Where: m.alias,
			Message: "the alias and the ID of " + id + " are too long together for an operator",
		})
	}
	for _, i := range slices.Concat(p.graph.Check(), p.issues) {
		i.Where = where(m.alias, i.Where)
		c.issues = append(c.issues, i)
	}
}

func (d *composition) declare() (definition.Outline, []definition.Issue) {
	c := d.compile()
	return definition.Outline{Graph: &c.graph}, c.issues
}

func (d *composition) callbacks() pattern.Callbacks { return d.compile().calls }

package tcc

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Composition is a TCC whose members are TCCs. A member tries and confirms when all members
// before it ([Member.After]) are confirmed. Members that come after the same members run at the
// same time. If a member that is not optional fails, no later member begins. When the other members
// of its layer have ended, the confirmed members are cancelled, beginning with the member that
// began last: every participant cancels, as the package comment describes.
//
// The same happens to the whole composition when the run is cancelled or times out at any time
// before it ends, callbacks included. A member that has decided to confirm confirms first. The
// overall timeouts of members have no effect. A Composition is built and completed like a [TCC].
//
// If its run is retried ([perdure.Client.Retry]), a member that had begun gets the same input
// again, even if a member before it tries anew.
type Composition[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *composition
}

type composition struct {
	name         string
	input        reflect.Type
	members      []*Member
	backpressure backpressure.Policy
	calls        pattern.Callbacks
	events       pattern.ExecutionEvents

	compile func() *assembly // once
}

// A Member is a TCC in a composition, under an alias. Its methods build it, and return it.
type Member struct {
	of       *composition
	alias    string
	wrong    []string // mistakes of its declaration
	def      *declaration
	after    []string
	optional bool
	input    pattern.TaskFunc
	check    func(pattern.SourceTypes) []definition.Issue

	plan *plan // set when the declaration is complete
}

// Compose begins a composition. The timeout among the options limits a whole run.
func Compose[I any](name string, opts ...perdure.WorkflowOption) *Composition[I] {
	c := &composition{name: name, input: reflect.TypeFor[I]()}
	c.compile = sync.OnceValue(c.assemble)
	return &Composition[I]{workflow[I](name, c.declare, c.callbacks,
		func(ctx context.Context, in json.RawMessage) error {
			return c.compile().run(ctx, in)
		}, opts), c}
}

// Include adds a member. The function input returns the input of the member's TCC. Its argument is
// made by tags, like a participant's: try=alias/participant is the result of the try of a
// participant of an earlier member. The result of input must depend on its argument alone. An error
// of input fails the member.
func Include[I, A, J any](c *Composition[I], alias string, t *TCC[J],
	input func(A) (J, error)) *Member {
	args := pattern.NewArguments[A]()
	m := &Member{of: c.def, alias: alias, check: args.Check}
	if t != nil {
		m.def = t.def
	}
	if input != nil {
		m.input = pattern.TaskOf(args, func(_ context.Context, a A) (J, error) { return input(a) })
	}
	c.def.members = append(c.def.members, m)
	return m
}

// After makes the member begin after the given members are confirmed, or were left out.
func (m *Member) After(others ...*Member) *Member {
	for _, o := range others {
		switch {
		case o == nil:
			m.wrong = append(m.wrong, "it follows a nil member")
		case o.of != m.of:
			m.wrong = append(m.wrong, "member "+o.alias+" is one of another composition")
		default:
			m.after = append(m.after, o.alias)
		}
	}
	return m
}

// Optional lets the composition go on without the member if the member fails.
func (m *Member) Optional() *Member {
	m.optional = true
	return m
}

// Backpressure limits how many members run at a time, and may refuse more. A refused member has
// failed.
func (c *Composition[I]) Backpressure(p backpressure.Policy) *Composition[I] {
	c.def.backpressure = p
	return c
}

// On adds a callback. For it the steps are the members, and their IDs are the aliases. A member is
// done when it is confirmed.
func (c *Composition[I]) On(b pattern.Callback) *Composition[I] {
	c.def.calls = append(c.def.calls, b)
	return c
}

// Publish sends the publisher an event under a topic for each start and each end of an execution.
// Whether there are events for participants depends on the TCC of each member.
func (c *Composition[I]) Publish(topic string) *Composition[I] {
	c.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return c
}

// Execute starts a run, waits for its end and returns its result, like [TCC.Execute]. In the
// result, the ID of a participant is alias/participant.
func (c *Composition[I]) Execute(ctx context.Context, by perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	return execute(ctx, by, c.Workflow, in, opts)
}

// Of returns the part of a composition's result that is about the member: its steps are the
// member's participants, under their own IDs.
func (m *Member) Of(r Result) Result {
	var own []report.Step
	for _, s := range r.Steps {
		if id, is := strings.CutPrefix(s.ID, m.alias+"/"); is {
			s.ID = id
			own = append(own, s)
		}
	}
	r.Steps = own
	return r
}

// An assembly is a complete composition. It never changes.
type assembly struct {
	*composition
	byAlias map[string]*Member
	graph   definition.Graph
	layers  [][]string
	issues  []definition.Issue // except those of the graph
}

// assemble completes the composition.
func (c *composition) assemble() *assembly {
	whole := *c
	a := &assembly{composition: &whole, byAlias: map[string]*Member{}}
	whole.members, whole.calls = nil, slices.Clone(c.calls)
	for _, m := range c.members {
		own := *m
		own.after = slices.Clone(m.after)
		whole.members = append(whole.members, &own)
		a.byAlias[own.alias] = &own
		a.graph.Nodes = append(a.graph.Nodes, definition.Node{Name: own.alias, After: own.after})
	}
	a.layers = a.graph.Layers()
	for _, m := range whole.members {
		a.issues = append(a.issues, a.examine(m)...)
	}
	a.issues = append(a.issues, backpressure.Check("backpressure", whole.backpressure)...)
	a.issues = append(a.issues, whole.calls.Check(func(alias string) bool {
		return a.byAlias[alias] != nil
	})...)
	return a
}

// examine returns the issues of a member.
func (a *assembly) examine(m *Member) []definition.Issue {
	wrong := func(message string) definition.Issue {
		return definition.Issue{
			Severity: definition.SeverityError, Where: m.alias, Message: message,
		}
	}
	var issues []definition.Issue
	if err := pattern.CheckName("alias", m.alias, ""); err != nil {
		issues = append(issues, wrong(err.Error()))
	}
	for _, message := range m.wrong {
		issues = append(issues, wrong(message))
	}
	if m.input == nil {
		issues = append(issues, wrong("a member needs what makes its input"))
	}
	before := a.before(m.alias, map[string]bool{})
	for _, i := range m.check(
		pattern.SourceTypes{Input: a.input, Tried: func(key string) (reflect.Type, bool) {
			alias, id, _ := strings.Cut(key, "/")
			if !before[alias] || a.byAlias[alias].def == nil {
				return nil, false
			}
			return a.byAlias[alias].def.compile().resultOf(id)
		}}) {
		i.Where = within(m.alias+".input", i.Where)
		issues = append(issues, i)
	}
	if m.def == nil {
		return append(issues, wrong("a member needs a TCC"))
	}
	m.plan = m.def.compile()
	for _, p := range m.plan.inOrder {
		if pattern.CheckName("ID", m.alias+"."+p.id, perdure.PhaseConfirm.Of("")) != nil {
			issues = append(issues, wrong("the alias and the ID of "+p.id+" are too long together"))
		}
	}
	for _, i := range m.plan.all() {
		i.Where = within(m.alias, i.Where)
		issues = append(issues, i)
	}
	return issues
}

// resultOf returns the result type of the try of a participant.
func (p *plan) resultOf(id string) (reflect.Type, bool) {
	return p.types(perdure.PhaseCancel, len(p.inOrder)).Tried(id)
}

// before adds to known all members that the member comes after, directly or not, and returns it.
func (a *assembly) before(alias string, known map[string]bool) map[string]bool {
	if m := a.byAlias[alias]; m != nil {
		for _, b := range m.after {
			if a.byAlias[b] != nil && !known[b] {
				known[b] = true
				a.before(b, known)
			}
		}
	}
	return known
}

// declare returns the outline and the issues of the composition when it is registered.
func (c *composition) declare() (definition.Outline, []definition.Issue) {
	a := c.compile()
	return definition.Outline{Graph: &a.graph, Backpressure: true}, a.issues
}

func (c *composition) callbacks() pattern.Callbacks { return c.compile().calls }

// makeInput makes the input of the member's TCC. The input is recorded, so that another build
// continues with the same input.
func (m *Member) makeInput(ctx context.Context, given pattern.Sources) (json.RawMessage, error) {
	return perdure.SideEffect(ctx, "input", func() (data json.RawMessage, err error) {
		err = guard.Try(func() (err error) {
			data, err = m.input(ctx, given)
			return err
		})
		if abort := guard.AbortOf(err); abort != nil {
			err = fmt.Errorf("the input of %s: %w", m.alias, abort)
		}
		return data, err
	})
}

package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Machine is a definition: steps, and where each of them may lead. One goroutine builds it once,
// usually into package variables. It is complete when it is registered; later additions have no
// effect. Its input is of type I. It is a [perdure.Workflow] too: it is registered, started and
// found as a workflow. Its output is that of the step that it ends with.
//
// [perdure.Check] returns everything that is wrong with it, without an engine.
type Machine[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// DefaultVisits is the number of times that a run, or a branch of it, may come to one step.
const DefaultVisits = 1000

// A declaration is a machine without its types.
type declaration struct {
	name    string
	input   reflect.Type
	steps   []*step
	first   string
	routes  []errorRoute
	most    int            // visits of one step
	retry   *perdure.Retry // of steps that have none; nil for one attempt
	version int
	older   []*declaration
	issues  []definition.Issue

	compile func() *plan // once
}

// An errorRoute is the step that goes on after a failure.
type errorRoute struct {
	to string
	on []error // the classes of errors that it is for; empty for all
}

// New begins the definition of a machine: its name, and the step that a run begins with.
// [perdure.Timeout] among the options limits a whole run. A
// [perdure.Retry] among them is the policy for errors and panics of steps that have none; without
// it such a step has one attempt.
func New[I any](name, first string, opts ...perdure.WorkflowOption) *Machine[I] {
	d := &declaration{
		name: name, first: first, input: reflect.TypeFor[I](), most: DefaultVisits,
	}
	d.compile = sync.OnceValue(d.plan)
	for _, opt := range opts {
		if r, is := opt.(perdure.Retry); is {
			d.retry = &r
		}
	}
	opts = slices.Concat([]perdure.WorkflowOption{
		perdure.NoRetry, pattern.CleansUp, pattern.Machine,
	}, opts, []perdure.WorkflowOption{pattern.Declared(d.declare)})
	return &Machine[I]{
		def: d,
		Workflow: perdure.Define(name, func(ctx context.Context, _ I) (json.RawMessage, error) {
			in, err := perdure.Payload[json.RawMessage](ctx)
			if err != nil {
				return nil, err
			}
			return run(ctx, d.compile(), in)
		}, opts...),
	}
}

// OnError makes a step go on when another step fails for good and has no route of its own for the
// error ([Step.OnError]). What is done so far stays done, and can still be undone later. The step
// gets the input of the step that has failed, and [FailureOf] returns the failure. In the branch of
// a split, it ends the split: the other branches finish the calls that they are in, and go no
// further. No step is tried again there, and a branch that waits is cancelled.
//
// on has the classes of errors that the route is for, as [perdure.Retry] has them; without any it
// is for all errors. Of several routes the first that fits is taken. If the step of the route fails
// itself, the route is not taken again.
func (m *Machine[I]) OnError(step string, on ...error) *Machine[I] {
	m.def.routes = append(m.def.routes, errorRoute{step, on})
	return m
}

// Visits limits how often a run, or a branch of it, may come to one step. A run that comes to a
// step once more fails: an error route of that step may go on, but leads to no step that was
// refused so. The default is [DefaultVisits]. A machine without an end has a step that
// returns [ContinueAsNew] before that.
func (m *Machine[I]) Visits(n int) *Machine[I] {
	if n < 1 {
		m.def.complain(IssueLimit, "visits", "%d visits are not possible: at least 1", n)
		return m
	}
	m.def.most = n
	return m
}

// Version sets the version of the definition, from 1 on. Older versions whose runs are to go on are
// machines of the same name, which are not registered themselves:
//
//	var v1 = machine.New[Order]("onboarding", "verify").Version(1)
//	var onboarding = machine.New[Order]("onboarding", "verify").Version(2, v1)
//
// A run stays on the version that it began with, and a successor ([ContinueAsNew]) begins with the
// newest one. A machine that never had a version has version 0. admin.Client.Versions has how many
// runs each version still has, as the marker "machine". A run of a version that this program does
// not have is suspended.
func (m *Machine[I]) Version(n int, older ...*Machine[I]) *Machine[I] {
	if n < 1 {
		m.def.complain(IssueVersion, "version", "version %d is not valid: at least 1", n)
	}
	m.def.version = n
	for _, o := range older {
		if o == nil {
			m.def.complain(IssueVersion, "version", "an older version is nil")
			continue
		}
		m.def.older = append(m.def.older, o.def)
	}
	return m
}

func (d *declaration) complain(code, where, format string, args ...any) {
	d.issues = append(d.issues, issue(code, where, fmt.Sprintf(format, args...)))
}

// issue returns an issue that refuses the definition.
func issue(code, where, message string) definition.Issue {
	return definition.Issue{
		Severity: definition.SeverityError, Code: code, Where: where, Message: message,
	}
}

func (d *declaration) declare() (definition.Outline, []definition.Issue) {
	p := d.compile()
	about := definition.Outline{Diagram: &p.diagram}
	if d.version > 0 {
		about.Version = fmt.Sprint(d.version)
	}
	return about, p.issues
}

// Diagram returns the state diagram of the machine. Its Mermaid and DOT methods draw it, with the
// states that a run has visited: see [Visited]. Call it when the declaration is complete.
func (m *Machine[I]) Diagram() definition.Diagram { return m.def.compile().diagram }

// Visited returns the IDs of the steps that a run of a machine has come to, in the order of their
// first visits, also those of branches.
func Visited(r report.Run) []string {
	var ids []string
	for _, s := range r.Steps {
		id := s.ID[strings.LastIndexByte(s.ID, '/')+1:]
		if id, _, _ = strings.Cut(id, "["); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

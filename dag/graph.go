package dag

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// A Mode is the way runs of a graph are started, by the graph and by its name.
type Mode = pattern.Mode

// The modes.
const (
	Sync  = pattern.ModeSync  // by [Graph.Execute], which waits for the end
	Async = pattern.ModeAsync // by [Graph.Start], which does not
	Both  = pattern.ModeBoth  // the caller chooses
)

// A Graph is a definition. It is built once, usually into a package variable, by one goroutine. It
// is complete when it is registered; later changes have no effect. Its input is of type I. A Graph
// is also a [perdure.Workflow]: it is registered and found as a workflow, and its output is the
// output of the step that [Graph.Output] names.
type Graph[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// A declaration is a graph without its types, while it is being built.
type declaration struct {
	declared
	once     sync.Once
	complete atomic.Pointer[plan] // nil while it is being built
}

// declared has the declarations of the author.
type declared struct {
	name         string
	input        reflect.Type
	steps        []*step
	mode         Mode
	output       string
	backpressure backpressure.Policy
	events       pattern.ExecutionEvents
	again        func(pattern.View) (json.RawMessage, bool, error)
	calls        pattern.Callbacks
	queries      map[string]Query
	issues       []definition.Issue
}

// copied returns a copy that later declarations do not change.
func (d declared) copied() declared {
	d.steps = slices.Clone(d.steps)
	for i, s := range d.steps {
		d.steps[i] = s.copied()
	}
	d.calls, d.queries = slices.Clone(d.calls), maps.Clone(d.queries)
	d.issues = slices.Clone(d.issues)
	return d
}

func (d *declared) complain(where, format string, args ...any) {
	d.issues = append(d.issues, definition.Issue{
		Severity: definition.SeverityError, Where: where, Message: fmt.Sprintf(format, args...),
	})
}

// finish completes the definition, the first time that it is called.
func (d *declaration) finish() *plan {
	d.once.Do(func() { d.complete.Store(newPlan(d.declared)) })
	return d.complete.Load()
}

// now returns the plan of the declarations so far.
func (d *declaration) now() *plan {
	if p := d.complete.Load(); p != nil {
		return p
	}
	return newPlan(d.declared)
}

// New begins the definition of a graph. A retry policy in the options is for steps that have no
// policy. A timeout in the options is for a whole run; without it a run has no timeout.
func New[I any](name string, opts ...perdure.WorkflowOption) *Graph[I] {
	d := &declaration{
		declared: declared{
			name:    name,
			input:   reflect.TypeFor[I](),
			mode:    Sync,
			queries: map[string]Query{},
		},
	}
	opts = slices.Concat(opts,
		[]perdure.WorkflowOption{pattern.Declared(func() (definition.Outline, []definition.Issue) {
			p := d.finish()
			return definition.Outline{
				Graph: &p.graph, DryRuns: true, Backpressure: true, Mode: string(p.mode),
			}, p.issues
		}), pattern.Calling(func() pattern.Callbacks { return d.finish().calls }),
			pattern.MayCleanUp(func() bool { return d.finish().undoes() })})
	return &Graph[I]{def: d, Workflow: perdure.Define(
		name, func(ctx context.Context, _ I) (json.RawMessage, error) {
			in, err := perdure.Payload[json.RawMessage](ctx)
			if err != nil {
				return nil, err
			}
			return d.finish().run(ctx, in)
		}, opts...)}
}

// Mode sets the way runs are started; the default is [Sync]. It also holds for a start by name if
// the graph is known: see [perdure.Client.Start]. It does not hold for a start of the Workflow of
// the graph, or for a child.
func (g *Graph[I]) Mode(m Mode) *Graph[I] {
	g.def.mode = m
	return g
}

// Output makes the result of a step the output of the graph. Without it the graph has no output.
func (g *Graph[I]) Output(step Dependency) *Graph[I] {
	switch id, is := idOf(step); {
	case !is:
		g.def.complain("output", "a nil step")
	case step.step().of != g.def:
		g.def.complain("output", "step %s is one of another graph", id)
	default:
		g.def.output = id
	}
	return g
}

// Concurrency limits the number of steps that go on at once; 0 means no limit. A step that waits at
// its gates counts. An async step ([Step.Async]) does not count.
func (g *Graph[I]) Concurrency(n int) *Graph[I] {
	if n < 0 {
		g.def.complain("concurrency", "%d is not valid: at least 0", n)
	}
	return g.Backpressure(backpressure.Limit(max(n, 0)))
}

// Backpressure sets the policy for the number of steps that go on at once, and for the start of
// further steps. Without it, and if it is nil, all steps of a layer go on at once. A step that the
// policy refuses has failed.
func (g *Graph[I]) Backpressure(p backpressure.Policy) *Graph[I] {
	g.def.backpressure = p
	return g
}

// PublishEvents sends an event to the publisher when a run starts and ends, and when a step
// succeeds or fails. A dry run sends no events.
func (g *Graph[I]) PublishEvents() *Graph[I] {
	g.def.events.On = true
	return g
}

// On adds a callback. Callbacks for a success are also called in a dry run; the report shows that
// the run was a dry run.
func (g *Graph[I]) On(c pattern.Callback) *Graph[I] {
	g.def.calls = append(g.def.calls, c)
	return g
}

// Again sets a function that decides whether the run continues as new, and with which input. It is
// called when all steps have ended. It is workflow code: it must decide by its argument alone.
func (g *Graph[I]) Again(next func(k pattern.View) (I, bool)) *Graph[I] {
	if next == nil {
		g.def.complain("again", "it needs a function")
	}
	g.def.again = func(k pattern.View) (json.RawMessage, bool, error) {
		in, more := next(k)
		if !more {
			return nil, false, nil
		}
		data, err := pattern.Encode(in)
		return data, more, err
	}
	return g
}

// Layers returns the IDs of the steps, layer by layer, as the graph is now. The layers of a run are
// in its report.
func (g *Graph[I]) Layers() [][]string {
	layers := slices.Clone(g.def.now().layers)
	for i, ids := range layers {
		layers[i] = slices.Clone(ids)
	}
	return layers
}

// Graph returns the steps and their dependencies, to be drawn.
func (g *Graph[I]) Graph() definition.Graph { return g.def.now().graph }

// Start starts a run, as [perdure.Workflow.Start] does. The mode of the graph must allow [Async].
func (g *Graph[I]) Start(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (*perdure.Run[json.RawMessage], error) {
	return g.Workflow.Start(ctx, c, in, append([]perdure.StartOption{Async}, opts...)...)
}

// StartAll starts a run for each input, as [perdure.Workflow.StartAll] does. The mode of the graph
// must allow [Async].
func (g *Graph[I]) StartAll(ctx context.Context, c perdure.Caller, inputs []I,
	opts func(i int) []perdure.StartOption) ([]*perdure.Run[json.RawMessage], []error) {
	return g.Workflow.StartAll(ctx, c, inputs, func(i int) []perdure.StartOption {
		own := []perdure.StartOption{Async}
		if opts != nil {
			own = append(own, opts(i)...)
		}
		return own
	})
}

// Execute starts a run, waits for its end and returns its result. The mode of the graph must allow
// [Sync]. If the run continues as new, the result is that of the last run of the chain. A run that
// has failed is not an error here: the result has the failure. The end of ctx ends only the
// waiting.
func (g *Graph[I]) Execute(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	run, err := g.Workflow.Start(ctx, c, in, append(slices.Clip(opts), Sync)...)
	if err != nil {
		return Result{}, err
	}
	r, err := run.Final(ctx)
	return Result{r}, err
}

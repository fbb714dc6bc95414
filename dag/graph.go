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

// A Mode says how runs of a graph are started, by the graph and by its name.
type Mode = pattern.Mode

// The modes.
const (
	Sync  = pattern.ModeSync  // by [Graph.Execute], which waits for the end
	Async = pattern.ModeAsync // by [Graph.Start], which does not
	Both  = pattern.ModeBoth  // as the caller likes
)

// A Graph is a definition. It is built once, usually into a package variable, by one
// goroutine; it is complete when it is registered, and what is added to it or changed
// afterwards does not count. Input is of type I. It is a [perdure.Workflow] too: it is
// registered and found as one, and its output is that of the step that [Graph.Output]
// names.
type Graph[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// A declaration is a graph without its types, as it is being built.
type declaration struct {
	declared
	once     sync.Once
	complete atomic.Pointer[plan] // nil while it is being built
}

// declared is what the author has said.
type declared struct {
	name     string
	input    reflect.Type
	steps    []*step
	mode     Mode
	output   string
	pressure backpressure.Policy
	events   pattern.ExecutionEvents
	again    func(pattern.View) (json.RawMessage, bool, error)
	calls    pattern.Callbacks
	queries  map[string]Query
	issues   []definition.Issue
}

// copied gives a copy that what is said later does not change.
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

// finish completes the definition, the first time.
func (d *declaration) finish() *plan {
	d.once.Do(func() { d.complete.Store(newPlan(d.declared)) })
	return d.complete.Load()
}

// now gives the plan of what is declared so far.
func (d *declaration) now() *plan {
	if p := d.complete.Load(); p != nil {
		return p
	}
	return newPlan(d.declared)
}

// New begins the definition of a graph. Of the options a retry policy is that of steps
// that have none, and the timeout that of a whole run; without one there is none.
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
				Graph: &p.graph, DryRuns: true, Pressured: true, Mode: string(p.mode),
			}, p.issues
		}), pattern.Calling(func() pattern.Callbacks { return d.finish().calls })})
	return &Graph[I]{def: d, Workflow: perdure.Define(
		name, func(ctx context.Context, _ I) (json.RawMessage, error) {
			in, err := perdure.Payload[json.RawMessage](ctx)
			if err != nil {
				return nil, err
			}
			return d.finish().run(ctx, in)
		}, opts...)}
}

// Mode says how runs are started; without it [Sync]. It holds by name too, where the graph
// is known: see [perdure.Client.Start]. Who starts the Workflow of the graph instead, or a
// child, does it as they like.
func (g *Graph[I]) Mode(m Mode) *Graph[I] {
	g.def.mode = m
	return g
}

// Output has the result of a step be the output of the graph; without it there is none.
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

// Concurrency limits how many steps go on at once; 0 is no limit. A step that waits at
// its gates counts, one that nobody waits for does not.
func (g *Graph[I]) Concurrency(n int) *Graph[I] {
	if n < 0 {
		g.def.complain("concurrency", "it is %d: at least 0", n)
	}
	return g.Pressure(backpressure.Limit(max(n, 0)))
}

// Pressure says how many steps go on at once, and whether more may begin; without it, and
// where it is nil, all of a layer. A step that it refuses has failed.
func (g *Graph[I]) Pressure(p backpressure.Policy) *Graph[I] {
	g.def.pressure = p
	return g
}

// PublishEvents has the publisher told when a run starts and ends, and of every step
// that succeeds or fails; of a dry run it is told nothing.
func (g *Graph[I]) PublishEvents() *Graph[I] {
	g.def.events.On = true
	return g
}

// On adds a callback. Those for a success are called of a dry run too: the report says
// that it was one.
func (g *Graph[I]) On(c pattern.Callback) *Graph[I] {
	g.def.calls = append(g.def.calls, c)
	return g
}

// Again is asked when all steps have ended whether the run continues as new, and with
// what input. It is workflow code: it must decide by its argument alone.
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

// Layers returns the IDs of the steps, layer by layer, as the graph is now. Those of a run
// are in its report.
func (g *Graph[I]) Layers() [][]string {
	layers := slices.Clone(g.def.now().layers)
	for i, ids := range layers {
		layers[i] = slices.Clone(ids)
	}
	return layers
}

// Graph gives the steps and what they come after, to be drawn.
func (g *Graph[I]) Graph() definition.Graph { return g.def.now().graph }

// Start starts a run, as [perdure.Workflow.Start] does, of a graph whose mode allows it.
func (g *Graph[I]) Start(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (*perdure.Run[json.RawMessage], error) {
	return g.Workflow.Start(ctx, c, in, append([]perdure.StartOption{Async}, opts...)...)
}

// Execute starts a run, of a graph whose mode allows it, waits for its end and tells how
// it went; where the run continues as new, how the last run of the chain did. A run that
// has failed is no error here: the result says so. The end of ctx ends only the waiting.
func (g *Graph[I]) Execute(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	run, err := g.Workflow.Start(ctx, c, in, append(slices.Clip(opts), Sync)...)
	if err != nil {
		return Result{}, err
	}
	r, err := run.Final(ctx)
	return Result{r}, err
}

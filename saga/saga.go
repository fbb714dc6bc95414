package saga

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// DefaultTimeout is the overall timeout of a saga that is given none.
const DefaultTimeout = 5 * time.Minute

// A Saga is a definition: steps, what undoes them, and how. It is built once, usually
// into a package variable, by one goroutine; it is complete when it is registered, and
// what is added to it afterwards does not count. Input is of type I. It is a
// [perdure.Workflow] too: it is registered, started and found as one, and its output is
// that of the step that [Saga.Output] names.
type Saga[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// Inputs is the input of a saga each of whose steps has an input of its own, by ID. A start
// with an ID that is none of a step's is refused.
type Inputs map[string]json.RawMessage

// A declaration is a saga without its types.
type declaration struct {
	name     string
	input    reflect.Type
	steps    []*step
	output   *step // nil for none
	policy   Policy
	handler  Handler
	parks    bool
	pressure backpressure.Policy
	calls    pattern.Callbacks
	events   pattern.ExecutionEvents
	issues   []definition.Issue

	key     *declaration // itself, also in copies
	compile func() *plan // once
}

// New begins the definition of a saga. Of the options the timeout is that of a whole
// run; a retry policy has no meaning here: a step without one of its own has one
// attempt.
func New[I any](name string, opts ...perdure.WorkflowOption) *Saga[I] {
	d := &declaration{
		name: name, input: reflect.TypeFor[I](), policy: StrictSequential, handler: ContinueHandler,
	}
	d.key, d.compile = d, sync.OnceValue(d.plan)
	if d.hasInputs() {
		opts = append(slices.Clip(opts), pattern.Accepts(func(input json.RawMessage) error {
			return d.compile().unknownInputs(input)
		}))
	}
	return &Saga[I]{
		def: d, Workflow: define[I](name, opts, d.declare, d.callbacks, func() runner {
			return d.compile()
		}),
	}
}

// A runner is a definition that is complete.
type runner interface {
	run(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
}

// define makes the workflow of a definition.
func define[I any](name string, opts []perdure.WorkflowOption, declare pattern.Declared,
	calls pattern.Calling, compile func() runner) *perdure.Workflow[I, json.RawMessage] {
	opts = slices.Concat([]perdure.WorkflowOption{
		perdure.Timeout(DefaultTimeout), perdure.NoRetry, pattern.CleansUp, pattern.Saga,
	}, opts, []perdure.WorkflowOption{
		declare, calls,
	})
	return perdure.Define(name, func(ctx context.Context, _ I) (json.RawMessage, error) {
		in, err := perdure.Payload[json.RawMessage](ctx)
		if err != nil {
			return nil, err
		}
		return compile().run(ctx, in)
	}, opts...)
}

// execute runs a workflow to its end and gives the report.
func execute[I any](ctx context.Context, w *perdure.Workflow[I, json.RawMessage], c perdure.Caller,
	in I, opts []perdure.StartOption) (report.Run, error) {
	run, err := w.Start(ctx, c, in, opts...)
	if err != nil {
		return report.Run{}, err
	}
	return run.Final(ctx)
}

// Output has the result of a step be the output of the saga; without it there is none.
func (s *Saga[I]) Output(step Dependency) *Saga[I] {
	s.def.output = nil
	if step != nil {
		s.def.output = step.step()
	}
	if s.def.output == nil {
		s.def.issues = append(s.def.issues, definition.Issue{
			Severity: definition.SeverityError, Where: "output", Message: "a nil step",
		})
	}
	return s
}

// Policy says how steps are undone; without it [StrictSequential].
func (s *Saga[I]) Policy(p Policy) *Saga[I] {
	s.def.policy = p
	return s
}

// OnUndoError decides what becomes of the saga where a compensation has failed; without
// it [ContinueHandler].
func (s *Saga[I]) OnUndoError(h Handler) *Saga[I] {
	s.def.handler = h
	return s
}

// ParkOnUndoError has the run wait for an operator, as COMPENSATION_FAILED, where a
// compensation has failed and the handler would pass over it. He decides by
// [perdure.Client.Decide], for the name undo:STEP: "retry", "skip", or "handled" where
// he has undone it by hand.
func (s *Saga[I]) ParkOnUndoError() *Saga[I] {
	s.def.parks = true
	return s
}

// Pressure says how many steps of a layer go on at a time; without it all.
func (s *Saga[I]) Pressure(p backpressure.Policy) *Saga[I] {
	s.def.pressure = p
	return s
}

// Publish has the publisher told, under a topic, of each start and end of an execution,
// and of each success and failure of a step. A step that has an event of its own tells
// that instead of its success.
func (s *Saga[I]) Publish(topic string) *Saga[I] {
	s.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return s
}

// On adds a callback. In its steps one over a list stands for all of its clones.
func (s *Saga[I]) On(c pattern.Callback) *Saga[I] {
	s.def.calls = append(s.def.calls, c)
	return s
}

// Execute starts a run, waits for its end and tells how it went. A saga that has failed
// is no error here: the result says so.
func (s *Saga[I]) Execute(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	r, err := execute(ctx, s.Workflow, c, in, opts)
	if err != nil {
		return Result{}, err
	}
	return s.ResultOf(r), nil
}

// ResultOf makes the result of a run of this saga of its report.
func (s *Saga[I]) ResultOf(r report.Run) Result { return s.def.compile().result(r) }

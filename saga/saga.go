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

// DefaultTimeout is the overall timeout of a saga that has no timeout of its own, unless the engine
// has another default: see definition.Defaults.
const DefaultTimeout = 5 * time.Minute

// A Saga is a definition: steps, their compensations, and the policy for undoing. One goroutine
// builds it once, usually into a package variable. It is complete when it is registered; later
// additions have no effect. Its input is of type I. It is a [perdure.Workflow] too: it is
// registered, started and found as a workflow. Its output is the result of the step that
// [Saga.Output] names.
type Saga[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// Inputs is the input of a saga if each step has its own input, by ID. A start with an ID that no
// step has is refused.
type Inputs map[string]json.RawMessage

// A declaration is a saga without its types.
type declaration struct {
	name         string
	input        reflect.Type
	steps        []*step
	output       *step   // nil if there is none
	policy       Policy  // empty for the engine's
	handler      Handler // counts if handles is set; else the engine's does
	handles      bool
	parks        bool
	backpressure backpressure.Policy
	calls        pattern.Callbacks
	events       pattern.ExecutionEvents
	issues       []definition.Issue

	key     *declaration // itself, also in copies
	compile func() *plan // once
}

// New begins the definition of a saga. The timeout among the options limits a whole run. A retry
// policy among them has no effect: a step without its own policy has one attempt.
func New[I any](name string, opts ...perdure.WorkflowOption) *Saga[I] {
	d := &declaration{name: name, input: reflect.TypeFor[I]()}
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

// A runner is a complete definition.
type runner interface {
	run(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
}

// define makes the workflow of a definition.
func define[I any](name string, opts []perdure.WorkflowOption, declare pattern.Declared,
	calls pattern.Calling, compile func() runner) *perdure.Workflow[I, json.RawMessage] {
	opts = slices.Concat([]perdure.WorkflowOption{
		pattern.UsualTimeout(DefaultTimeout), perdure.NoRetry, pattern.CleansUp, pattern.Saga,
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

// execute runs a workflow to its end and returns the report.
func execute[I any](ctx context.Context, w *perdure.Workflow[I, json.RawMessage], c perdure.Caller,
	in I, opts []perdure.StartOption) (report.Run, error) {
	run, err := w.Start(ctx, c, in, opts...)
	if err != nil {
		return report.Run{}, err
	}
	return run.Final(ctx)
}

// Output makes the result of a step the output of the saga. By default a saga has no output.
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

// Policy sets how steps are undone. The default is that of the engine, which is [StrictSequential]
// unless its definition.Defaults say otherwise. A rollback ends by the policy that it has begun
// with.
func (s *Saga[I]) Policy(p Policy) *Saga[I] {
	s.def.policy = p
	return s
}

// OnUndoError sets the handler of compensations that have failed. The default is that of the
// engine, which is [ContinueHandler] unless its definition.Defaults name another one.
func (s *Saga[I]) OnUndoError(h Handler) *Saga[I] {
	s.def.handler, s.def.handles = h, true
	return s
}

// ParkOnUndoError makes the run wait for an operator, as COMPENSATION_FAILED, if a compensation has
// failed and the handler would continue. The operator decides with [perdure.Client.Decide], for the
// name undo:STEP. The choices are "retry"; "skip"; and "handled", if the operator has undone the
// step by hand.
func (s *Saga[I]) ParkOnUndoError() *Saga[I] {
	s.def.parks = true
	return s
}

// Backpressure limits how many steps of a layer run at a time. By default all steps of a layer do.
func (s *Saga[I]) Backpressure(p backpressure.Policy) *Saga[I] {
	s.def.backpressure = p
	return s
}

// Publish sends the publisher an event under a topic for each start and each end of an execution,
// and for each success and each failure of a step. A step that has an event of its own sends it
// instead of the success event.
func (s *Saga[I]) Publish(topic string) *Saga[I] {
	s.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return s
}

// On adds a callback. If its field Steps has the ID of a step over a list, that stands for all
// clones.
func (s *Saga[I]) On(c pattern.Callback) *Saga[I] {
	s.def.calls = append(s.def.calls, c)
	return s
}

// Execute starts a run, waits for its end and returns its result. A saga that has failed is not an
// error here: the result has the failure.
func (s *Saga[I]) Execute(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	r, err := execute(ctx, s.Workflow, c, in, opts)
	if err != nil {
		return Result{}, err
	}
	return s.ResultOf(r), nil
}

// ResultOf returns the result of a run of this saga, made from the run's report.
func (s *Saga[I]) ResultOf(r report.Run) Result { return Result{r} }

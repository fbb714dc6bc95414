package tcc

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// DefaultTimeout is the overall timeout of a TCC that has no timeout of its own, unless the engine
// has another default: see definition.Defaults.
const DefaultTimeout = 30 * time.Second

// DefaultRetry is the default retry policy of participants: four attempts, with delays of 1 s, 2 s
// and 4 s.
var DefaultRetry = perdure.Retry{Attempts: 4, First: time.Second, Factor: 2}

// A TCC is a definition. One goroutine builds it once, usually into a package variable. It is
// complete when it is registered; later additions have no effect. Its input is of type I. It is a
// [perdure.Workflow] too: it is registered, started and found as a workflow.
type TCC[I any] struct {
	*perdure.Workflow[I, json.RawMessage]
	def *declaration
}

// A declaration is a TCC without its types.
type declaration struct {
	name         string
	input        reflect.Type
	participants []*participant
	retry        perdure.Retry
	timeout      time.Duration // of one attempt
	parks        bool
	calls        pattern.Callbacks
	events       pattern.ExecutionEvents
	issues       []definition.Issue

	compile func() *plan // once
}

// New begins the definition of a TCC. The timeout among the options limits a whole run. A retry
// policy among them has no effect: see [TCC.Retry].
func New[I any](name string, opts ...perdure.WorkflowOption) *TCC[I] {
	d := &declaration{name: name, input: reflect.TypeFor[I](), retry: DefaultRetry}
	d.compile = sync.OnceValue(d.plan)
	return &TCC[I]{workflow[I](name, d.declare, d.callbacks,
		func(ctx context.Context, in json.RawMessage) error {
			return d.compile().run(ctx, in)
		}, opts), d}
}

// workflow makes the workflow of a TCC or a composition.
func workflow[I any](name string, declare pattern.Declared, calls pattern.Calling,
	run func(context.Context, json.RawMessage) error,
	opts []perdure.WorkflowOption) *perdure.Workflow[I, json.RawMessage] {
	opts = slices.Concat([]perdure.WorkflowOption{
		pattern.UsualTimeout(DefaultTimeout), pattern.TCC, pattern.CleansUp,
	}, opts,
		[]perdure.WorkflowOption{declare, calls})
	return perdure.Define(name, func(ctx context.Context, _ I) (json.RawMessage, error) {
		in, err := perdure.Payload[json.RawMessage](ctx)
		if err != nil {
			return nil, err
		}
		return nil, run(ctx, in)
	}, opts...)
}

// Retry sets the policy of participants that have none of their own; perdure.NoRetry means one
// attempt. The default is [DefaultRetry].
func (t *TCC[I]) Retry(r perdure.Retry) *TCC[I] {
	t.def.retry = t.def.policy("retry", r)
	return t
}

func (d *declaration) policy(where string, r perdure.Retry) perdure.Retry {
	r, issues := r.Check(where)
	d.issues = append(d.issues, issues...)
	return r
}

func (d *declaration) complain(s definition.Severity, where, message string) {
	d.issues = append(d.issues, definition.Issue{Severity: s, Where: where, Message: message})
}

// AttemptTimeout limits each attempt of participants that have no limit of their own. By default
// there is no limit. The timeout of the run ends a try that hangs, but not a confirm or a cancel,
// because a decision is always carried out. So confirms and cancels should have a limit. A confirm
// that passes its limit may have had its effect. It is tried again and, if that fails, cancelled.
func (t *TCC[I]) AttemptTimeout(limit time.Duration) *TCC[I] {
	t.def.timeout = t.def.limit("timeout", limit)
	return t
}

// limit adds an issue for a timeout that is negative or unusually long.
func (d *declaration) limit(where string, limit time.Duration) time.Duration {
	limit, issues := definition.CheckAttemptTimeout(where, limit)
	d.issues = append(d.issues, issues...)
	return limit
}

// Park makes the run wait for an operator if a confirm or a cancel has failed. The run is then
// SUSPENDED. The operator decides with [perdure.Client.Decide], for the name confirm:PARTICIPANT or
// cancel:PARTICIPANT. The choices are "retry"; "skip", which leaves it failed; and "handled", which
// records it as done after the operator has done it by hand. In a composition the name is
// confirm:ALIAS.PARTICIPANT. For a part of a workflow it is confirm:TCC.PARTICIPANT, or
// confirm:TCC.KEY.PARTICIPANT if the part has a key. Names for cancel have the same form.
func (t *TCC[I]) Park() *TCC[I] {
	t.def.parks = true
	return t
}

// On adds a callback. For it the steps are the participants. A participant is done when it has
// confirmed.
func (t *TCC[I]) On(c pattern.Callback) *TCC[I] {
	t.def.calls = append(t.def.calls, c)
	return t
}

// Publish sends the publisher an event under a topic for each start and each end of an execution,
// for each participant that has confirmed, and for each failure of a participant in a phase. A
// participant that has an event of its own sends it instead of its confirm event.
func (t *TCC[I]) Publish(topic string) *TCC[I] {
	t.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return t
}

// Execute starts a run, waits for its end and returns its result. A TCC that was cancelled or has
// failed is not an error here: the result has the outcome.
func (t *TCC[I]) Execute(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (Result, error) {
	return execute(ctx, c, t.Workflow, in, opts)
}

func execute[I any](ctx context.Context, c perdure.Caller, w *perdure.Workflow[I, json.RawMessage],
	in I, opts []perdure.StartOption) (Result, error) {
	run, err := w.Start(ctx, c, in, opts...)
	if err != nil {
		return Result{}, err
	}
	r, err := run.Final(ctx)
	return Result{r}, err
}

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

// DefaultTimeout is the overall timeout of a TCC that is given none.
const DefaultTimeout = 30 * time.Second

// DefaultRetry is the policy of participants where nothing else says so: three attempts
// more than one, after a second and then twice as long each time.
var DefaultRetry = perdure.Retry{Attempts: 4, First: time.Second, Factor: 2}

// A TCC is a definition. It is built once, usually into a package variable, by one
// goroutine; it is complete when it is registered, and what is added to it afterwards
// does not count. Input is of type I. It is a [perdure.Workflow] too: it is registered,
// started and found as one.
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
	timeout      time.Duration // of an attempt
	parks        bool
	calls        pattern.Callbacks
	events       pattern.ExecutionEvents
	issues       []definition.Issue

	compile func() *plan // once
}

// New begins the definition of a TCC. Of the options the timeout is that of a whole run; a
// retry policy among them has no meaning: see [TCC.Retry].
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
		perdure.Timeout(DefaultTimeout), pattern.TCC, pattern.CleansUp,
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

// Retry is the policy of participants that have none; perdure.NoRetry switches retries
// off. Without it [DefaultRetry].
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

// AttemptTimeout limits each attempt of participants that say nothing else; without it
// there is no limit. The timeout of the run ends a try that hangs, and no confirm or
// cancel: what is decided is carried out, so these should have a limit. A confirm that
// passes it may have had its effect, and is tried again and then cancelled.
func (t *TCC[I]) AttemptTimeout(limit time.Duration) *TCC[I] {
	t.def.timeout = t.def.limit("timeout", limit)
	return t
}

// limit tells of a timeout that is odd.
func (d *declaration) limit(where string, limit time.Duration) time.Duration {
	limit, issues := definition.CheckTimeout(where, limit)
	d.issues = append(d.issues, issues...)
	return limit
}

// Park has the run wait for an operator, SUSPENDED, where a confirm or cancel has failed.
// He decides by [perdure.Client.Decide], for the name confirm:PARTICIPANT or
// cancel:PARTICIPANT: "retry", "skip", which leaves it failed, or "handled" where he has
// done it by hand: then it is recorded as done. In a composition the name is
// confirm:ALIAS.PARTICIPANT, and of a part of a workflow confirm:TCC.PARTICIPANT, or
// confirm:TCC.KEY.PARTICIPANT where it has a key.
func (t *TCC[I]) Park() *TCC[I] {
	t.def.parks = true
	return t
}

// On adds a callback. Its steps are participants; they are done when they have confirmed.
func (t *TCC[I]) On(c pattern.Callback) *TCC[I] {
	t.def.calls = append(t.def.calls, c)
	return t
}

// Publish has the publisher told, under a topic, of each start and end of an execution,
// and of each participant that has confirmed, or has failed in a phase. A participant
// that has an event of its own tells that instead of its confirm.
func (t *TCC[I]) Publish(topic string) *TCC[I] {
	t.def.events = pattern.ExecutionEvents{On: true, Topic: topic}
	return t
}

// Execute starts a run, waits for its end and tells how it went. A TCC that was
// cancelled, or has failed, is no error here: the result says so.
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

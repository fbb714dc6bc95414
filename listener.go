package perdure

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/report"
)

// A Listener is called when runs have ended: after the end is durable, and at least once, also
// when the process dies between the end and the call. As an option of a workflow, it is called
// for the runs of that workflow. [Engine.Listen] adds one to an engine, for the workflows that
// the engine has registered. A run that continues as new does not call listeners.
//
// The error or panic of a listener goes to observers and changes nothing. A listener is called
// for at most 16 runs at a time; while it blocks, other runs go on. An engine that stops waits
// for a listener as for a step. Then the context of the call ends, and the next engine makes the
// calls that are left.
type Listener struct {
	Workflow string      // the workflow of the runs; empty for all
	Statuses []RunStatus // the ends to be called for; none for all
	Call     func(context.Context, Ended) error
	// Lifecycle marks a listener that publishes ends as events, such as bus.Lifecycle. An engine
	// with Options.NoLifecycle does not call it.
	Lifecycle bool
}

// An Ended describes a run that has ended.
type Ended struct {
	RunID      string
	FirstRunID string // of the chain of runs that continue as new
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	Status     RunStatus
	Payload    []byte // the payload that it had last
	Output     []byte
	Err        error // the error that it ended with; nil if it succeeded
	Started    time.Time
	Ended      time.Time

	report func() (report.Run, error)
}

// Report returns the report of the run.
func (e Ended) Report() (report.Run, error) { return e.report() }

func (l Listener) ApplyToWorkflow(w *sealed.Workflow) error {
	l.Workflow = w.Name
	k, err := l.kernel()
	if err == nil {
		w.Listeners = append(w.Listeners, k)
	}
	return err
}

func (l Listener) kernel() (*kernel.Listener, error) {
	if l.Call == nil {
		return nil, failure.Invalid("listener", "a listener needs a function")
	}
	for _, s := range l.Statuses {
		if !s.IsTerminal() || s == journal.ContinuedAsNew {
			return nil, failure.Invalid("listener", "nobody is told of %v", s)
		}
	}
	k := kernel.NewListener(l.Workflow, slices.Clone(l.Statuses),
		func(ctx context.Context, e kernel.End) error {
			payload, err := e.Payload()
			if err != nil {
				return err
			}
			return l.Call(ctx, Ended{
				RunID: string(e.Head.ID), FirstRunID: string(e.First),
				WorkflowID: e.Head.WorkflowID, Workflow: e.Head.Workflow,
				Pattern: e.Head.Pattern, Status: e.Head.Status,
				Payload: payload, Output: e.Outcome.Data, Err: failure.Err(e.Outcome.Failure),
				Started: e.Head.Created, Ended: e.Head.Ended,
				report: func() (report.Run, error) {
					entries, err := e.Journal()
					if err != nil {
						return report.Run{}, err
					}
					return report.New(e.Head, entries)
				},
			})
		})
	k.Lifecycle = l.Lifecycle
	return k, nil
}

// Listen adds a listener to the engine, for the ends of runs from now on, until the returned
// function is called. After a restart, the listener gets the calls that were not made before only
// if it is added before Run.
func (e *Engine) Listen(l Listener) (stop func(), err error) {
	k, err := l.kernel()
	if err != nil {
		return nil, err
	}
	return e.k.Listen(k), nil
}

// A StepInfo describes the step that is executed. See [StepOf].
type StepInfo struct {
	Step    string // its path
	Attempt int
	Run     journal.Head
	Phase   Phase // empty for no phase
	// The path without the phase: debit for try:debit. Without a phase it is the step's own path.
	Of string

	// Keys is the run that the step's idempotency key comes from: its own run, or, in a retry, the
	// first run of the chain of retries in which the step had these keys. They change when the step
	// is undone.
	Keys string
}

func infoOfStep(s kernel.StepInfo) StepInfo {
	n, _ := s.Attempt()
	return StepInfo{
		Step: s.Name(), Attempt: n, Run: s.Run(), Phase: Phase(s.Phase()), Of: s.Of(),
		Keys: string(s.Keys()),
	}
}

// around returns the kernel's interceptor for the application's interceptor.
func around(f func(context.Context, StepInfo, func(context.Context) error) error) func(
	context.Context, kernel.StepInfo, func(context.Context) *journal.Failure) *journal.Failure {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, s kernel.StepInfo,
		body func(context.Context) *journal.Failure) *journal.Failure {
		var own *journal.Failure
		err := f(ctx, infoOfStep(s), func(ctx context.Context) error {
			own = body(ctx)
			return failure.Live(own)
		})
		// nothing went wrong, or nothing besides the error of the step
		if err == nil || failure.IsOnly(err, own) {
			return own
		}
		return failure.Of(err)
	}
}
